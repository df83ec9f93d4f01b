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
    /**
     * @param {string | URL | readonly (string | URL)[]} urls
     * @param {ClientOptions} [options]
     */
    constructor(urls: string | URL | readonly (string | URL)[], options?: ClientOptions);
    /**
     * Acquires a lock that one owner holds. Throws `Held` if it is held for the whole wait.
     * @param {string} name
     * @param {LockOptions} [options]
     * @returns {Promise<Lease>}
     */
    lock(name: string, options?: LockOptions): Promise<Lease>;
    /**
     * Acquires the lock together with other readers. The lease has no fence.
     * @param {string} name
     * @param {LockOptions} [options]
     * @returns {Promise<Lease>}
     */
    read(name: string, options?: LockOptions): Promise<Lease>;
    /**
     * Acquires the lock exclusively, against readers and writers.
     * @param {string} name
     * @param {LockOptions} [options]
     * @returns {Promise<Lease>}
     */
    write(name: string, options?: LockOptions): Promise<Lease>;
    /**
     * Acquires one of several permits. All owners must use the same number.
     * @param {string} name
     * @param {number} permits
     * @param {LockOptions} [options]
     * @returns {Promise<Lease>}
     */
    permit(name: string, permits: number, options?: LockOptions): Promise<Lease>;
    /**
     * Acquires the lock if it is free. Resolves to null if it is held.
     * @param {string} name
     * @param {Omit<LockOptions, "waitMs"> & { mode?: Mode | "permits", permits?: number }} [options]
     * @returns {Promise<Lease | null>}
     */
    tryLock(name: string, { mode, permits, ...options }?: Omit<LockOptions, "waitMs"> & {
        mode?: Mode | "permits";
        permits?: number;
    }): Promise<Lease | null>;
    /**
     * Calls the function with a lease, and releases the lock afterwards. Throws `LeaseLost` if the
     * lease was lost before the function returned.
     * @template T
     * @param {string} name
     * @param {LockOptions} options
     * @param {(lease: Lease) => T | Promise<T>} work
     * @returns {Promise<T>}
     */
    withLock<T>(name: string, options: LockOptions, work: (lease: Lease) => T | Promise<T>): Promise<T>;
    #private;
}
export type ClientOptions = {
    /**
     * The bearer token.
     */
    token?: string | undefined;
    /**
     * Limits one attempt to reach one instance. 5000 by default. The time
     * to wait for a lock is added.
     */
    timeoutMs?: number | undefined;
    /**
     * A private authority (`ca`), or a client
     * certificate (`cert`, `key`).
     */
    tls?: import("tls").SecureContextOptions | undefined;
    /**
     * Name of the holder, for people. Host and process by default.
     */
    who?: string | undefined;
};
export type LockOptions = {
    /**
     * The lock expires after this time unless it is renewed. 10000 by default.
     */
    ttlMs?: number | undefined;
    /**
     * How long to wait if the lock is held. Indefinitely by default.
     */
    waitMs?: number | undefined;
    /**
     * Purpose of the lock, for people.
     */
    why?: string | undefined;
    /**
     * Calls with the same identity hold the lock at the same time, each
     * with a lease of its own.
     */
    identity?: string | undefined;
    /**
     * False disables renewals.
     */
    renew?: boolean | undefined;
    /**
     * Aborts the wait and leaves the queue.
     */
    signal?: AbortSignal | undefined;
};
export type Mode = "mutex" | "read" | "write";
import { Lease } from "./lease.js";
