/** The client. */

import { randomUUID } from "node:crypto";
import os from "node:os";
import { setTimeout as delay } from "node:timers/promises";

import { now } from "./clock.js";
import { Held, LeaseLost } from "./errors.js";
import { Lease, validUntil } from "./lease.js";
import { Transport } from "./transport.js";

/**
 * @typedef {object} ClientOptions
 * @property {string} [token] The bearer token.
 * @property {number} [timeoutMs] Limits one attempt to reach one instance. 5000 by default. The time
 *   to wait for a lock is added.
 * @property {import("node:tls").SecureContextOptions} [tls] A private authority (`ca`), or a client
 *   certificate (`cert`, `key`).
 * @property {string} [who] Name of the holder, for people. Host and process by default.
 */

/**
 * @typedef {object} LockOptions
 * @property {number} [ttlMs] The lock expires after this time unless it is renewed. 10000 by default.
 * @property {number} [waitMs] How long to wait if the lock is held. Indefinitely by default.
 * @property {string} [why] Purpose of the lock, for people.
 * @property {string} [identity] Calls with the same identity hold the lock at the same time, each
 *   with a lease of its own.
 * @property {boolean} [renew] False disables renewals.
 * @property {AbortSignal} [signal] Aborts the wait and leaves the queue.
 */

/** @typedef {"mutex" | "read" | "write"} Mode */

/**
 * A client of the service.
 *
 * `urls` is one URL, or several of instances that share their nodes: a request that one of them does
 * not serve goes to the next one.
 */
export class Client {
  #transport;
  #who;

  /**
   * @param {string | URL | readonly (string | URL)[]} urls
   * @param {ClientOptions} [options]
   */
  constructor(urls, options = {}) {
    this.#transport = new Transport(urls, options);
    this.#who = options.who ?? `${os.hostname()}/${process.pid}`;
  }

  /**
   * Acquires a lock that one owner holds. Throws `Held` if it is held for the whole wait.
   * @param {string} name
   * @param {LockOptions} [options]
   * @returns {Promise<Lease>}
   */
  lock(name, options = {}) {
    return this.#acquire(name, options, { mode: "mutex" });
  }

  /**
   * Acquires the lock together with other readers. The lease has no fence.
   * @param {string} name
   * @param {LockOptions} [options]
   * @returns {Promise<Lease>}
   */
  read(name, options = {}) {
    return this.#acquire(name, options, { mode: "read" });
  }

  /**
   * Acquires the lock exclusively, against readers and writers.
   * @param {string} name
   * @param {LockOptions} [options]
   * @returns {Promise<Lease>}
   */
  write(name, options = {}) {
    return this.#acquire(name, options, { mode: "write" });
  }

  /**
   * Acquires one of several permits. All owners must use the same number.
   * @param {string} name
   * @param {number} permits
   * @param {LockOptions} [options]
   * @returns {Promise<Lease>}
   */
  permit(name, permits, options = {}) {
    return this.#acquire(name, options, { mode: "permits", permits });
  }

  /**
   * Acquires the lock if it is free. Resolves to null if it is held.
   * @param {string} name
   * @param {Omit<LockOptions, "waitMs"> & { mode?: Mode | "permits", permits?: number }} [options]
   * @returns {Promise<Lease | null>}
   */
  async tryLock(name, { mode = "mutex", permits, ...options } = {}) {
    try {
      return await this.#acquire(name, { ...options, waitMs: 0 }, { mode, permits });
    } catch (error) {
      if (error instanceof Held) return null;
      throw error;
    }
  }

  /**
   * Calls the function with a lease, and releases the lock afterwards. Throws `LeaseLost` if the
   * lease was lost before the function returned.
   * @template T
   * @param {string} name
   * @param {LockOptions} options
   * @param {(lease: Lease) => T | Promise<T>} work
   * @returns {Promise<T>}
   */
  async withLock(name, options, work) {
    const lease = await this.lock(name, options);
    let result;
    try {
      result = await work(lease);
    } catch (error) {
      // The error of the function takes precedence over that of the release.
      await lease[Symbol.asyncDispose]().catch(() => {});
      throw error;
    }
    await lease[Symbol.asyncDispose]();
    return result;
  }

  /**
   * @param {string} name
   * @param {LockOptions} options
   * @param {{ mode: Mode | "permits", permits?: number }} kind
   * @returns {Promise<Lease>}
   */
  async #acquire(name, options, kind) {
    const { ttlMs = 10_000, waitMs = Infinity, renew = true, signal } = options;
    const { why, identity } = options;
    if (typeof name !== "string" || name === "") {
      throw new TypeError("the name of a lock must be a string that is not empty");
    }
    if (!(Number.isFinite(ttlMs) && ttlMs > 0)) {
      throw new RangeError(`invalid ttlMs ${ttlMs}: use a positive number of milliseconds`);
    }
    if (!(waitMs >= 0)) {
      throw new RangeError(`invalid waitMs ${waitMs}: use milliseconds, or leave it out`);
    }
    signal?.throwIfAborted();
    const path = `/v1/locks/${encodeURIComponent(name)}/acquire`;
    const request = { ttl_ms: Math.ceil(ttlMs), who: this.#who, why, identity, ...kind };
    const granted = await this.#send(path, request, waitMs, signal);
    if (validUntil(granted) > now()) {
      return new Lease(this.#transport, name, { ttlMs, renew }, granted);
    }
    const release = { method: "DELETE", path: `/v1/leases/${granted.body.lease_id}` };
    // If the release fails, the lease expires by itself.
    await this.#transport.send(release).catch(() => {});
    throw new LeaseLost(`the lease of "${name}" expired before the response arrived`);
  }

  /**
   * Repeats the request until the lock is granted or the wait ends: the service limits long waits.
   * @param {string} path
   * @param {object} request
   * @param {number} waitMs
   * @param {AbortSignal | undefined} signal
   */
  async #send(path, request, waitMs, signal) {
    const until = now() + waitMs;
    for (;;) {
      const sentAt = now();
      const wait = Math.min(Math.max(until - sentAt, 0), REQUEST_WAIT_MAX_MS);
      const body = JSON.stringify({ ...request, wait_ms: Math.ceil(wait) });
      // A repeated request with the same key gets the same lease.
      const headers = { "Content-Type": "application/json", "Idempotency-Key": randomUUID() };
      const sent = { method: "POST", path, body, headers };
      try {
        return await this.#transport.send(sent, { waitMs: wait, signal });
      } catch (error) {
        if (!(error instanceof Held) || now() >= until) throw error;
      }
      // Not in a busy loop, in case the service does not wait at all.
      await delay(Math.min(Math.max(sentAt + POLL_MIN_MS - now(), 0), wait), null, { signal });
    }
  }
}

/** Longest wait of one request. */
const REQUEST_WAIT_MAX_MS = 60_000;

/** Shortest time between two requests of one wait. */
const POLL_MIN_MS = 100;
