// The data in the page, which `compiler/report/page/data` has written.

import { byId } from "./dom.js";

/**
 * @typedef {object} Device
 * @property {string} ref
 * @property {string} device
 * @property {number} ops
 * @property {number} variables
 * @property {number} slots
 * @property {number} other
 * @property {number | null} step
 * @property {number | null} memory
 * @property {number | null} limit
 * @property {[string, number][]} largest
 * @property {number} in
 * @property {number} in_unknown
 * @property {number} out
 * @property {number} out_unknown
 * @property {number | null} busy
 */

/** From, to, tensors, bytes, tensors of unknown size, the largest tensors, busy share, the clone in their names. @typedef {[number, number, number, number, number, number, number | null, number]} Transfer */
/** Reason, text, file, line, column, what decided. @typedef {[string, string, number, number, number, string]} Rule */
/** Type, role, clone, spot. @typedef {[string, string, number, number]} Kind */
/** Bytes held, FLOPs, bytes read and written, microseconds. @typedef {[number, number, number, number]} Cost */
/** @typedef {[number[], string, number, boolean, number[], [string, number, number][], string | null]} Variable */
/** Name, lane, start, length, 1 if it is on the critical path, bytes if it is of a link. @typedef {[number, number, number, number, number?, number?]} Bar */
/** Name, lane, start, length. @typedef {[number, number, number, number]} MeasuredBar */

/**
 * @typedef {object} Row
 * @property {string} label
 * @property {number} busy
 * @property {number} lanes
 * @property {Bar[]} bars
 * @property {number} measured_lanes
 * @property {MeasuredBar[]} measured
 * @property {number} measured_busy
 */

/**
 * Times in microseconds.
 * @typedef {object} Beneath
 * @property {number} steps
 * @property {number} length of the measured step that is drawn
 * @property {number | null} span of the forecast step, or null if it is of several updates
 * @property {number} forecast
 * @property {number} measured
 * @property {number} unknown
 * @property {number} share of what is told in all differences
 * @property {[number, string, number, number, number][]} told name, device, number of ops, forecast, measured
 * @property {[number, string, number, number][]} ops name, device, forecast, measured
 */

/**
 * @typedef {object} Step
 * @property {number} seconds
 * @property {boolean} alone whether clones update by themselves, so that the seconds are those from update to update
 * @property {number} around what it costs before its first op and after its last one, which no row shows
 * @property {number} until
 * @property {boolean} estimate
 * @property {string} source
 * @property {Row[]} rows
 * @property {number} left
 * @property {string[]} forms names with `#` for each number
 * @property {number[][]} names each the number of its form, and the numbers in it
 * @property {Beneath | null} beneath
 */

/** @typedef {{ clones: number[], label: string, tree: any[], spots: number[] }} Family */

/** Scope inside a tower, what it is, kind, file, line, column. @typedef {[string, string, string, number, number, number]} LayerBox */

/**
 * @typedef {object} MapData
 * @property {string} title
 * @property {string[]} facts
 * @property {Device[]} devices
 * @property {Record<string, string>} clones
 * @property {Transfer[]} transfers
 * @property {[string, number][][]} tensors
 * @property {Record<string, Variable>} variables
 * @property {string[]} measures
 * @property {any[]} tree
 * @property {Family[]} families
 * @property {string[]} names
 * @property {Kind[]} kinds
 * @property {Rule[]} rules
 * @property {Cost[]} costs
 * @property {[number, number][][]} spots
 * @property {{ boxes: LayerBox[], arrows: [number, number][] } | null} model
 * @property {string[]} files
 * @property {Record<string, string>[]} lines
 * @property {Step | null} step
 * @property {string[]} places
 */

/** @type {any} */
export const page = JSON.parse(byId("data").textContent || "");

/** @type {MapData} */
export const data = page;

/**
 * The largest tensors of a link.
 * @param {Transfer} link
 * @returns {[string, number][]}
 */
export const largestOf = (link) => (data.tensors[link[5]] ?? []).map(([name, size]) => [name.replaceAll("clone_{}", `clone_${link[7]}`), size]);

/** @param {number} at */
export const placeName = (at) => data.places[at] ?? "";
