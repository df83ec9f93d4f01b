/** A held lock, renewed by a timer, and its loss. */

import { now } from "./clock.js";
import { InvalidRequest, LeaseLost, ServiceError, Unavailable } from "./errors.js";

/** @typedef {import("./transport.js").Reply} Reply */
/** @typedef {import("./transport.js").Transport} Transport */

if (Symbol.asyncDispose === undefined) {
  throw new Error("Symbol.asyncDispose is missing: use Node 18.18 or later, or a polyfill");
}

/**
 * A held lock. Dispose of it with `await using`, or call `release` when done.
 *
 * A timer renews it. Check it before every write to what the lock protects, or pass `fence` along
 * with the write.
 */
export class Lease {
  #transport;
  #id;
  #fence;
  #ttlMs;
  #validUntil;
  /** @type {"held" | "lost" | "released"} */
  #state = "held";
  #loss = new AbortController();
  /** @type {NodeJS.Timeout | undefined} */
  #deadline;
  /** @type {NodeJS.Timeout | undefined} */
  #renewal;
  /** @type {"none" | "unconfirmed" | "done"} */
  #downgrade = "none";
  /** The last renewal or downgrade: only one may be in progress. @type {Promise<unknown>} */
  #sending = Promise.resolve();

  /**
   * For `Client` only.
   * @param {Transport} transport
   * @param {string} name
   * @param {{ ttlMs: number, renew: boolean }} options
   * @param {Reply} granted
   */
  constructor(transport, name, { ttlMs, renew }, granted) {
    /** The name of the lock. */
    this.name = name;
    this.#transport = transport;
    this.#id = granted.body.lease_id;
    this.#fence = granted.body.fence;
    this.#ttlMs = ttlMs;
    this.#validUntil = validUntil(granted);
    this.#watch();
    if (renew) this.#renewLater(ttlMs / 3);
  }

  /**
   * Grows with every exclusive holder of the lock. It stays below 2^52, so a number is exact.
   * Readers have none: for them this throws.
   * @returns {number}
   */
  get fence() {
    if (this.#fence === undefined) {
      throw new TypeError(`the lease of "${this.name}" has no fence: readers have none`);
    }
    return this.#fence;
  }

  /**
   * Renews and releases the lease. It is a secret. A downgrade changes it.
   * @returns {string}
   */
  get leaseId() {
    return this.#id;
  }

  /**
   * Aborted when the lease is lost, with a `LeaseLost` as its reason. A release does not abort it.
   * @returns {AbortSignal}
   */
  get signal() {
    this.remainingMs();
    return this.#loss.signal;
  }

  /**
   * Until the lease ends unless it is renewed. Zero once it is lost or released.
   * @returns {number}
   */
  remainingMs() {
    if (this.#state !== "held") return 0;
    const left = this.#validUntil - now();
    if (left > 0) return left;
    this.#lose();
    return 0;
  }

  /** Throws `LeaseLost` unless the lease is valid right now. */
  check() {
    if (this.remainingMs() > 0) return;
    if (this.#state === "released") throw new LeaseLost(`the lease of "${this.name}" was released`);
    throw this.#loss.signal.reason;
  }

  /**
   * Turns a write lease into a read lease. No other writer holds the lock in between.
   *
   * Stop writing before the call: other readers may join at once. The lease has no fence
   * afterwards, and another `leaseId`. The second call does nothing.
   *
   * Throws `InvalidRequest` if this is not a write lease; nothing has changed then. Throws
   * `LeaseLost` if the lease has ended. After any other error the downgrade may have happened:
   * renewals repeat it, and so does another call.
   * @returns {Promise<void>}
   */
  async downgrade() {
    this.check();
    await this.#exclusively(async () => {
      if (this.#downgrade === "done") return;
      const fence = this.#fence;
      this.#fence = undefined;
      this.#downgrade = "unconfirmed";
      try {
        await this.#extend();
      } catch (error) {
        if (error instanceof InvalidRequest) {
          this.#fence = fence;
          this.#downgrade = "none";
        }
        if (error instanceof LeaseLost) this.#lose();
        throw error;
      }
    });
    this.check();
  }

  /**
   * Releases the lock. The second call does nothing.
   *
   * Throws `LeaseLost` if the lease ended before, and `Unavailable` or `NoQuorum` if the release is
   * not confirmed: the lock then expires by itself.
   * @returns {Promise<void>}
   */
  async release() {
    if (this.#state === "released") return;
    this.remainingMs();
    const wasLost = this.#loss.signal.aborted;
    this.#state = "released";
    this.#stop();
    try {
      // Only the id of the read lease can release it.
      if (this.#downgrade === "unconfirmed") await this.#extend();
      // Even if the lease was lost: a late renewal may have extended it on the nodes.
      await this.#transport.send({ method: "DELETE", path: `/v1/leases/${this.#id}` });
    } catch (error) {
      if (!wasLost) throw error;
    }
    if (wasLost) throw this.#loss.signal.reason;
  }

  /**
   * Releases the lock at the end of a block. Throws `LeaseLost` if the lease ended before.
   * @returns {Promise<void>}
   */
  async [Symbol.asyncDispose]() {
    try {
      await this.release();
    } catch (error) {
      // Otherwise the lease was valid to the end of the block. It expires by itself.
      if (!(error instanceof ServiceError || error instanceof Unavailable)) throw error;
    }
  }

  /** Reports the loss at the deadline, even while a renewal is in progress. */
  #watch() {
    const left = this.remainingMs();
    if (left === 0) return;
    this.#deadline = setTimeout(() => this.#watch(), Math.min(Math.ceil(left), TIMER_MAX));
    this.#deadline.unref();
  }

  /** @param {number} delayMs */
  #renewLater(delayMs) {
    this.#renewal = setTimeout(() => void this.#renew(), Math.min(delayMs, TIMER_MAX));
    this.#renewal.unref();
  }

  async #renew() {
    const left = this.remainingMs();
    if (left === 0) return;
    // Time must remain for the other URLs.
    const timeoutMs = Math.min(this.#transport.timeoutMs, left / (this.#transport.size + 1));
    let pause = this.#ttlMs / 3;
    try {
      await this.#exclusively(() => this.#extend({ timeoutMs, isBackground: true }));
    } catch (error) {
      if (error instanceof LeaseLost) this.#lose();
      const after = error instanceof ServiceError ? (error.retryAfterMs ?? 0) : 0;
      pause = Math.min(Math.max(after, 50), this.remainingMs() / 4);
    }
    if (this.remainingMs() > 0) this.#renewLater(pause);
  }

  /**
   * Extends the lease. The nodes may have executed a downgrade without confirming it, so it is
   * repeated until it is confirmed. It also extends the lease.
   * @param {import("./transport.js").SendOptions} [options]
   */
  async #extend(options) {
    const action = this.#downgrade === "unconfirmed" ? "downgrade" : "renew";
    const request = { method: "POST", path: `/v1/leases/${this.#id}/${action}` };
    const reply = await this.#transport.send(request, options);
    if (action === "downgrade") {
      this.#id = reply.body.lease_id;
      this.#downgrade = "done";
    }
    // Ignored if the lease has ended, no matter how late that is noticed.
    if (this.remainingMs() > 0) this.#validUntil = validUntil(reply);
  }

  /**
   * Runs after earlier renewals and downgrades have ended.
   * @param {() => Promise<void>} work
   */
  #exclusively(work) {
    const result = this.#sending.then(work);
    this.#sending = result.catch(() => {});
    return result;
  }

  #lose() {
    if (this.#state !== "held") return;
    this.#state = "lost";
    this.#stop();
    const text = `the lease of "${this.name}" was lost: another owner may hold the lock`;
    this.#loss.abort(new LeaseLost(text));
  }

  #stop() {
    clearTimeout(this.#deadline);
    clearTimeout(this.#renewal);
  }
}

/**
 * When the lease ends. It counts from before the request was sent, so neither a slow response nor a
 * pause of this process extends it.
 * @param {Reply} reply
 * @returns {number}
 */
export function validUntil({ sentAt, body }) {
  return sentAt + (body.waited_ms + body.valid_for_ms) * (1 - DRIFT);
}

/** Part of a duration by which this clock and that of the service may disagree. */
const DRIFT = 0.0005;

/** Timers cannot be longer. */
const TIMER_MAX = 2 ** 31 - 1;
