export { Client } from "./client.js";
export { Lease } from "./lease.js";
export type ClientOptions = import("./client.js").ClientOptions;
export type LockOptions = import("./client.js").LockOptions;
export type Holder = import("./errors.js").Holder;
export { Forbidden, Held, IdempotencyConflict, InvalidRequest, LeaseLost, NoQuorum, QuorateError, ServiceError, ShuttingDown, TooMany, Unauthorized, Unavailable } from "./errors.js";
