// The timeline of a forecast step: a row for each device and link, with a measured step beneath, zoom, pan and keys.

import { data } from "../both/data.js";
import { byId, make, makeFacts, makeKey, makeWord } from "../both/dom.js";
import { formatShare, formatSize, formatTime, plural } from "../both/format.js";
import { choose, register, view, writeAddress } from "../both/state.js";
import { explainOp, linkTo, showDetail } from "../map/explain.js";
import { findNode, hasNode } from "../map/tree.js";

/** @typedef {import("../both/data.js").Bar} Bar */
/** @typedef {import("../both/data.js").Row} Row */
/** @typedef {import("../both/data.js").MeasuredBar} MeasuredBar */

const ROWS_SHOWN = 40;
const ZOOM = 2;          // by one press
const NEAR = 4;          // pixels within which a press finds a bar
const GAP = 3;           // pixels between what is forecast and what was measured
const { step } = data;
const span = { from: 0, to: step?.until ?? 0, rows: ROWS_SHOWN };
const timeline = byId("timeline");

/** @param {number} number */
function nameOf(number) {
  const [form, ...numbers] = step?.names[number] ?? [];
  return (step?.forms[form ?? -1] ?? "").replace(/#/g, () => String(numbers.shift()));
}

/** @param {Bar | MeasuredBar} bar */
const barName = (bar) => nameOf(bar[0]);

/** @param {Row} row */
const laneHeight = (row) => laneOf(row.lanes);

/** @param {number} lanes */
const laneOf = (lanes) => (lanes > 4 ? Math.max(4, 64 / lanes) : 16);

/** @param {Row} row */
const forecastHeight = (row) => laneOf(row.lanes) * Math.max(1, row.lanes) + 2;

/** @param {Row} row */
const rowHeight = (row) => forecastHeight(row) + (row.measured_lanes ? GAP + laneOf(row.measured_lanes) * row.measured_lanes : 0);

/** @param {Element} canvas */
const rowNumber = (canvas) => Number(canvas.getAttribute("data-row"));

/** @returns {NodeListOf<HTMLCanvasElement>} */
const allCanvases = () => timeline.querySelectorAll("canvas");

function drawHead() {
  byId("timeline-section").hidden = !step;
  if (!step) return;
  const how = step.estimate ? `an estimate for the hardware ${step.source}` : `forecast by ${step.source}`;
  const around = step.around ? `The rows do not show ${formatTime(step.around)} of it, before its first op and after its last one. ` : "";
  byId("timeline-title").textContent = step.alone ? "Timeline of several updates" : "Timeline of a step";
  const each = step.alone ? "There is an update every" : "A step takes";
  byId("timeline-about").textContent = `${each} ${formatTime(step.seconds * 1e6)}, ${how}. ${around}`
    + "Keys in a row: arrows go from bar to bar and from row to row, + and - zoom, "
    + "0 shows all, Shift with an arrow moves. With the mouse: drag, or turn the wheel with Ctrl.";
  byId("timeline-keys").replaceChildren(makeKey("step", "on the critical path"), makeKey("variables", "other ops"),
    makeKey("slots", "other transfers"), ...(step.beneath ? [makeKey("other", "a measured step, that of median length")] : []));
  /**
   * @param {string} text
   * @param {string} label
   * @param {() => void} act
   */
  const button = (text, label, act) => byId("timeline-buttons").append(make("button", { type: "button", "aria-label": label, onclick: act }, text));
  button("+", "Zoom in", () => zoom(1 / ZOOM));
  button("\u2212", "Zoom out", () => zoom(ZOOM));
  button("\u2190", "Earlier", () => pan(-0.5));
  button("\u2192", "Later", () => pan(0.5));
  button("All", "Show the whole step", () => show(0, step.until));
  makeRows();
  drawBeneath();
}

function makeRows() {
  if (!step) return;
  const rows = step.rows.slice(0, span.rows).map((row, at) => {
    const words = `${row.label}: ${formatShare(row.busy)} busy`;
    const bars = row.measured.length ? `${plural(row.bars.length, "bar")}, ${row.measured.length} measured` : plural(row.bars.length, "bar");
    const said = make("div", { class: "said" }, make("small", {}, `${formatShare(row.busy)} busy`));
    if (row.measured_lanes) {
      const ran = make("small", {}, makeKey("other", `${formatShare(row.measured_busy)} busy`), make("span", { class: "unseen" }, " as measured"));
      said.append(ran);
      said.style.setProperty("--forecast", `${forecastHeight(row) + GAP}px`);
    }
    const canvas = make("canvas", { role: "img", tabindex: at === 0 ? 0 : -1, "data-row": at, "aria-label": `${words}, ${bars}` });
    canvas.style.height = `${rowHeight(row)}px`;
    return make("li", {}, make("span", { class: "name" }, row.label), said, canvas);
  });
  if (step.rows.length > rows.length) {
    const more = () => { span.rows = Infinity; makeRows(); draw(); };
    rows.push(make("li", {}, make("button", { type: "button", onclick: more }, `show all ${step.rows.length} rows`)));
  }
  if (step.left) rows.push(make("li", {}, `${plural(step.left, "row")} of less busy devices and links are left out; --trace writes all.`));
  timeline.replaceChildren(...rows);
}

function draw() {
  if (!step) return;
  const style = getComputedStyle(document.documentElement);
  const color = Object.fromEntries(["accent", "step", "slots", "page", "text", "other"].map((name) => [name, style.getPropertyValue(`--${name}`)]));
  for (const canvas of allCanvases()) drawRow(canvas, color);
  byId("timeline-span").textContent = `${formatTime(span.from)} to ${formatTime(span.to)}`;
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Record<string, string>} color
 */
function drawRow(canvas, color) {
  const row = step?.rows[rowNumber(canvas)];
  const pen = canvas.getContext("2d");
  if (!row || !pen) return;
  const [width, height, dense] = [canvas.clientWidth, canvas.clientHeight, window.devicePixelRatio || 1];
  canvas.width = width * dense;
  canvas.height = height * dense;
  pen.scale(dense, dense);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const scale = width / (span.to - span.from);
  /** @type {[number, number, number, number][]} */
  const marks = [];
  /**
   * @param {(Bar | MeasuredBar)[]} bars
   * @param {number} offset
   * @param {number} tall
   * @param {(bar: any) => string | undefined} paint
   * @param {boolean} ran
   */
  const drawBars = (bars, offset, tall, paint, ran) => bars.forEach((bar, number) => {
    const left = (bar[2] - span.from) * scale;
    const long = Math.max(1, bar[3] * scale);
    if (left > width || left + long < 0) return;
    const top = offset + bar[1] * tall;
    pen.fillStyle = paint(bar) ?? "";
    pen.fillRect(left, top, Math.max(1, long - (long > 4 ? 1 : 0)), tall - 1);
    const [from, to] = [Math.max(0, left), Math.min(width, left + long)];
    if (tall > 12 && long > 40) drawBarName(pen, color["page"] ?? "", barName(bar), from, top, to, tall);
    if (isMarked(rowNumber(canvas), number, bar, ran)) marks.push([left, top, long, tall]);
  });
  drawBars(row.bars, 1, laneHeight(row), (bar) => (bar[4] ? color["step"] : bar.length > 5 ? color["slots"] : color["accent"]), false);
  drawBars(row.measured, forecastHeight(row) + GAP - 1, laneOf(row.measured_lanes), () => color["other"], true);
  pen.strokeStyle = color["text"] ?? "";
  pen.lineWidth = 2;
  for (const [left, top, long, tall] of marks) pen.strokeRect(left, top, Math.max(3, long), tall - 1);
}

/**
 * The last part of the name, or the last two, as far as there is room for them.
 * @param {CanvasRenderingContext2D} pen
 * @param {string} color
 * @param {string} name
 * @param {number} left
 * @param {number} top
 * @param {number} right
 * @param {number} tall
 */
function drawBarName(pen, color, name, left, top, right, tall) {
  const parts = name.split("/");
  const text = [parts.slice(-2).join("/"), parts[parts.length - 1] ?? ""].find((each) => pen.measureText(each).width < right - left - 8);
  if (!text) return;
  pen.fillStyle = color;
  pen.fillText(text, left + 4, top + tall / 2);
}

/**
 * @param {number} row
 * @param {number} number
 * @param {Bar | MeasuredBar} bar
 * @param {boolean} ran
 */
function isMarked(row, number, bar, ran) {
  const { chosen } = view;
  if (chosen && "bar" in chosen) return chosen.bar[0] === row && chosen.bar[1] === number && chosen.bar[2] === ran;
  return chosen !== null && "path" in chosen && chosen.path === barName(bar);
}

/**
 * Show some microseconds, no less than a ten-thousandth of the step and nothing outside of it.
 * @param {number} from
 * @param {number} to
 */
function show(from, to) {
  const until = step?.until ?? 0;
  const long = Math.min(until, Math.max(until / 10000, to - from));
  span.from = Math.min(Math.max(0, from), until - long);
  span.to = span.from + long;
  draw();
  writeAddress();
}

function zoom(/** @type {number} */ factor, middle = (span.from + span.to) / 2) {
  show(middle - (middle - span.from) * factor, middle + (span.to - middle) * factor);
}

/** @param {number} part */
const pan = (part) => show(span.from + part * (span.to - span.from), span.to + part * (span.to - span.from));

/**
 * The bars of a row that a key or a press leads to.
 * @param {number} row
 * @param {boolean} ran
 * @returns {(Bar | MeasuredBar)[]}
 */
const barsOf = (row, ran) => step?.rows[row]?.[ran ? "measured" : "bars"] ?? [];

/**
 * Choose a bar of a row and bring it into sight.
 * @param {number} row
 * @param {number} number
 * @param {boolean} ran
 */
function chooseBar(row, number, ran) {
  const bar = barsOf(row, ran)[number];
  if (!bar) return;
  choose({ bar: [row, number, ran] });
  const middle = bar[2] + bar[3] / 2;
  const half = (span.to - span.from) / 2;
  if (middle < span.from || middle > span.to) show(middle - half, middle + half);
}

/** @param {number} row */
function focusTimelineRow(row) {
  for (const canvas of allCanvases()) {
    canvas.tabIndex = rowNumber(canvas) === row ? 0 : -1;
    if (rowNumber(canvas) === row) canvas.focus();
  }
}

/**
 * The bar that is nearest to a press, and whether it was measured.
 * @param {Element} canvas
 * @param {MouseEvent} event
 * @returns {[number, boolean]}
 */
function findBar(canvas, event) {
  const row = step?.rows[rowNumber(canvas)];
  const box = canvas.getBoundingClientRect();
  if (!row) return [-1, false];
  const perPixel = (span.to - span.from) / box.width;
  const time = span.from + (event.clientX - box.left) * perPixel;
  const y = event.clientY - box.top - 1;
  const ran = row.measured_lanes > 0 && y > forecastHeight(row);
  const lane = ran ? Math.floor((y - forecastHeight(row) - GAP + 2) / laneOf(row.measured_lanes)) : Math.floor(y / laneHeight(row));
  let [best, nearest] = [-1, NEAR * perPixel];
  barsOf(rowNumber(canvas), ran).forEach((bar, number) => {
    const away = Math.max(bar[2] - time, time - bar[2] - bar[3], 0);
    if (bar[1] === lane && away < nearest) [best, nearest] = [number, away];
  });
  return [best, ran];
}

/**
 * The bar that an arrow key leads to in another row: the one that is nearest in time.
 * @param {(Bar | MeasuredBar)[]} bars
 * @param {number} time
 */
function nearestBar(bars, time) {
  let [best, nearest] = [0, Infinity];
  bars.forEach((bar, number) => { if (Math.abs(bar[2] - time) < nearest) [best, nearest] = [number, Math.abs(bar[2] - time)]; });
  return best;
}

// Down leads from an op as it is forecast to the same op as it was measured, if it was, then to the next row; up back.
/**
 * @param {number} row
 * @param {number} chosen
 * @param {boolean} ran
 * @param {number} way
 */
function turnRow(row, chosen, ran, way) {
  const beneath = (step?.rows[row]?.measured_lanes ?? 0) > 0;
  const stays = chosen >= 0 && beneath && ran === way < 0;
  const to = stays ? row : row + way;
  if (to < 0 || to >= allCanvases().length) return;
  const next = stays ? !ran : way < 0 && (step?.rows[to]?.measured_lanes ?? 0) > 0;
  focusTimelineRow(to);
  const from = barsOf(row, ran)[chosen];
  if (!from) return;
  const same = stays ? barsOf(to, next).findIndex((each) => each[0] === from[0]) : -1;
  chooseBar(to, same >= 0 ? same : nearestBar(barsOf(to, next), from[2]), next);
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  const canvas = /** @type {Element} */ (event.target).closest("canvas");
  if (!canvas || event.ctrlKey || event.metaKey || event.altKey) return;
  const row = rowNumber(canvas);
  const bar = view.chosen && "bar" in view.chosen && view.chosen.bar[0] === row ? view.chosen.bar : null;
  const [chosen, ran] = bar ? [bar[1], bar[2]] : [-1, false];
  /** @type {Record<string, () => void>} */
  const moves = {
    ArrowRight: () => (event.shiftKey ? pan(0.25) : chooseBar(row, chosen + 1, ran)),
    ArrowLeft: () => (event.shiftKey ? pan(-0.25) : chooseBar(row, Math.max(0, chosen - 1), ran)),
    ArrowDown: () => turnRow(row, chosen, ran, 1),
    ArrowUp: () => turnRow(row, chosen, ran, -1),
    Home: () => chooseBar(row, 0, ran),
    End: () => chooseBar(row, barsOf(row, ran).length - 1, ran),
    "+": () => zoom(1 / ZOOM),
    "-": () => zoom(ZOOM),
    0: () => show(0, step?.until ?? 0),
  };
  const move = Object.hasOwn(moves, event.key) ? moves[event.key] : undefined;
  if (!move) return;
  event.preventDefault();
  move();
}

/** Where the mouse went down, and what was shown then. @type {{ canvas: HTMLCanvasElement, x: number, from: number, to: number, moved: boolean } | null} */
let held = null;

/** @param {PointerEvent} event */
function onDown(event) {
  const canvas = /** @type {Element} */ (event.target).closest("canvas");
  if (!canvas || event.button !== 0) return;
  held = { canvas, x: event.clientX, from: span.from, to: span.to, moved: false };
}

/** @param {PointerEvent} event */
function onMove(event) {
  if (!held) return;
  const by = (held.x - event.clientX) * (held.to - held.from) / held.canvas.clientWidth;
  if (Math.abs(held.x - event.clientX) > NEAR) held.moved = true;
  if (held.moved) show(held.from + by, held.to + by);
}

/** @param {PointerEvent} event */
function onUp(event) {
  if (!held) return;
  const { canvas, moved } = held;
  held = null;
  if (moved || event.type === "pointercancel") return;
  const [number, ran] = findBar(canvas, event);
  focusTimelineRow(rowNumber(canvas));
  if (number >= 0) chooseBar(rowNumber(canvas), number, ran);
}

/** @param {WheelEvent} event */
function onWheel(event) {
  const canvas = /** @type {Element} */ (event.target).closest("canvas");
  if (!canvas || !event.ctrlKey) return;
  event.preventDefault();
  const box = canvas.getBoundingClientRect();
  zoom(event.deltaY < 0 ? 1 / ZOOM : ZOOM, span.from + (event.clientX - box.left) / box.width * (span.to - span.from));
}

/** @param {[number, number, boolean]} chosen */
export function explainBar([at, number, ran]) {
  const [row, bar] = [step?.rows[at], barsOf(at, ran)[number]];
  if (!step || !row || !bar) return;
  const path = barName(bar).replace(/:\d+$/, "");
  const bytes = bar[5] ?? -1;
  const link = bytes >= 0;
  const beneath = step.beneath?.ops.find((each) => nameOf(each[0]) === path);
  const facts = makeFacts(
    [link ? "link" : "device", row.label],
    [ran ? "measured, starts after" : "starts after", formatTime(bar[2])],
    ["takes", `${formatTime(bar[3])}, ${(bar[3] / step.seconds / 1e4).toFixed(1)}% of the step`],
    ["bytes", link ? formatSize(bytes) : null],
    ["critical path", ran ? null : bar[4] ? "on it" : "not on it"],
    ["forecast, measured", beneath && !link ? `${formatTime(beneath[2])}, ${formatTime(beneath[3])}` : null]);
  const node = hasNode(path) ? findNode(path) : null;
  const title = make("h2", {}, link ? "Transfer of " : "", linkTo(path));
  showDetail(title, facts, ...(node?.op ? [make("h3", {}, link ? "The op that makes it" : "The op"), ...explainOp(node)] : []));
}

// --- the ops whose measured time differs most from the forecast ----------------------------------------------

function drawBeneath() {
  const beneath = step?.beneath;
  byId("beneath-section").hidden = !beneath;
  if (!step || !beneath) return;
  const whole = beneath.span === null ? "" : ` The step that is drawn took ${formatTime(beneath.length)} from its first op to its last one, forecast ${formatTime(beneath.span)}.`;
  const most = beneath.told.length ? ` The largest differences, ${formatShare(beneath.share)} of the sum of all:` : " No op differs.";
  byId("beneath-about").textContent = `Measured in ${plural(beneath.steps, "step")}: its ops took ${formatTime(beneath.measured)} together, `
    + `forecast ${formatTime(beneath.forecast)}`
    + `${beneath.unknown ? `, and ${formatTime(beneath.unknown)} in ops that the forecast leaves out` : ""}.${whole}`
    + ` Ops take longer while they are traced.${most}`;
  byId("beneath-told").replaceChildren(...beneath.told.map(makeTold));
  const head = make("tr", {}, ...["op", "forecast", "measured", "difference"].map((each) => make("th", { scope: "col" }, each)));
  const rows = beneath.ops.map(([name, device, forecast, measured]) => {
    const path = nameOf(name);
    return make("tr", {},
      make("td", {}, makeOpWord(path, device), make("small", { class: "name" }, device)),
      make("td", {}, formatTime(forecast)), make("td", {}, formatTime(measured)),
      make("td", {}, `${measured > forecast ? "+" : "\u2212"}${formatTime(Math.abs(measured - forecast))}`));
  });
  byId("beneath").replaceChildren(make("thead", {}, head), make("tbody", {}, ...rows));
}

/**
 * The name of an op, which a narrow window breaks after a slash, as a way to its bar.
 * @param {string} path
 * @param {string} device
 */
function makeOpWord(path, device) {
  const parts = path.split(/(?<=\/)/).flatMap((part, at) => (at ? [make("wbr", {}), part] : [part]));
  return makeWord(make("span", {}, ...parts), () => chooseOp(path, device), { class: "plain name" });
}

/**
 * A sentence about what differs, one op or the same op of some clones.
 * @param {[number, string, number, number, number]} told
 */
function makeTold([name, device, ops, forecast, measured]) {
  const path = nameOf(name);
  const [who, together] = ops > 1 ? [` and the same op of ${plural(ops - 1, "other clone")}`, " together"] : [` on ${device}`, ""];
  const time = (/** @type {number} */ long) => formatTime(long).replace(" ", "\u00a0");
  const away = `${time(Math.abs(measured - forecast))} ${measured > forecast ? "longer" : "shorter"} than forecast`;
  const ran = measured ? `took ${time(measured)}${together}, ${away} (${time(forecast)})`
    : `${ops > 1 ? "are" : "is"} forecast to take ${time(forecast)}${together} and did not run`;
  return make("li", {}, makeOpWord(path, device), `${who} ${ran}.`);
}

/**
 * Choose the bar of an op: as it was measured if it was, else as it is forecast.
 * @param {string} path
 * @param {string} device
 */
function chooseOp(path, device) {
  const row = step?.rows.findIndex((each) => each.label === device) ?? -1;
  for (const ran of [true, false]) {
    const number = barsOf(row, ran).findIndex((bar) => barName(bar) === path);
    if (number < 0) continue;
    chooseBar(row, number, ran);
    return;
  }
  choose({ path });
}

/** @returns {(string | null)[]} */
function write() {
  const { chosen } = view;
  const whole = !step || (span.from <= 0 && span.to >= step.until);
  return [
    whole ? null : `time=${span.from.toFixed(3)},${span.to.toFixed(3)}`,
    chosen && "bar" in chosen ? `bar=${chosen.bar[0]},${chosen.bar[1]}${chosen.bar[2] ? ",measured" : ""}` : null,
  ];
}

/** @param {import("../both/state.js").Address} address */
function read(address) {
  if (!step) return;
  const [from = -1, to = -1] = (address.get("time") ?? "").split(",").map(Number);
  const valid = from >= 0 && to > from && to <= step.until + 0.001;
  span.from = valid ? from : 0;
  span.to = valid ? to : step.until;
  const [row, number, ran] = (address.get("bar") ?? "").split(",");
  if (address.has("bar") && barsOf(Number(row), ran === "measured")[Number(number)]) {
    view.chosen = { bar: [Number(row), Number(number), ran === "measured"] };
  }
}

export function startTimeline() {
  drawHead();
  timeline.addEventListener("keydown", onKey);
  timeline.addEventListener("pointerdown", onDown);
  window.addEventListener("pointermove", onMove);
  window.addEventListener("pointerup", onUp);
  window.addEventListener("pointercancel", onUp);
  timeline.addEventListener("wheel", onWheel, { passive: false });
  window.addEventListener("resize", draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  register({ write, read, mark: draw });
}
