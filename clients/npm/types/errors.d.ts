/**
 * The error for a response that is not a success.
 * @param {number} status
 * @param {Problem} problem
 * @returns {QuorateError}
 */
export function fromResponse(status: number, problem: Problem): QuorateError;
/** Errors. Every error of this package is a `QuorateError` and has a stable `code`. */
/**
 * @typedef {object} Problem
 * @property {string} [code]
 * @property {string} [detail]
 * @property {number} [retry_after_ms]
 * @property {{ who: string, expires_in_ms?: number }} [holder]
 */
/**
 * The holder of a lock, as the nodes reported it.
 * @typedef {object} Holder
 * @property {string} who
 * @property {number | undefined} expiresInMs Until the lock expires unless the holder renews it.
 */
/** Base class of all errors of this package. */
export class QuorateError extends Error {
    /**
     * @param {string} code
     * @param {string} message
     * @param {ErrorOptions} [options]
     */
    constructor(code: string, message: string, options?: ErrorOptions);
    /** Which error it is. Codes never change their meaning. */
    code: string;
}
/** No URL of the service answered. An acquire may have succeeded: its lease then expires. */
export class Unavailable extends QuorateError {
    /**
     * @param {string} message
     * @param {ErrorOptions} [options]
     */
    constructor(message: string, options?: ErrorOptions);
}
/** The lease has ended: it expired or was released. Another owner may hold the lock. */
export class LeaseLost extends QuorateError {
    /** @param {string} message */
    constructor(message: string);
}
/** The service rejected the request. */
export class ServiceError extends QuorateError {
    /**
     * @param {number} status
     * @param {Problem} problem
     */
    constructor(status: number, problem: Problem);
    /** The HTTP status. */
    status: number;
    /** @type {number | undefined} When a retry makes sense, if the service suggests one. */
    retryAfterMs: number | undefined;
}
/** Another owner holds the lock, or held it for the whole wait. */
export class Held extends ServiceError {
    /** @type {Holder | undefined} The holder, if the service knows it. */
    holder: Holder | undefined;
}
/** Too few nodes answered to decide. */
export class NoQuorum extends ServiceError {
}
/** The instance is shutting down. */
export class ShuttingDown extends ServiceError {
}
/** The request has no valid token. */
export class Unauthorized extends ServiceError {
}
/** The token does not allow this lock or this operation. */
export class Forbidden extends ServiceError {
}
/** The name, the ttl, the permits or another value is invalid. */
export class InvalidRequest extends ServiceError {
}
/** Another request with the same idempotency key holds the lock. */
export class IdempotencyConflict extends ServiceError {
}
/** The token exceeds a limit: requests, waits or leases. */
export class TooMany extends ServiceError {
}
export type Problem = {
    code?: string | undefined;
    detail?: string | undefined;
    retry_after_ms?: number | undefined;
    holder?: {
        who: string;
        expires_in_ms?: number;
    } | undefined;
};
/**
 * The holder of a lock, as the nodes reported it.
 */
export type Holder = {
    who: string;
    /**
     * Until the lock expires unless the holder renews it.
     */
    expiresInMs: number | undefined;
};
