/** Acquiring, sharing, waiting and releasing. */

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import net from "node:net";
import path from "node:path";
import { test } from "node:test";

import { Client, Held, InvalidRequest, LeaseLost, Unavailable } from "quorate";

import { Instance, eventually, freshName, urls, waiting } from "./service.js";

test("lock is held inside the block and free after it", async () => {
  const [client, name] = [new Client(urls(), { who: "tests" }), freshName()];
  const lease = await client.lock(name, { why: "import" });
  assert.equal(await client.tryLock(name), null);
  assert.ok(lease.remainingMs() > 0 && lease.remainingMs() <= 10_000);
  assert.ok(Number.isSafeInteger(lease.fence));
  lease.check();
  await assert.rejects(client.lock(name, { waitMs: 200 }), (error) => {
    assert.ok(error instanceof Held);
    assert.deepEqual([error.code, error.status], ["held", 409]);
    assert.equal(error.holder?.who, "tests (import)");
    return true;
  });
  await lease[Symbol.asyncDispose]();
  assert.equal(lease.remainingMs(), 0);
  assert.equal(lease.signal.aborted, false, "a release is not a loss");
  assert.throws(() => lease.check(), LeaseLost);
  const after = await client.lock(name, { waitMs: 0 });
  assert.ok(after.fence > lease.fence);
  await after.release();
  await after.release();
});

test("withLock returns the result and releases after an exception", async () => {
  const [client, name] = [new Client(urls()), freshName()];
  assert.equal(await client.withLock(name, {}, (lease) => lease.name), name);
  const broken = client.withLock(name, {}, () => {
    throw new Error("broken");
  });
  await assert.rejects(broken, /broken/);
  await (await client.lock(name, { waitMs: 0 })).release();
});

test("many waiters get the lock one after the other", async () => {
  const [client, name, fences] = [new Client(urls()), freshName(), []];
  let holders = 0;
  const work = async (lease) => {
    holders += 1;
    assert.equal(holders, 1);
    await new Promise(setImmediate);
    fences.push(lease.fence);
    holders -= 1;
  };
  const options = { ttlMs: 20_000, waitMs: 30_000 };
  await Promise.all(Array.from({ length: 50 }, () => client.withLock(name, options, work)));
  assert.deepEqual(fences, [...new Set(fences)].sort((a, b) => a - b));
  assert.equal(fences.length, 50);
});

test("wait continues after the service cuts it", async (t) => {
  const instance = await Instance.start({ args: ["--max-wait", "50ms"] });
  t.after(() => instance.close());
  const [client, name] = [new Client(instance.url), freshName()];
  const first = await client.lock(name);
  let isReleased = false;
  setTimeout(() => {
    isReleased = true;
    void first.release();
  }, 500);
  const second = await client.lock(name);
  assert.ok(isReleased);
  await second.release();
});

test("aborted waiter leaves the queue", async () => {
  const [client, name] = [new Client(urls()), freshName()];
  const held = await client.lock(name);
  const stop = new AbortController();
  const waiter = client.lock(name, { signal: stop.signal });
  await eventually("it waits", async () => (await waiting(urls()[0], name)) === 1);
  stop.abort(new Error("not needed any more"));
  await assert.rejects(waiter, /not needed any more/);
  await eventually("it is gone", async () => (await waiting(urls()[0], name)) === 0);
  await held.release();
  await (await client.lock(name, { waitMs: 10_000 })).release();
});

test("readers share and writers exclude", async () => {
  const [client, name] = [new Client(urls()), freshName()];
  const readers = [await client.read(name), await client.read(name, { waitMs: 0 })];
  assert.throws(() => readers[0].fence, /readers have none/);
  assert.equal(await client.tryLock(name, { mode: "write" }), null);
  await Promise.all(readers.map((lease) => lease.release()));
  const writer = await client.write(name, { waitMs: 10_000 });
  assert.equal(await client.tryLock(name, { mode: "read" }), null);
  await writer.release();
});

test("downgraded writer admits readers and excludes writers", async () => {
  const [client, name] = [new Client(urls()), freshName()];
  const lease = await client.write(name, { ttlMs: 3_000 });
  const writerId = lease.leaseId;
  assert.equal(await client.tryLock(name, { mode: "read" }), null);
  await lease.downgrade();
  assert.throws(() => lease.fence, /readers have none/);
  assert.notEqual(lease.leaseId, writerId);
  const reader = await client.read(name, { waitMs: 0 });
  assert.equal(await client.tryLock(name, { mode: "write" }), null);
  await reader.release();
  await lease.downgrade();
  await new Promise((resolve) => setTimeout(resolve, 4_000));
  lease.check();
  await lease.release();
  await (await client.write(name, { waitMs: 0 })).release();
});

test("downgrade rejects readers and ended leases", async () => {
  const [client, name] = [new Client(urls()), freshName()];
  const reader = await client.read(name);
  await assert.rejects(reader.downgrade(), InvalidRequest);
  reader.check();
  await reader.release();
  await assert.rejects(reader.downgrade(), LeaseLost);
});

test("unconfirmed downgrade is repeated by the renewal", async (t) => {
  const instance = await Instance.start();
  t.after(() => instance.close());
  const name = freshName();
  const lease = await new Client(instance.url, { timeoutMs: 200 }).write(name, { ttlMs: 6_000 });
  instance.stop();
  await assert.rejects(lease.downgrade(), Unavailable);
  instance.resume();
  assert.throws(() => lease.fence, /readers have none/);
  const client = new Client(instance.url);
  const reader = await client.read(name, { waitMs: 5_000 });
  lease.check();
  await reader.release();
  await lease.release();
  await (await client.write(name, { waitMs: 0 })).release();
});

test("leases of one identity hold the lock together", async () => {
  const [client, name] = [new Client(urls()), freshName()];
  const outer = await client.lock(name, { identity: "one" });
  const inner = await client.lock(name, { identity: "one", waitMs: 0 });
  assert.ok(inner.fence >= outer.fence);
  await outer.release();
  assert.equal(await client.tryLock(name, { identity: "other" }), null);
  await inner.release();
  await (await client.lock(name, { waitMs: 10_000 })).release();
});

test("permits limit the number of holders", async () => {
  const [client, name] = [new Client(urls()), freshName()];
  const held = [await client.permit(name, 2), await client.permit(name, 2, { waitMs: 0 })];
  assert.equal(await client.tryLock(name, { mode: "permits", permits: 2 }), null);
  await Promise.all(held.map((lease) => lease.release()));
  await (await client.permit(name, 2, { waitMs: 10_000 })).release();
});

test("lease outlives its ttl by renewals", async () => {
  const [client, name] = [new Client(urls()), freshName()];
  const lease = await client.lock(name, { ttlMs: 3_000 });
  let [before, renewals] = [lease.remainingMs(), 0];
  await eventually("four renewals", () => {
    lease.check();
    const left = lease.remainingMs();
    if (left > before + 50) renewals += 1;
    before = left;
    return renewals >= 4;
  });
  await lease.release();
});

test("next URL serves what the first one does not", async () => {
  const name = freshName();
  const dead = "http://127.0.0.1:1";
  const client = new Client([dead, ...urls()]);
  const lease = await client.lock(name);
  assert.equal(await client.tryLock(name), null);
  await lease.release();
  await assert.rejects(new Client(dead).lock(name), (error) => {
    assert.ok(error instanceof Unavailable && error.code === "unavailable");
    assert.match(error.message, /127\.0\.0\.1:1/);
    return true;
  });
});

test("request that lost its response gets the same lease elsewhere", async (t) => {
  const first = await Instance.start();
  t.after(() => first.close());
  const second = await Instance.start({ shares: first });
  t.after(() => second.close());
  let requests = 0;
  // Forwards each request to the service, and keeps the response to itself.
  const relay = net.createServer((client) => {
    const service = net.connect(Number(new URL(first.url).port), "127.0.0.1");
    client.on("error", () => {}).pipe(service);
    service.once("data", () => {
      requests += 1;
      client.destroy();
    });
  });
  await new Promise((resolve) => relay.listen(0, "127.0.0.1", resolve));
  t.after(() => relay.close());
  const name = freshName();
  const client = new Client([`http://127.0.0.1:${relay.address().port}`, second.url]);
  const lease = await client.lock(name, { ttlMs: 20_000, waitMs: 0 });
  assert.equal(requests, 1);
  assert.equal(await new Client(first.url).tryLock(name), null);
  await lease.release();
  await (await new Client(first.url).lock(name, { waitMs: 0 })).release();
});

test("tokens are required and limited to their prefix", async (t) => {
  const binary = process.env.QUORATE_TEST_BINARY;
  const made = spawnSync(binary, ["token", "ci", "--prefix", "ci:"], { encoding: "utf8" });
  const [token] = /qt_\w+/.exec(made.stderr);
  const plain = await Instance.start();
  t.after(() => plain.close());
  const file = path.join(plain.folder, "tokens.toml");
  writeFileSync(file, made.stdout);
  const instance = await Instance.start({ args: ["--tokens", file] });
  t.after(() => instance.close());
  await assert.rejects(new Client(instance.url).lock("ci:a"), { code: "unauthorized" });
  await assert.rejects(new Client(instance.url, { token }).lock("other"), { code: "forbidden" });
  await (await new Client(instance.url, { token }).lock("ci:a")).release();
});

test("certificate of the service is verified", async (t) => {
  const plain = await Instance.start();
  t.after(() => plain.close());
  const [key, cert] = ["key.pem", "cert.pem"].map((name) => path.join(plain.folder, name));
  const command = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test -addext";
  const args = [...command.split(" "), "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert];
  execFileSync("openssl", args, { stdio: "pipe" });
  const instance = await Instance.start({ args: ["--tls-key", key, "--tls-cert", cert] });
  t.after(() => instance.close());
  await assert.rejects(new Client(instance.url).lock("a"), /self-signed certificate/);
  const client = new Client(instance.url, { tls: { ca: readFileSync(cert) } });
  await (await client.lock("a")).release();
});

test("invalid values are rejected with a reason", async () => {
  const client = new Client(urls());
  await assert.rejects(client.lock("a", { ttlMs: 0 }), /invalid ttlMs 0/);
  await assert.rejects(client.lock("a", { waitMs: -1 }), /invalid waitMs -1/);
  await assert.rejects(client.lock(""), /not empty/);
  await assert.rejects(client.lock("a", { ttlMs: 1e12 }), InvalidRequest);
  for (const url of ["localhost", "ftp://a", "http://"]) {
    assert.throws(() => new Client(url), /invalid service URL/);
  }
  assert.throws(
    () => new Client("http://user:secret@a"),
    (error) => !error.message.includes("secret"),
  );
  assert.throws(() => new Client([]), /at least one/);
});
