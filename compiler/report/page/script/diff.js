// The page of two placements side by side: their strips, and what moved between them.

import { makeGroups, turnGroup } from "./both/columns.js";
import { page } from "./both/data.js";
import { byId, inputById, make, makeFacts, makeWord } from "./both/dom.js";
import { formatChange, formatCount, formatShare, formatSize, formatTime, plural } from "./both/format.js";
import { quoteLines } from "./both/quote.js";
import { choose, decode, readAddress, register, view, writeAddress } from "./both/state.js";
import { drawStrip, fullest, widestLink } from "./both/strip.js";

/** @typedef {import("./both/data.js").Device} Device */
/** @typedef {import("./both/data.js").Transfer} Transfer */
/** @typedef {{ label: string, facts: string[], seconds: number | null, devices: Device[], numbers: number[], transfers: Transfer[] }} Side */
/** Name, devices before, devices after, rule before, rule after, bytes. @typedef {[string, number[], number[], number, number, number]} Change */
/** Reason, text, file, line, column. @typedef {[string, string, number, number, number]} Rule */

/**
 * @typedef {object} DiffData
 * @property {string} title
 * @property {[string, string, string][]} modes
 * @property {Side[]} sides
 * @property {[string, number, string][]} scopes
 * @property {Change[]} ops
 * @property {number} left
 * @property {Rule[]} rules
 * @property {string[]} files
 * @property {Record<string, string>[][]} lines
 * @property {string[]} places
 */

const PAGE = 300; // rows made at a time
const SHOWN = 8;  // devices named

/** @type {DiffData} */
const diff = page;
const search = inputById("search");
const shown = { query: "", limit: PAGE };

/** @param {number} at */
const placeName = (at) => diff.places[at] ?? "";

/** @param {number[]} places */
const placeNames = (places) => {
  const names = places.slice(0, SHOWN).map(placeName).join(", ");
  return places.length > SHOWN ? `${names} and ${places.length - SHOWN} more` : names || "nowhere";
};

/**
 * @param {string[]} heads
 * @param {number} left The number of columns that hold text.
 */
const makeHead = (heads, left) => make("thead", {}, make("tr", {}, ...heads.map((each, at) => make("th", { scope: "col", class: at < left ? "left" : "" }, each))));

/**
 * @param {number} wide
 * @param {HTMLElement[]} rows
 * @param {string} none
 */
const makeBody = (wide, rows, none) => make("tbody", {}, ...(rows.length ? rows : [make("tr", {}, make("td", { colspan: wide }, none))]));

function drawHead() {
  const [before, after] = diff.sides;
  const changes = diff.modes.map(([name, was, now]) => `${name}: ${was} \u2192 ${now}`);
  if (before?.seconds && after?.seconds) {
    const part = after.seconds / before.seconds - 1;
    changes.unshift(`a step: ${formatTime(before.seconds * 1e6)} \u2192 ${formatTime(after.seconds * 1e6)}, `
      + `${formatShare(Math.abs(part))} ${part > 0 ? "longer" : "shorter"}`);
  }
  byId("facts").textContent = changes.join(" \u00b7 ") || "the same modes";
}

function drawStrips() {
  const most = Math.max(...diff.sides.map((side) => fullest(side.devices)));
  const strips = diff.sides.map((side, at) => {
    byId(`title-${at}`).textContent = side.label;
    const facts = side.seconds === null ? side.facts : [...side.facts, `a step of ${formatTime(side.seconds * 1e6)}`];
    byId(`facts-${at}`).textContent = facts.join(" \u00b7 ");
    const groups = makeGroups(side.devices);
    const own = new Map(side.numbers.map((place, number) => /** @type {[number, number]} */ ([place, number])));
    /** @type {Transfer[]} */
    const transfers = side.transfers.map(([from, to, ...rest]) => [own.get(from) ?? -1, own.get(to) ?? -1, ...rest]);
    /** @type {import("./both/strip.js").Side} */
    const strip = {
      devices: side.devices, transfers, groups, most, widest: 0,
      onDevice: (device) => choose({ device: side.numbers[device] ?? -1 }),
      onGroup: (group) => { turnGroup(group); draw(); },
      onLink: (from, to) => choose({ from: side.numbers[from] ?? -1, to: side.numbers[to] ?? -1 }),
    };
    return strip;
  });
  const draw = () => {
    const widest = Math.max(...strips.map(widestLink));
    strips.forEach((strip, at) => drawStrip(byId(`strip-${at}`), byId("strip-keys"), { ...strip, widest }));
  };
  draw();
}

function drawScopes() {
  const rows = diff.scopes.map(([scope, ops, way]) => make("tr", {},
    make("td", { class: "name" }, scope), make("td", { class: "left name" }, way), make("td", {}, formatCount(ops))));
  byId("scopes").replaceChildren(makeHead(["scope", "devices", "ops"], 2), makeBody(3, rows, "no op has moved"));
}

/** The figures of a device: words, value, and how it is written. @type {[string, (device: Device) => number | null, (size: number) => string][]} */
const FIGURES = [
  ["ops", (device) => device.ops, formatCount],
  ["variables", (device) => device.variables, formatSize],
  ["slots", (device) => device.slots, formatSize],
  ["memory", (device) => device.memory, formatSize],
  ["in / step", (device) => device.in, formatSize],
  ["out / step", (device) => device.out, formatSize],
  ["busy", (device) => device.busy, formatShare],
];

/**
 * The device of a side that has this number.
 * @param {number} side
 * @param {number} place
 */
const deviceOn = (side, place) => diff.sides[side]?.devices[diff.sides[side]?.numbers.indexOf(place) ?? -1] ?? null;

/**
 * What differs on a device: words, before, after, and the change.
 * @param {number} place
 */
function figuresOf(place) {
  const [before, after] = [deviceOn(0, place), deviceOn(1, place)];
  return FIGURES.flatMap(([words, value, format]) => {
    const [was, now] = [before ? value(before) ?? 0 : 0, after ? value(after) ?? 0 : 0];
    return was === now ? [] : [[words, before ? format(was) : "none", after ? format(now) : "none", formatChange(now - was, format)]];
  });
}

function drawDevices() {
  const rows = diff.places.flatMap((name, place) => figuresOf(place).map(([words = "", was = "", now = "", change = ""], at) => make("tr", {},
    make("td", { class: "name" }, at ? "" : makeWord(name, () => choose({ device: place }), { class: "plain name" })),
    make("td", { class: "left" }, words), make("td", {}, was), make("td", {}, now), make("td", {}, change))));
  byId("devices").replaceChildren(makeHead(["device", "", "before", "after", "change"], 2), makeBody(5, rows, "no device differs"));
}

/**
 * @param {number} side
 * @param {number} from
 * @param {number} to
 */
const linkOn = (side, from, to) => diff.sides[side]?.transfers.find((each) => each[0] === from && each[1] === to) ?? null;

function drawLinks() {
  const pairs = new Map(diff.sides.flatMap((side) => side.transfers.map(([from, to]) => [`${from} ${to}`, [from, to]])));
  const found = [...pairs.values()].map(([from = 0, to = 0]) => {
    const [was, now] = [linkOn(0, from, to), linkOn(1, from, to)];
    return { from, to, was, now, change: (now?.[3] ?? 0) - (was?.[3] ?? 0) };
  }).filter(({ was, now, change }) => change || was?.[2] !== now?.[2]).sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
  /** @param {Transfer | null} link */
  const size = (link) => (link ? `${formatSize(link[3])} in ${link[2]}` : "nothing");
  const rows = found.slice(0, PAGE).map(({ from, to, was, now, change }) => make("tr", {},
    make("td", { class: "name" }, makeWord(placeName(from), () => choose({ from, to }), { class: "plain name", "aria-label": `${placeName(from)} to ${placeName(to)}` })),
    make("td", { class: "left name" }, placeName(to)),
    make("td", {}, size(was)), make("td", {}, size(now)), make("td", {}, formatChange(change, formatSize))));
  byId("links").replaceChildren(makeHead(["from", "to", "before", "after", "change"], 2), makeBody(5, rows, "no link differs"));
}

function drawOps() {
  const words = shown.query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = diff.ops.filter(([name, before, after]) => words.every((word) => `${name} ${placeNames(before)} ${placeNames(after)}`.toLowerCase().includes(word)));
  const rows = found.slice(0, shown.limit).map(([name, before, after, , , bytes]) => make("tr", { "data-path": name },
    make("td", { class: "name" }, makeWord(name, () => choose({ path: name }), { class: "plain name" })),
    make("td", { class: "left name" }, placeNames(before)), make("td", { class: "left name" }, placeNames(after)),
    make("td", {}, bytes ? formatSize(bytes) : "")));
  if (found.length > shown.limit) {
    const more = make("button", { type: "button", onclick: () => { shown.limit += PAGE; drawOps(); } }, `show more of ${plural(found.length, "row")}`);
    rows.push(make("tr", { class: "more" }, make("td", { colspan: 4 }, more)));
  }
  byId("found").textContent = plural(found.length, "change") + (diff.left ? `, and ${formatCount(diff.left)} that are not listed` : "");
  byId("ops").replaceChildren(makeHead(["name", "before", "after", "bytes"], 3), makeBody(4, rows, "nothing matches"));
  mark();
}

function mark() {
  const { chosen } = view;
  for (const row of document.querySelectorAll("#ops tr[data-path]")) {
    row.classList.toggle("hit", chosen !== null && "path" in chosen && row.getAttribute("data-path") === chosen.path);
  }
}

/**
 * @param {number} side
 * @param {number} number
 * @param {number[]} places
 */
function explainSide(side, number, places) {
  const rule = diff.rules[number];
  const parts = [make("h3", {}, side ? "After" : "Before"), make("p", {}, placeNames(places))];
  if (!rule) return parts;
  const [reason, text, file, line, column] = rule;
  if (file < 0) return [...parts, make("p", {}, "the default ", make("code", {}, text))];
  return [...parts, make("p", {}, `${reason === "follows" ? "follows what is placed by " : ""}the rule `, make("code", {}, text)),
    ...quoteLines(diff.files[file] ?? "", diff.lines[side]?.[file], line, column)];
}

/** @param {Change} change */
const explainChange = ([name, before, after, was, now, bytes]) => [make("h2", { class: "name" }, name),
  makeFacts(["bytes", bytes ? formatSize(bytes) : null]), ...explainSide(0, was, before), ...explainSide(1, now, after)];

/** @param {number} place */
function explainDevice(place) {
  const figures = figuresOf(place).map(([words = "", was = "", now = "", change = ""]) => /** @type {[string, string]} */ ([words, `${was} \u2192 ${now} (${change})`]));
  return [make("h2", {}, placeName(place)), figures.length ? makeFacts(...figures) : make("p", {}, "The same before and after.")];
}

/**
 * @param {number} from
 * @param {number} to
 */
function explainLink(from, to) {
  const words = ["before", "after"].map((each, side) => {
    const link = linkOn(side, from, to);
    const share = link?.[6] === null || link?.[6] === undefined ? "" : `, ${formatShare(link[6])} of the step`;
    return /** @type {[string, string]} */ ([each, link ? `${formatSize(link[3])} in ${plural(link[2], "tensor")}${share}` : "nothing"]);
  });
  return [make("h2", {}, `From ${placeName(from)} to ${placeName(to)}`), makeFacts(...words)];
}

function explain() {
  const { chosen } = view;
  byId("detail").classList.toggle("chosen", chosen !== null);
  mark();
  const change = chosen && "path" in chosen ? diff.ops.find((each) => each[0] === chosen.path) : undefined;
  const parts = change ? explainChange(change)
    : chosen && "device" in chosen ? explainDevice(chosen.device)
      : chosen && "from" in chosen ? explainLink(chosen.from, chosen.to)
        : [make("h2", {}, "Why did it move?"), make("p", {}, "Choose an op, a device or a link: what it was before and is now, with the rules and their lines.")];
  byId("said").replaceChildren(...parts);
}

function onSearch() {
  [shown.query, shown.limit] = [search.value, PAGE];
  drawOps();
  writeAddress();
}

function start() {
  drawHead();
  drawStrips();
  drawScopes();
  drawDevices();
  drawLinks();
  search.addEventListener("input", onSearch);
  byId("close").addEventListener("click", () => choose(null));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && view.chosen && event.target !== search) choose(null);
  });
  register({
    write: () => {
      const { chosen } = view;
      return [
        shown.query ? `q=${encodeURIComponent(shown.query)}` : null,
        chosen && "device" in chosen ? `device=${encodeURIComponent(placeName(chosen.device))}` : null,
        chosen && "from" in chosen ? `link=${[chosen.from, chosen.to].map((each) => encodeURIComponent(placeName(each))).join(",")}` : null,
        chosen && "path" in chosen ? `sel=${encodeURIComponent(chosen.path)}` : null,
      ];
    },
    read: (address) => {
      shown.query = decode(address.get("q"));
      search.value = shown.query;
      const path = decode(address.get("sel"));
      const device = diff.places.indexOf(decode(address.get("device")));
      const [from = -1, to = -1] = (address.get("link") ?? "").split(",").map((each) => diff.places.indexOf(decode(each)));
      if (diff.ops.some((each) => each[0] === path)) view.chosen = { path };
      else if (device >= 0) view.chosen = { device };
      else if (from >= 0 && to >= 0) view.chosen = { from, to };
      drawOps();
    },
    mark: explain,
  });
  window.addEventListener("hashchange", readAddress);
  readAddress();
}

start();
