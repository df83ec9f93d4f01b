/** Sending requests, to the next URL if one does not serve them. */

import http from "node:http";
import https from "node:https";

import { now } from "./clock.js";
import { QuorateError, ServiceError, Unavailable, fromResponse } from "./errors.js";

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
  #urls;
  #token;
  #tls;
  #preferred = 0;

  /**
   * @param {string | URL | readonly (string | URL)[]} urls
   * @param {{ token?: string, timeoutMs?: number, tls?: TlsOptions }} options
   */
  constructor(urls, { token, timeoutMs = 5_000, tls }) {
    const listed = typeof urls === "string" || urls instanceof URL ? [urls] : [...urls];
    if (listed.length === 0) throw new TypeError("at least one service URL is required");
    this.#urls = listed.map(parseUrl);
    this.#token = token;
    this.#tls = tls;
    this.timeoutMs = timeoutMs;
  }

  /** How many URLs there are. */
  get size() {
    return this.#urls.length;
  }

  /**
   * @param {Request} request
   * @param {SendOptions} [options]
   * @returns {Promise<Reply>}
   */
  async send(request, { timeoutMs = this.timeoutMs, waitMs = 0, ...rest } = {}) {
    const waitUntil = now() + waitMs;
    /** @type {{ url: URL, error: Error }[]} */
    const failures = [];
    for (let count = 0; count < this.#urls.length; count += 1) {
      const at = (this.#preferred + count) % this.#urls.length;
      const url = /** @type {URL} */ (this.#urls[at]);
      const limitMs = timeoutMs + Math.max(waitUntil - now(), 0);
      try {
        const reply = await this.#sendTo(url, request, { ...rest, timeoutMs: limitMs });
        this.#preferred = at;
        return reply;
      } catch (error) {
        if (rest.signal?.aborted) throw rest.signal.reason;
        if (!isElsewhere(error)) throw error;
        failures.push({ url, error: /** @type {Error} */ (error) });
      }
    }
    throw failed(failures);
  }

  /**
   * @param {URL} url
   * @param {Request} request
   * @param {SendOptions} options
   * @returns {Promise<Reply>}
   */
  #sendTo(url, { method, path, body = "", headers }, { timeoutMs, signal, isBackground }) {
    return new Promise((resolve, reject) => {
      // Before anything is sent, so that the deadline is never too late.
      const sentAt = now();
      const send = url.protocol === "https:" ? https.request : http.request;
      const sent = send({
        ...(url.protocol === "https:" ? this.#tls : undefined),
        host: url.hostname.replace(/^\[|\]$/g, ""),
        port: url.port,
        method,
        // Not through `URL`, which would rewrite the lock name "..".
        path: url.pathname.replace(/\/+$/, "") + path,
        headers: {
          "User-Agent": USER_AGENT,
          "Content-Length": String(Buffer.byteLength(body)),
          ...(this.#token === undefined ? {} : { Authorization: `Bearer ${this.#token}` }),
          ...headers,
        },
        // A new connection: a kept connection may be closed at the moment when it is used.
        agent: false,
        signal,
      });
      const timer = setTimeout(() => sent.destroy(new Error("no response in time")), timeoutMs);
      if (isBackground) {
        timer.unref();
        sent.on("socket", (socket) => socket.unref());
      }
      sent.on("error", reject);
      sent.on("close", () => {
        clearTimeout(timer);
        reject(new Error("the connection was closed"));
      });
      sent.on("response", (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (part) => {
          text += part;
          if (text.length > RESPONSE_MAX) sent.destroy(new Error("the response is too large"));
        });
        response.on("error", reject);
        response.on("end", () => {
          try {
            resolve({ sentAt, body: readBody(response.statusCode ?? 0, text) });
          } catch (error) {
            reject(error);
          }
        });
      });
      sent.end(body);
    });
  }
}

/**
 * The values of a response; throws the error that the response reports.
 * @param {number} status
 * @param {string} text
 * @returns {any}
 */
function readBody(status, text) {
  /** @type {any} */
  let values = {};
  try {
    values = JSON.parse(text) ?? {};
  } catch {
    // The response of a proxy: only the status is known.
  }
  if (status === 204) return {};
  if (status !== 200) throw fromResponse(status, values);
  if (![values.waited_ms, values.valid_for_ms].every(Number.isFinite)) {
    const detail = "the response is not one of a Quorate service: check the URL";
    throw new ServiceError(status, { code: "invalid_response", detail });
  }
  return values;
}

/**
 * True if another URL may serve the request.
 * @param {unknown} error
 */
function isElsewhere(error) {
  if (error instanceof ServiceError) return [502, 503, 504].includes(error.status);
  return !(error instanceof QuorateError);
}

/**
 * The error to report: an error of the service takes precedence over one of the network.
 * @param {{ url: URL, error: Error }[]} failures
 */
function failed(failures) {
  const reported = failures.filter(({ error }) => error instanceof ServiceError).pop();
  if (reported) return reported.error;
  // The errors of several addresses have no message, but a code.
  const reason = (/** @type {Error & { code?: string }} */ error) => error.message || error.code;
  const causes = failures.map(({ url, error }) => `${url.origin}: ${reason(error)}`).join("; ");
  const cause = failures[failures.length - 1]?.error;
  return new Unavailable(`the service does not answer: ${causes}`, { cause });
}

/** @param {string | URL} text */
function parseUrl(text) {
  let url;
  try {
    url = new URL(text);
  } catch {
    url = undefined;
  }
  if (!url || !["http:", "https:"].includes(url.protocol)) {
    const shown = JSON.stringify(String(text));
    throw new TypeError(`invalid service URL ${shown}: use a form such as http://host:8420`);
  }
  if (url.username || url.password || url.search || url.hash) {
    throw new TypeError("a service URL must not contain credentials, a query or a fragment");
  }
  return url;
}

const USER_AGENT = "quorate-node/0.1.0";
const RESPONSE_MAX = 1 << 20;
