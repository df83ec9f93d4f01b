/** A clock that cannot be set and that counts time in which the machine slept. */

import os from "node:os";
import { performance } from "node:perf_hooks";

let sleptMs = 0;

/**
 * Milliseconds.
 * @returns {number}
 */
export function now() {
  // On Linux the clock of `performance` stops while the machine is suspended. The uptime does not,
  // but it is coarse, so it only corrects what it can tell for certain.
  if (process.platform === "linux") {
    const missing = uptimeAhead() - AHEAD_AT_START;
    if (missing > COARSENESS_MS + sleptMs) sleptMs = missing;
  }
  return performance.now() + sleptMs;
}

function uptimeAhead() {
  return os.uptime() * 1000 - performance.now();
}

const COARSENESS_MS = 100;
const AHEAD_AT_START = uptimeAhead();
