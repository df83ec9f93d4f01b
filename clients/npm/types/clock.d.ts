/**
 * Milliseconds.
 * @returns {number}
 */
export function now(): number;
