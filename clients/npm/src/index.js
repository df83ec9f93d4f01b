/** Client of the Quorate HTTP service: distributed locks with leases and fences. */

export { Client } from "./client.js";
export { Lease } from "./lease.js";
export {
  Forbidden,
  Held,
  IdempotencyConflict,
  InvalidRequest,
  LeaseLost,
  NoQuorum,
  QuorateError,
  ServiceError,
  ShuttingDown,
  TooMany,
  Unauthorized,
  Unavailable,
} from "./errors.js";

/** @typedef {import("./client.js").ClientOptions} ClientOptions */
/** @typedef {import("./client.js").LockOptions} LockOptions */
/** @typedef {import("./errors.js").Holder} Holder */
