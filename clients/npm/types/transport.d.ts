/**
 * @typedef {object} Request
 * @property {string} method
 * @property {string} path
 * @property {string} [body]
 * @property {Record<string, string>} [headers]
 */
/**
 * A response, and when its request was sent.
 * @typedef {object} Reply
 * @property {number} sentAt
 * @property {{ lease_id: string, fence?: number, waited_ms: number, valid_for_ms: number }} body
 */
/**
 * @typedef {object} SendOptions
 * @property {number} [timeoutMs] For each URL.
 * @property {number} [waitMs] For all URLs together, in addition.
 * @property {AbortSignal} [signal]
 * @property {boolean} [isBackground] Does not keep the process alive.
 */
/** The TLS settings of `node:https`: a private authority, a client certificate. */
/** @typedef {import("node:tls").SecureContextOptions} TlsOptions */
export class Transport {
    /**
     * @param {string | URL | readonly (string | URL)[]} urls
     * @param {{ token?: string, timeoutMs?: number, tls?: TlsOptions }} options
     */
    constructor(urls: string | URL | readonly (string | URL)[], { token, timeoutMs, tls }: {
        token?: string;
        timeoutMs?: number;
        tls?: TlsOptions;
    });
    timeoutMs: number;
    /** How many URLs there are. */
    get size(): number;
    /**
     * @param {Request} request
     * @param {SendOptions} [options]
     * @returns {Promise<Reply>}
     */
    send(request: Request, { timeoutMs, waitMs, ...rest }?: SendOptions): Promise<Reply>;
    #private;
}
export type Request = {
    method: string;
    path: string;
    body?: string | undefined;
    headers?: Record<string, string> | undefined;
};
/**
 * A response, and when its request was sent.
 */
export type Reply = {
    sentAt: number;
    body: {
        lease_id: string;
        fence?: number;
        waited_ms: number;
        valid_for_ms: number;
    };
};
export type SendOptions = {
    /**
     * For each URL.
     */
    timeoutMs?: number | undefined;
    /**
     * For all URLs together, in addition.
     */
    waitMs?: number | undefined;
    signal?: AbortSignal | undefined;
    /**
     * Does not keep the process alive.
     */
    isBackground?: boolean | undefined;
};
export type TlsOptions = import("node:tls").SecureContextOptions;
