// Checks the types that users see. It is compiled, never run.

import { Client, Held, LeaseLost, type Holder, type Lease, type LockOptions } from "quorate";

const client = new Client(["http://lock-1:8420", new URL("http://lock-2:8420")], { token: "qt_" });
const options: LockOptions = { ttlMs: 10_000, waitMs: 30_000 };

export async function work(): Promise<string> {
  await using lease = await client.lock("orders:42", options);
  const fence: number = lease.fence;
  const signal: AbortSignal = lease.signal;
  lease.check();
  await fetch("http://orders/42", { method: "PUT", signal, body: String(fence) });
  const maybe: Lease | null = await client.tryLock("a", { mode: "permits", permits: 3 });
  await maybe?.release();
  return await client.withLock("b", {}, async (held) => held.name);
}

export function explain(error: unknown): string | undefined {
  if (error instanceof Held) {
    const holder: Holder | undefined = error.holder;
    return holder?.who;
  }
  return error instanceof LeaseLost ? error.code : undefined;
}

// @ts-expect-error a try does not wait
void client.tryLock("a", { waitMs: 1 });
// @ts-expect-error there is no such mode
void client.tryLock("a", { mode: "shared" });
