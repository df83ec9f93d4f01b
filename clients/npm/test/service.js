/**
 * Real services for the tests.
 *
 * `QUORATE_TEST_URLS` has the URLs of at least two instances that share their locks, separated by
 * commas. `QUORATE_TEST_BINARY` is the program `quorate`, for tests that stop or kill an instance.
 */

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import readline from "node:readline";
import { setTimeout as delay } from "node:timers/promises";

export const PATIENCE_MS = 30_000;

export function urls() {
  const found = required("QUORATE_TEST_URLS").split(",");
  if (found.length < 2) throw new Error("QUORATE_TEST_URLS needs the URLs of two instances");
  return found;
}

function required(variable) {
  const value = process.env[variable];
  if (!value) throw new Error(`${variable} is not set: see test/service.js`);
  return value;
}

/** A lock that no other test uses. Its name needs encoding in a URL. */
export function freshName() {
  return `node/${randomUUID()} ü%?#`;
}

export async function eventually(what, isSo) {
  const deadline = performance.now() + PATIENCE_MS;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`not within ${PATIENCE_MS} ms: ${what}`);
    await delay(10);
  }
}

/** The timers of a lease do not keep the process alive, but those of this loop do. */
export function aborted(signal) {
  return eventually("the lease is lost", () => signal.aborted);
}

/** How many wait for a lock. */
export async function waiting(url, name) {
  const response = await fetch(`${url}/v1/locks/${encodeURIComponent(name)}`);
  return (await response.json()).waiting;
}

/** An instance of its own, with locks of its own unless it shares those of another one. */
export class Instance {
  static async start({ args = [], shares } = {}) {
    const instance = new Instance();
    instance.folder = shares?.folder ?? mkdtempSync(path.join(os.tmpdir(), "quorate-"));
    instance.isOwner = shares === undefined;
    const own = Object.entries(process.env).filter(([name]) => !name.startsWith("QUORATE"));
    const env = { ...Object.fromEntries(own), QUORATE_DIR: path.join(instance.folder, "locks") };
    const all = ["serve", "--listen", "127.0.0.1:0", ...args];
    const stdio = ["ignore", "ignore", "pipe"];
    instance.process = spawn(required("QUORATE_TEST_BINARY"), all, { env, stdio });
    for await (const line of readline.createInterface({ input: instance.process.stderr })) {
      const found = /listening on (\S+)/.exec(line);
      if (found) {
        instance.url = found[1];
        // Later output must not fill the pipe.
        instance.process.stderr.resume();
        return instance;
      }
    }
    throw new Error("the service does not listen");
  }

  stop() {
    this.process.kill("SIGSTOP");
  }

  resume() {
    this.process.kill("SIGCONT");
  }

  async kill() {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    this.process.kill("SIGKILL");
    await once(this.process, "exit");
  }

  async close() {
    await this.kill();
    if (this.isOwner) rmSync(this.folder, { recursive: true, force: true });
  }
}
