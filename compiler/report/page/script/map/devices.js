// The strip of devices, the table of devices, and what crosses: as a matrix and as a list.

import { showDevice } from "../both/columns.js";
import { data, largestOf, placeName } from "../both/data.js";
import { byId, make, makeFacts, makeWord } from "../both/dom.js";
import { formatCount, formatShare, formatSize, plural } from "../both/format.js";
import { choose, decode, decodeList, register, view, writeAddress } from "../both/state.js";
import { drawStrip, fullest, heatOf, sumLinks, widestOf } from "../both/strip.js";
import { listTensors, showDetail } from "./explain.js";
import { columnsShown, drawDevices, groups, onDevices, openGroup } from "./panels.js";

/** @typedef {import("../both/data.js").Device} Device */
/** @typedef {import("../both/data.js").Transfer} Transfer */

const LINKS_SHOWN = 64;
const DEVICES_SHOWN = 64;
const OPENED = 24; // devices up to which their table is open at first

/** What the tables are sorted by: the number of a column, and whether from the largest. */
const USUAL = { devices: { by: -1, down: true }, transfers: { by: 3, down: true } };
const sorts = { devices: { ...USUAL.devices }, transfers: { ...USUAL.transfers } };
const limits = { devices: DEVICES_SHOWN, transfers: LINKS_SHOWN };
const most = fullest(data.devices);
const strip = byId("strip");

/** @param {Device} device */
const heldBytes = (device) => device.variables + device.slots;

/** @param {string} text */
const numberCell = (text) => make("td", { class: text === "." ? "zero" : "" }, text);

/** @param {number} share */
function makeShare(share) {
  const bar = make("i", {});
  bar.style.width = `${(100 * share).toFixed(1)}%`;
  return make("span", { class: "share", "aria-hidden": "true" }, bar);
}

function drawOwnStrip() {
  drawStrip(strip, byId("strip-keys"), {
    devices: data.devices, transfers: data.transfers, groups, most, widest: 0,
    onDevice: (device) => choose({ device }),
    onGroup: (group) => {
      const first = group.devices[group.shown];
      openGroup(group);
      /** @type {HTMLElement | null} */ (strip.querySelector(`[data-devices="${first}"]`))?.focus();
    },
    onLink: (from, to) => choose({ from, to }),
  });
  mark();
}

// --- tables that are sorted by a column ---------------------------------------------------------------------

/**
 * @param {"devices" | "transfers"} table
 * @param {string[]} heads
 * @param {number[]} left The columns that hold text.
 * @param {() => void} draw
 */
function makeHeads(table, heads, left, draw) {
  const sort = sorts[table];
  const cells = heads.map((text, at) => {
    const state = sort.by !== at ? "none" : sort.down ? "descending" : "ascending";
    const arrow = sort.by !== at ? "" : sort.down ? " \u2193" : " \u2191";
    const act = () => {
      [sort.down, sort.by] = [sort.by === at ? !sort.down : true, at];
      draw();
      writeAddress();
      /** @type {HTMLElement | null} */ (document.querySelector(`#${table} th:nth-child(${at + 1}) button`))?.focus();
    };
    return make("th", { scope: "col", class: left.includes(at) ? "left" : "", "aria-sort": state },
      make("button", { type: "button", onclick: act }, text, make("span", { "aria-hidden": "true" }, arrow)));
  });
  return make("thead", {}, make("tr", {}, ...cells));
}

/**
 * @template T
 * @param {T[]} things
 * @param {"devices" | "transfers"} table
 * @param {(thing: T) => (number | string | null)[]} values
 */
function arrange(things, table, values) {
  const { by, down } = sorts[table];
  if (by < 0) return things;
  const turn = down ? -1 : 1;
  return [...things].sort((a, b) => {
    const [one, other] = [values(a)[by] ?? -1, values(b)[by] ?? -1];
    if (typeof one === "string" || typeof other === "string") return -turn * String(one).localeCompare(String(other), "en", { numeric: true });
    return turn * (one - other);
  });
}

/**
 * @param {"devices" | "transfers"} table
 * @param {number} number
 * @param {number} wide
 * @param {() => void} draw
 */
function makeMore(table, number, wide, draw) {
  if (number <= limits[table]) return [];
  const button = make("button", { type: "button", onclick: () => { limits[table] *= 4; draw(); } },
    `show more of ${plural(number, table === "devices" ? "device" : "link")}`);
  return [make("tr", { class: "more" }, make("td", { colspan: wide }, button))];
}

function drawDeviceTable() {
  const known = data.devices.some((device) => device.memory !== null);
  const timed = data.devices.some((device) => device.busy !== null);
  const heads = ["device", "ops", "variables", "slots", "held", "memory", "busy", "in / step", "out / step"];
  const shown = heads.map((_, at) => (at !== 5 || known) && (at !== 6 || timed));
  const held = data.devices.reduce((sum, device) => Math.max(sum, heldBytes(device)), 1);
  const listed = arrange(data.devices, "devices", (each) => [
    each.ref, each.ops, each.variables, each.slots, heldBytes(each), each.memory, each.busy, each.in, each.out,
  ].filter((_, at) => shown[at]));
  const rows = listed.slice(0, limits.devices).map((device) => make("tr", {},
    make("td", { class: "name" }, makeWord(device.ref, () => choose({ device: data.devices.indexOf(device) }), { class: "plain name" })),
    numberCell(formatCount(device.ops)),
    numberCell(formatSize(device.variables)),
    numberCell(formatSize(device.slots)),
    make("td", {}, formatSize(heldBytes(device)), makeShare(heldBytes(device) / held)),
    known ? numberCell(formatSize(device.memory)) : null,
    timed ? numberCell(device.busy === null ? "." : formatShare(device.busy)) : null,
    numberCell(formatSize(device.in) + (device.in_unknown ? "+" : "")),
    numberCell(formatSize(device.out) + (device.out_unknown ? "+" : ""))));
  const words = heads.filter((_, at) => shown[at]);
  byId("devices").replaceChildren(makeHeads("devices", words, [0], drawDeviceTable),
    make("tbody", {}, ...rows, ...makeMore("devices", listed.length, words.length, drawDeviceTable)));
}

function drawTransferTable() {
  const timed = data.transfers.some((each) => each[6] !== null);
  const largestBytes = data.transfers.reduce((sum, each) => Math.max(sum, each[3]), 1);
  const listed = arrange(data.transfers, "transfers", ([from, to, tensors, bytes, unknown, , busy]) =>
    [placeName(from), placeName(to), tensors, bytes, unknown, busy]);
  const rows = listed.slice(0, limits.transfers).map(([from, to, tensors, bytes, unknown, largest, busy]) => make("tr", {},
    make("td", { class: "name" }, placeName(from)),
    make("td", { class: "left name" }, placeName(to)),
    data.tensors[largest]?.length ? make("td", {}, makeWord(formatCount(tensors), () => choose({ from, to }),
      { "aria-label": `${plural(tensors, "tensor")} from ${placeName(from)} to ${placeName(to)}` })) : numberCell(formatCount(tensors)),
    make("td", {}, formatSize(bytes), makeShare(bytes / largestBytes)),
    numberCell(formatCount(unknown)),
    timed ? numberCell(busy ? formatShare(busy) : ".") : null));
  const heads = ["from", "to", "tensors", "bytes", "of unknown size", ...(timed ? ["of the step"] : [])];
  const body = make("tbody", {}, ...rows, ...makeMore("transfers", listed.length, heads.length, drawTransferTable));
  if (!listed.length) body.append(make("tr", {}, make("td", { colspan: heads.length }, "nothing is sent from device to device")));
  byId("transfers").replaceChildren(makeHeads("transfers", heads, [0, 1], drawTransferTable), body);
}

// --- the matrix: a row for each device that sends, a column for each that receives ---------------------------

function drawMatrix() {
  const columns = columnsShown();
  /** @type {Map<number, number>} */
  const at = new Map();
  columns.forEach((column, number) => column.devices.forEach((device) => at.set(device, number)));
  const links = sumLinks(data.transfers, at);
  const widest = links[0]?.[2] || 1;
  const found = new Map(links.map((link) => [`${link[0]} ${link[1]}`, link]));
  const head = make("tr", {}, make("th", { scope: "col" }, "from, to"), ...columns.map((each) => make("th", { scope: "col", class: "name" }, each.label)),
    make("th", { scope: "col" }, "sent"));
  const rows = columns.map((row, from) => {
    const cells = columns.map((column, to) => {
      const link = found.get(`${from} ${to}`);
      if (!link) return make("td", { class: "zero" }, from === to ? "" : ".");
      const [, , bytes, busy, transfers] = link;
      const cell = make("td", { class: heatOf(busy).trim(), "data-cell": `${from} ${to}` }, makeWord(formatSize(bytes) === "." ? "0 B" : formatSize(bytes),
        () => { const [one, other] = widestOf(transfers); choose({ from: one, to: other }); },
        { "aria-label": `${formatSize(bytes)} from ${row.label} to ${column.label}` }),
      busy === null ? null : make("small", {}, `${formatShare(busy)} of the step`));
      cell.style.background = `rgba(var(--heat), ${(0.05 + 0.27 * Math.sqrt(bytes / widest)).toFixed(2)})`;
      return cell;
    });
    const sent = links.reduce((sum, link) => sum + (link[0] === from ? link[2] : 0), 0);
    return make("tr", {}, make("th", { scope: "row", class: "name" }, row.label), ...cells, numberCell(formatSize(sent)));
  });
  const received = columns.map((_, to) => links.reduce((sum, link) => sum + (link[1] === to ? link[2] : 0), 0));
  const foot = make("tr", {}, make("th", { scope: "row" }, "received"), ...received.map((each) => numberCell(formatSize(each))),
    numberCell(formatSize(received.reduce((sum, each) => sum + each, 0))));
  byId("matrix").replaceChildren(make("thead", {}, head), make("tbody", {}, ...rows), make("tfoot", {}, foot));
}

// --- what is chosen -----------------------------------------------------------------------------------------

/** What the forecast of a device's memory is made of. @param {number} number */
export function explainDevice(number) {
  const device = data.devices[number];
  if (!device) return;
  /** @param {number | null} bytes */
  const size = (bytes) => (bytes === null ? null : formatSize(bytes));
  showDetail(make("h2", {}, device.memory === null ? device.ref : `Memory forecast of ${device.ref}`), makeFacts(
    ["name in TensorFlow", make("span", { class: "name" }, device.device)],
    ["variables", size(device.variables)], ["slots", size(device.slots)], ["other variables", size(device.other)],
    ["tensors of a step at their peak", size(device.step)], ["in all", size(device.memory)],
    ["memory that the spec gives it", size(device.limit)],
    ["busy", device.busy === null ? null : `${formatShare(device.busy)} of a step`]),
  ...listTensors("Largest tensors at the peak", device.largest));
}

/**
 * @param {number} from
 * @param {number} to
 */
export function explainLink(from, to) {
  const link = data.transfers.find((each) => each[0] === from && each[1] === to);
  const [, , tensors, bytes, unknown, , busy] = link ?? [0, 0, 0, 0, 0, 0, null];
  const known = `${plural(tensors, "tensor")}, ${formatSize(bytes)} a step`;
  showDetail(make("h2", {}, `From ${placeName(from)} to ${placeName(to)}`),
    make("p", {}, unknown ? `${known}, and ${unknown.toLocaleString("en-US")} of unknown size` : known),
    busy === null ? null : make("p", {}, `It carries something in ${formatShare(busy)} of the step.`),
    ...listTensors("Largest tensors of a step", link ? largestOf(link) : []));
}

function mark() {
  const { chosen } = view;
  const device = chosen && "device" in chosen ? String(chosen.device) : null;
  const link = chosen && "from" in chosen ? `${chosen.from}>${chosen.to}` : null;
  for (const button of strip.querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(button.dataset["devices"] === device));
  }
  for (const each of strip.querySelectorAll("[data-link]")) {
    each.setAttribute("aria-pressed", String(link !== null && (each.getAttribute("data-link") ?? "").split(" ").includes(link)));
  }
}

/** @param {"devices" | "transfers"} table */
function writeSort(table) {
  const { by, down } = sorts[table];
  return by === USUAL[table].by && down === USUAL[table].down ? null : `${table}=${down ? "" : "-"}${by}`;
}

/** @returns {(string | null)[]} */
function write() {
  const { chosen } = view;
  const written = [writeSort("devices"), writeSort("transfers")];
  if (chosen && "device" in chosen) written.push(`device=${encodeURIComponent(placeName(chosen.device))}`);
  if (chosen && "from" in chosen) written.push(`link=${[chosen.from, chosen.to].map((each) => encodeURIComponent(placeName(each))).join(",")}`);
  return written;
}

/** @param {import("../both/state.js").Address} address */
function read(address) {
  for (const table of /** @type {("devices" | "transfers")[]} */ (["devices", "transfers"])) {
    const found = (address.get(table) ?? "").match(/^(-?)(\d+)$/);
    sorts[table] = found ? { by: Number(found[2]), down: !found[1] } : { ...USUAL[table] };
  }
  drawDeviceTable();
  drawTransferTable();
  const device = data.places.indexOf(decode(address.get("device")));
  if (device >= 0 && device < data.devices.length) {
    view.chosen = { device };
    showDevice(groups, device);
    drawDevices();
  }
  const [from = -1, to = -1] = decodeList(address.get("link")).map((each) => data.places.indexOf(each));
  if (data.transfers.some((each) => each[0] === from && each[1] === to)) view.chosen = { from, to };
}

export function startDevices() {
  /** @type {HTMLDetailsElement} */ (byId("devices-section")).open = data.devices.length <= OPENED;
  onDevices(drawOwnStrip);
  onDevices(drawMatrix);
  register({ write, read, mark });
}
