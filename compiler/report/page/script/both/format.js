// Figures as text.

const NONE = ".";

/**
 * @param {number | null | undefined} bytes
 * @returns {string}
 */
export function formatSize(bytes) {
  if (bytes === null || bytes === undefined) return "?";
  if (bytes === 0) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let [size, unit] = [bytes, 0];
  while (Math.abs(size) >= 1024 && unit < units.length - 1) { size /= 1024; unit += 1; }
  const digits = unit === 0 ? 0 : Math.max(0, 3 - String(Math.trunc(Math.abs(size))).length);
  return `${size.toFixed(digits)} ${units[unit]}`;
}

/** @param {number} number */
export const formatCount = (number) => (number ? number.toLocaleString("en-US") : NONE);

/**
 * @param {number} number
 * @param {string} noun
 */
export const plural = (number, noun) => `${number.toLocaleString("en-US")} ${noun}${number === 1 ? "" : "s"}`;

/**
 * Floating point operations in thousands, millions and so on.
 * @param {number} number
 * @returns {string}
 */
export function formatFlops(number) {
  const units = ["", " K", " M", " G", " T", " P"];
  let [size, unit] = [number, 0];
  while (size >= 999.5 && unit < units.length - 1) { size /= 1000; unit += 1; }
  if (unit === 0) return formatCount(Math.round(size));
  return `${size.toFixed(Math.max(0, 3 - String(Math.trunc(size)).length))}${units[unit]}`;
}

/**
 * @param {number} microseconds
 * @returns {string}
 */
export function formatTime(microseconds) {
  const size = Math.abs(microseconds);
  if (size === 0) return "0 \u00b5s";
  if (size >= 999.5e6) return `${(microseconds / 1e6).toFixed(0)} s`;
  if (size >= 999.5e3) return `${(microseconds / 1e6).toPrecision(3)} s`;
  if (size >= 999.5) return `${(microseconds / 1e3).toPrecision(3)} ms`;
  return `${microseconds.toPrecision(3)} \u00b5s`;
}

/** @param {number} microseconds */
export const formatTimeCell = (microseconds) => (microseconds ? formatTime(microseconds) : NONE);

/** @param {number} share */
export const formatShare = (share) => (share > 0 && share < 0.005 ? "<1%" : `${(100 * share).toFixed(0)}%`);

/**
 * What a figure changed by, with its sign.
 * @param {number} change
 * @param {(size: number) => string} format
 */
export const formatChange = (change, format) => (change === 0 ? NONE : `${change > 0 ? "+" : "-"}${format(Math.abs(change))}`);
