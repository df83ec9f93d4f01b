/** A lease is never reported as valid after its deadline. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import readline from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { Client, LeaseLost } from "quorate";

import { Instance, PATIENCE_MS, aborted, eventually, freshName, waiting } from "./service.js";

const WAIT = { waitMs: PATIENCE_MS };

async function start(t, options) {
  const instance = await Instance.start(options);
  t.after(() => instance.close());
  return instance;
}

function assertLost(lease) {
  assert.equal(lease.remainingMs(), 0);
  assert.ok(lease.signal.aborted);
  assert.ok(lease.signal.reason instanceof LeaseLost);
  assert.throws(() => lease.check(), { code: "lease_lost" });
}

test("lease is lost when the service is killed", async (t) => {
  const instance = await start(t);
  const lease = await new Client(instance.url).lock(freshName(), { ttlMs: 2_000 });
  await instance.kill();
  await aborted(lease.signal);
  assertLost(lease);
});

test("lease is lost when the service is stopped and stays lost afterwards", async (t) => {
  const [instance, name] = [await start(t), freshName()];
  const lease = await new Client(instance.url, { timeoutMs: 500 }).lock(name, { ttlMs: 2_000 });
  instance.stop();
  await aborted(lease.signal);
  assertLost(lease);
  instance.resume();
  const other = await new Client(instance.url).lock(name, WAIT);
  assert.ok(other.fence > lease.fence);
  assertLost(lease);
  await assert.rejects(lease.release(), LeaseLost);
  other.check();
  assert.equal(await new Client(instance.url).tryLock(name), null);
  await other.release();
});

test("withLock throws if the lease was lost, but the error of the function goes first", async (t) => {
  const [instance, name] = [await start(t), freshName()];
  const client = new Client(instance.url, { timeoutMs: 500 });
  const options = { ttlMs: 2_000 };
  const first = client.withLock(name, options, async (lease) => {
    instance.stop();
    await aborted(lease.signal);
  });
  await assert.rejects(first, LeaseLost);
  instance.resume();
  const second = client.withLock(name, options, async (lease) => {
    instance.stop();
    await aborted(lease.signal);
    throw new RangeError("mine");
  });
  await assert.rejects(second, RangeError);
});

test("blocked event loop does not hide the loss", async (t) => {
  const instance = await start(t);
  const lease = await new Client(instance.url).lock(freshName(), { ttlMs: 2_000 });
  const until = performance.now() + 2_100;
  while (performance.now() < until);
  assertLost(lease);
});

test("lease that ended at the service is lost at the next renewal", async (t) => {
  const instance = await start(t);
  // Without the renewal, the loss would come after the patience has ended.
  const ttlMs = (PATIENCE_MS * 4) / 3;
  const lease = await new Client(instance.url).lock(freshName(), { ttlMs });
  // Another process that knows the lease id releases it.
  await fetch(`${instance.url}/v1/leases/${lease.leaseId}`, { method: "DELETE" });
  await aborted(lease.signal);
  assertLost(lease);
});

test("renewals go to another instance", async (t) => {
  const [first, name] = [await start(t), freshName()];
  const second = await start(t, { shares: first });
  const client = new Client([first.url, second.url], { timeoutMs: 500 });
  const lease = await client.lock(name, { ttlMs: 6_000 });
  first.stop();
  const until = performance.now() + 6_000;
  await eventually("the ttl passes", () => performance.now() > until);
  lease.check();
  await lease.release();
  await (await new Client(second.url).lock(name, { waitMs: 0 })).release();
});

test("process that was paused notices the loss at its first step", async (t) => {
  const [instance, name] = [await start(t), freshName()];
  const paused = new Other(instance.url, name, 0);
  assert.equal(await paused.line(), "held");
  paused.process.kill("SIGSTOP");
  const other = await new Client(instance.url).lock(name, WAIT);
  paused.process.kill("SIGCONT");
  assert.equal(await paused.line(), "remaining 0 aborted true");
  await other.release();
});

test("response that arrives too late gives no lease", async (t) => {
  const [instance, name] = [await start(t), freshName()];
  const client = new Client(instance.url);
  const holder = await client.lock(name);
  const paused = new Other(instance.url, name, 20_000);
  await eventually("it waits", async () => (await waiting(instance.url, name)) === 1);
  paused.process.kill("SIGSTOP");
  await holder.release();
  // The lock that the stopped process was granted expires.
  await (await client.lock(name, WAIT)).release();
  paused.process.kill("SIGCONT");
  assert.equal(await paused.line(), "lease_lost");
});

test("held lock does not keep the process alive", async (t) => {
  const [instance, name] = [await start(t), freshName()];
  const child = new Other(instance.url, name, 0, "leave");
  const [code] = await once(child.process, "exit");
  assert.equal(code, 0);
});

/** Another process, which acquires the lock and reports the state of its lease. */
class Other {
  constructor(url, name, waitMs, last = "spin") {
    const code = `
      import { writeSync } from "node:fs";
      import { Client } from "quorate";
      const [url, name, waitMs, last] = process.argv.slice(1);
      try {
        const client = new Client(url, { timeoutMs: 30_000 });
        const lease = await client.lock(name, { ttlMs: 2_000, waitMs: Number(waitMs) });
        if (last === "spin") {
          // The event loop gets no chance: what the first step sees must be right.
          writeSync(1, "held\\n");
          while (lease.remainingMs() > 0);
          console.log("remaining", lease.remainingMs(), "aborted", lease.signal.aborted);
        }
      } catch (error) { console.log(error.code ?? error); }`;
    const args = ["--input-type=module", "-e", code, "--", url, name, String(waitMs), last];
    const cwd = fileURLToPath(new URL("..", import.meta.url));
    this.process = spawn(process.execPath, args, { cwd, stdio: ["ignore", "pipe", "inherit"] });
    this.lines = readline.createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
  }

  async line() {
    return (await this.lines.next()).value;
  }
}
