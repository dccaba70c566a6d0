// What is chosen on the page, kept in its address, so that a link shows the same view again.

/**
 * What is explained: a scope or op by its path, a device or a link by numbers, a bar of the timeline, or a layer.
 * @typedef {{ path: string } | { device: number } | { from: number, to: number } | { bar: [number, number, boolean] } | { box: number }} Chosen
 */

/** @typedef {Map<string, string>} Address */

/**
 * A part of the page: what it writes into the address, how it reads it, and what it does when something is chosen.
 * @typedef {object} Part
 * @property {() => (string | null)[]} [write]
 * @property {(address: Address) => void} [read]
 * @property {() => void} [mark]
 */

/** @type {Part[]} */
const parts = [];

/** @type {{ chosen: Chosen | null }} */
export const view = { chosen: null };

/** @param {Part} part */
export const register = (part) => { parts.push(part); };

/** @param {Chosen | null} chosen */
export function choose(chosen) {
  view.chosen = chosen;
  for (const part of parts) part.mark?.();
  writeAddress();
}

export function writeAddress() {
  const written = parts.flatMap((part) => part.write?.() ?? []).filter((each) => each !== null);
  try {
    history.replaceState(null, "", `#${written.join("&")}`);
  } catch {
    // Some browsers refuse this for files; the page works the same without.
  }
}

export function readAddress() {
  /** @type {Address} */
  const address = new Map(location.hash.slice(1).split("&").map((part) => {
    const [key, ...value] = part.split("=");
    return [key ?? "", value.join("=")];
  }));
  view.chosen = null;
  for (const part of parts) part.read?.(address);
  for (const part of parts) part.mark?.();
}

/** @param {string | undefined} text */
export function decode(text) {
  try {
    return decodeURIComponent(text || "");
  } catch {
    return "";
  }
}

/** @param {string[]} names */
export const encodeList = (names) => names.map(encodeURIComponent).join(",");

/** @param {string | undefined} text */
export const decodeList = (text) => (text || "").split(",").filter(Boolean).map(decode);
