// Lines of a spec.

import { make } from "./dom.js";

const AROUND = 3; // lines before and after that of the place

/**
 * The lines of a spec around a place.
 * @param {string} name
 * @param {Record<string, string> | undefined} lines
 * @param {number} line
 * @param {number} column
 */
export function quoteLines(name, lines, line, column) {
  const place = make("p", {}, make("code", {}, `${name}:${line}:${column}`));
  if (!lines || !Object.keys(lines).length) return [place];
  const block = make("pre", { tabindex: 0, role: "region", "aria-label": `lines of ${name}` });
  const width = String(line + AROUND).length;
  for (let number = Math.max(1, line - AROUND); number <= line + AROUND; number += 1) {
    const text = lines[number];
    if (text === undefined) continue;
    block.append(make("span", { class: number === line ? "hit" : "" },
      make("span", { class: "no" }, `${String(number).padStart(width)} | `), text));
  }
  return [place, block];
}
