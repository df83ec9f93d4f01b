/**
 * When the lease ends. It counts from before the request was sent, so neither a slow response nor a
 * pause of this process extends it.
 * @param {Reply} reply
 * @returns {number}
 */
export function validUntil({ sentAt, body }: Reply): number;
/**
 * A held lock. Dispose of it with `await using`, or call `release` when done.
 *
 * A timer renews it. Check it before every write to what the lock protects, or pass `fence` along
 * with the write.
 */
export class Lease {
    /**
     * For `Client` only.
     * @param {Transport} transport
     * @param {string} name
     * @param {{ ttlMs: number, renew: boolean }} options
     * @param {Reply} granted
     */
    constructor(transport: Transport, name: string, { ttlMs, renew }: {
        ttlMs: number;
        renew: boolean;
    }, granted: Reply);
    /** The name of the lock. */
    name: string;
    /**
     * Grows with every exclusive holder of the lock. It stays below 2^52, so a number is exact.
     * Readers have none: for them this throws.
     * @returns {number}
     */
    get fence(): number;
    /**
     * Renews and releases the lease. It is a secret. A downgrade changes it.
     * @returns {string}
     */
    get leaseId(): string;
    /**
     * Aborted when the lease is lost, with a `LeaseLost` as its reason. A release does not abort it.
     * @returns {AbortSignal}
     */
    get signal(): AbortSignal;
    /**
     * Until the lease ends unless it is renewed. Zero once it is lost or released.
     * @returns {number}
     */
    remainingMs(): number;
    /** Throws `LeaseLost` unless the lease is valid right now. */
    check(): void;
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
    downgrade(): Promise<void>;
    /**
     * Releases the lock. The second call does nothing.
     *
     * Throws `LeaseLost` if the lease ended before, and `Unavailable` or `NoQuorum` if the release is
     * not confirmed: the lock then expires by itself.
     * @returns {Promise<void>}
     */
    release(): Promise<void>;
    /**
     * Releases the lock at the end of a block. Throws `LeaseLost` if the lease ended before.
     * @returns {Promise<void>}
     */
    [Symbol.asyncDispose](): Promise<void>;
    #private;
}
export type Reply = import("./transport.js").Reply;
export type Transport = import("./transport.js").Transport;
