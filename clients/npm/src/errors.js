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
  constructor(code, message, options) {
    super(message, options);
    this.name = new.target.name;
    /** Which error it is. Codes never change their meaning. */
    this.code = code;
  }
}

/** No URL of the service answered. An acquire may have succeeded: its lease then expires. */
export class Unavailable extends QuorateError {
  /**
   * @param {string} message
   * @param {ErrorOptions} [options]
   */
  constructor(message, options) {
    super("unavailable", message, options);
  }
}

/** The lease has ended: it expired or was released. Another owner may hold the lock. */
export class LeaseLost extends QuorateError {
  /** @param {string} message */
  constructor(message) {
    super("lease_lost", message);
  }
}

/** The service rejected the request. */
export class ServiceError extends QuorateError {
  /**
   * @param {number} status
   * @param {Problem} problem
   */
  constructor(status, problem) {
    const code = problem.code ?? `http_${status}`;
    super(code, `${problem.detail ?? `HTTP status ${status}`} (${code})`);
    /** The HTTP status. */
    this.status = status;
    /** @type {number | undefined} When a retry makes sense, if the service suggests one. */
    this.retryAfterMs = problem.retry_after_ms;
  }
}

/** Another owner holds the lock, or held it for the whole wait. */
export class Held extends ServiceError {
  /**
   * @param {number} status
   * @param {Problem} problem
   */
  constructor(status, problem) {
    super(status, problem);
    const { holder } = problem;
    /** @type {Holder | undefined} The holder, if the service knows it. */
    this.holder = holder && { who: holder.who, expiresInMs: holder.expires_in_ms };
  }
}

/** Too few nodes answered to decide. */
export class NoQuorum extends ServiceError {}

/** The instance is shutting down. */
export class ShuttingDown extends ServiceError {}

/** The request has no valid token. */
export class Unauthorized extends ServiceError {}

/** The token does not allow this lock or this operation. */
export class Forbidden extends ServiceError {}

/** The name, the ttl, the permits or another value is invalid. */
export class InvalidRequest extends ServiceError {}

/** Another request with the same idempotency key holds the lock. */
export class IdempotencyConflict extends ServiceError {}

/** The token exceeds a limit: requests, waits or leases. */
export class TooMany extends ServiceError {}

/**
 * The error for a response that is not a success.
 * @param {number} status
 * @param {Problem} problem
 * @returns {QuorateError}
 */
export function fromResponse(status, problem) {
  if (problem.code === "lease_lost") {
    return new LeaseLost(problem.detail ?? "the lease has ended");
  }
  const Known = BY_CODE.get(problem.code ?? "") ?? BY_STATUS.get(status) ?? ServiceError;
  return new Known(status, problem);
}

/** @type {Map<string, typeof ServiceError>} */
const BY_CODE = new Map(
  Object.entries({
    held: Held,
    no_quorum: NoQuorum,
    shutting_down: ShuttingDown,
    idempotency_conflict: IdempotencyConflict,
    too_many: TooMany,
  }),
);

/** @type {Map<number, typeof ServiceError>} */
const BY_STATUS = new Map([
  [400, InvalidRequest],
  [401, Unauthorized],
  [403, Forbidden],
]);
