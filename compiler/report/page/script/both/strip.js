// The strip of devices: boxes filled against their memory, and links as wide as their bytes, coloured by their time.

import { isSum, listColumns } from "./columns.js";
import { make, makeKey, makeSvg, onPress } from "./dom.js";
import { formatShare, formatSize, plural } from "./format.js";

/** @typedef {import("./data.js").Device} Device */
/** @typedef {import("./data.js").Transfer} Transfer */
/** @typedef {import("./columns.js").Column} Column */

/** From box, to box, bytes, busy share of the busiest, transfers. @typedef {[number, number, number, number | null, Transfer[]]} Link */

/**
 * A plan whose devices are drawn, and what a press of a device, a group or a link does.
 * @typedef {object} Side
 * @property {Device[]} devices
 * @property {Transfer[]} transfers
 * @property {import("./columns.js").Group[]} groups
 * @property {number} most The bytes of the fullest device, which those without a limit are filled against.
 * @property {number} widest The bytes of the link that is drawn as the widest, or 0 for that of this strip.
 * @property {(device: number) => void} onDevice
 * @property {(group: import("./columns.js").Group) => void} onGroup
 * @property {(from: number, to: number) => void} onLink
 */

const BOX = 184;         // the width of a box, and what is between two, in pixels
const BETWEEN = 40;
const WIDEST = 12;       // of a link, in pixels
const LABELLED = 16;     // links, of which each may have its bytes written on it
const HIGHEST = 7;       // boxes that a link passes over before it rises no further
/** @type {["variables" | "slots" | "other" | "step", string][]} */
const FILLS = [["variables", "variables"], ["slots", "slots"], ["other", "other variables"], ["step", "tensors of a step"]];

/** Shares of a step from which a link has the next colour. */
const HOT = [0.1, 0.3, 0.6];

/** @param {Device} device */
export const takenBytes = (device) => FILLS.reduce((sum, [key]) => sum + (device[key] || 0), 0);

/** @param {Device[]} devices */
export const fullest = (devices) => devices.reduce((most, each) => Math.max(most, takenBytes(each)), 1);

/**
 * The class of what is busy for a share of the step.
 * @param {number | null} busy
 */
export const heatOf = (busy) => (busy === null ? "" : ` hot${HOT.filter((from) => busy >= from).length}`);

/**
 * Draw the strip into a box, and what its colours mean into another.
 * @param {HTMLElement} strip
 * @param {HTMLElement} keys
 * @param {Side} side
 */
export function drawStrip(strip, keys, side) {
  const boxes = listColumns(side.groups, side.devices);
  const links = linksBetween(boxes, side);
  const width = boxes.length * (BOX + BETWEEN) - BETWEEN;
  const inner = make("div", {},
    drawLinks(links.filter(([from, to]) => from < to), boxes, width, true, links, side),
    make("ol", {}, ...boxes.map((box, number) => makeBox(box, links.find(([from, to]) => from === number && to === number), side))),
    drawLinks(links.filter(([from, to]) => from > to), boxes, width, false, links, side));
  inner.style.width = `${width}px`;
  strip.replaceChildren(inner);
  keys.replaceChildren(...makeKeys(side));
}

/**
 * @param {Column[]} boxes
 * @param {Side} side
 */
function linksBetween(boxes, side) {
  /** @type {Map<number, number>} */
  const at = new Map();
  boxes.forEach((box, number) => box.devices.forEach((device) => at.set(device, number)));
  return sumLinks(side.transfers, at);
}

/**
 * The bytes of the widest link of a strip, between devices or groups of them as they are shown.
 * @param {Side} side
 */
export const widestLink = (side) => linksBetween(listColumns(side.groups, side.devices), side)[0]?.[2] ?? 0;

/** @param {Side} side */
function makeKeys(side) {
  const limited = side.devices.filter((device) => device.limit !== null).length;
  const against = limited === side.devices.length ? "the memory that the spec gives the device"
    : limited ? "the memory that the spec gives the device or, without that, what the fullest device takes"
      : "what the fullest device takes";
  const keys = FILLS.filter(([key]) => side.devices.some((device) => device[key])).map(([key, text]) => makeKey(key, text));
  const words = ` Filled against ${against}. Links are as wide as the bytes of a step; those above lead to the right, those below to the left.`;
  const timed = side.transfers.some((each) => each[6] !== null);
  const shares = HOT.map((from) => formatShare(from));
  return [...keys, words, ...(timed ? [" Their colour is the share of the step in which they carry something: ",
    makeKey("hot0", `below ${shares[0]}`), ...shares.map((from, number) => makeKey(`hot${number + 1}`, `from ${from}`))] : [])];
}

/**
 * The bytes of a step between boxes, the widest first.
 * @param {Transfer[]} transfers
 * @param {Map<number, number>} at The number of the box of each device.
 * @returns {Link[]}
 */
export function sumLinks(transfers, at) {
  /** @type {Map<string, Link>} */
  const sums = new Map();
  for (const each of transfers) {
    const [from, to] = [at.get(each[0]) ?? -1, at.get(each[1]) ?? -1];
    const key = `${from} ${to}`;
    /** @type {Link} */
    const link = sums.get(key) ?? [from, to, 0, null, []];
    sums.set(key, link);
    link[2] += each[3];
    if (each[6] !== null) link[3] = Math.max(link[3] ?? 0, each[6]);
    link[4].push(each);
  }
  return [...sums.values()].sort((a, b) => b[2] - a[2]);
}

/**
 * @param {Column} box
 * @param {Link | undefined} inside
 * @param {Side} side
 */
function makeBox(box, inside, side) {
  const devices = box.devices.flatMap((each) => side.devices[each] ?? []);
  /** @param {Device} device */
  const room = (device) => (device.limit === null ? side.most : Math.max(1, device.limit));
  /** @param {Device} device */
  const share = (device) => takenBytes(device) / room(device);
  const device = devices.reduce((one, other) => (share(other) > share(one) ? other : one));
  const over = device.limit !== null && takenBytes(device) > device.limit;
  const bar = make("span", { class: "fill", "aria-hidden": "true" });
  for (const [key] of FILLS) {
    if (!device[key]) continue;
    const part = make("i", { class: key });
    part.style.width = `${(100 * device[key] / Math.max(room(device), takenBytes(device))).toFixed(2)}%`;
    bar.append(part);
  }
  const taken = formatSize(takenBytes(device)) + (device.limit === null ? "" : ` of ${formatSize(device.limit)}`);
  const busy = Math.max(...devices.map((each) => each.busy ?? -1));
  const notes = [isSum(box) ? `${devices.length} devices` : plural(device.ops, "op"),
    busy >= 0 ? `${isSum(box) ? "at most " : ""}${formatShare(busy)} busy` : "",
    inside ? `${formatSize(inside[2])} among them` : ""].filter(Boolean);
  return make("li", {}, make("button", {
    type: "button", "data-devices": box.devices.length > 9 ? `${box.devices[0]}..` : box.devices.join(" "),
    onclick: () => (isSum(box) ? side.onGroup(box.group) : side.onDevice(box.devices[0] ?? 0)),
  },
  make("span", { class: "name" }, box.label), make("small", {}, notes.join(", ") + (isSum(box) ? "; the fullest:" : "")), bar,
  make("span", { class: over ? "moved" : "" }, over ? `${taken}: too much` : taken)));
}

/**
 * Links as arcs over the boxes (`above`) or under them, each a button that tells what crosses.
 * @param {Link[]} links
 * @param {Column[]} boxes
 * @param {number} width
 * @param {boolean} above
 * @param {Link[]} all
 * @param {Side} side
 */
function drawLinks(links, boxes, width, above, all, side) {
  /**
   * @param {number} from
   * @param {number} to
   */
  const rise = (from, to) => 18 + 19 * Math.min(HIGHEST, Math.abs(from - to));
  const height = links.length ? Math.max(...links.map(([from, to]) => rise(from, to))) + WIDEST + 8 : 8;
  const most = side.widest || Math.max(1, ...all.map((link) => link[2]));
  const picture = makeSvg("svg", { width, height, role: "group", "aria-label": above ? "Links to the right" : "Links to the left" });
  const texts = makeSvg("g", { "aria-hidden": "true" });
  const longFirst = [...links].sort((a, b) => Math.abs(b[0] - b[1]) - Math.abs(a[0] - a[1]));
  for (const [from, to, bytes, busy, transfers] of longFirst) {
    const start = from * (BOX + BETWEEN) + BOX * (above ? 0.72 : 0.28);
    const end = to * (BOX + BETWEEN) + BOX * (above ? 0.28 : 0.72);
    const thick = Math.max(1.5, WIDEST * bytes / most);
    /** @param {number} distance */
    const y = (distance) => (above ? height - distance : distance).toFixed(1);
    const far = rise(from, to) * 4 / 3;
    const head = 6 + thick / 2;
    const share = busy === null ? "" : `, ${formatShare(busy)} of its time`;
    const name = `${boxes[from]?.label} to ${boxes[to]?.label}: ${formatSize(bytes)} a step${share}`;
    const route = `M${start},${y(0)} C${start},${y(far)} ${end},${y(far)} ${end},${y(8)}`;
    const link = makeSvg("g", { role: "button", tabindex: 0, "aria-label": name, "data-link": linkName(transfers), class: heatOf(busy).trim() },
      makeSvg("title", {}, name),
      makeSvg("path", { class: "hold", d: route }),
      makeSvg("path", { class: "edge", d: route, "stroke-width": (thick + 4).toFixed(1) }),
      makeSvg("path", { class: "line", d: route, "stroke-width": thick.toFixed(1) }),
      makeSvg("path", { class: "head", d: `M${end - head},${y(9)} L${end + head},${y(9)} L${end},${y(0)} Z` }));
    if (all.length <= LABELLED) {
      const words = busy === null ? formatSize(bytes) : `${formatSize(bytes)}, ${formatShare(busy)}`;
      texts.append(makeSvg("text", { x: (start + end) / 2, y: y(rise(from, to) - thick / 2 - (above ? 14 : 5)) }, words));
    }
    onPress(link, () => side.onLink(...widestOf(transfers)));
    picture.append(link);
  }
  picture.append(texts);
  return picture;
}

/** @param {Transfer[]} transfers */
const linkName = (transfers) => transfers.slice(0, 64).map(([from, to]) => `${from}>${to}`).join(" ");

/**
 * A link between groups of devices stands for several; the one that carries most is told about.
 * @param {Transfer[]} transfers
 * @returns {[number, number]}
 */
export function widestOf(transfers) {
  const [from, to] = transfers.reduce((one, other) => (other[3] > one[3] ? other : one));
  return [from, to];
}
