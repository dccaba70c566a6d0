// The timeline of a forecast step: a row for each device and link, drawn as bars, with zoom, pan and keys.

const { step } = data;
const ROWS_SHOWN = 40;
const ZOOM = 2;          // by one press
const NEAR = 4;          // pixels within which a click finds a bar
const span = { from: 0, to: step ? step.until : 0, rows: ROWS_SHOWN };
const timeline = document.getElementById("timeline");

// A bar in data: [name, lane, start, length, on the critical path, bytes or -1], with times in microseconds.
const barName = (bar) => step.names[bar[0]];
const isWhole = () => span.from <= 0 && span.to >= step.until;

function formatTime(microseconds) {
  const size = Math.abs(microseconds);
  if (size === 0) return "0 \u00b5s";
  if (size >= 999.5e6) return `${(microseconds / 1e6).toFixed(0)} s`;
  if (size >= 999.5e3) return `${(microseconds / 1e6).toPrecision(3)} s`;
  if (size >= 999.5) return `${(microseconds / 1e3).toPrecision(3)} ms`;
  return `${microseconds.toPrecision(3)} \u00b5s`;
}

function drawTimelineHead() {
  document.getElementById("timeline-section").hidden = !step;
  if (!step) return;
  const how = step.estimate ? `an estimate for the hardware ${step.source}` : `forecast by ${step.source}`;
  document.getElementById("timeline-about").textContent = `A step takes ${formatTime(step.seconds * 1e6)}, ${how}. `
    + "Orange bars are on the critical path. Keys in a row: arrows go from bar to bar and from row to row, + and - zoom, "
    + "0 shows all, Shift with an arrow moves. With the mouse: drag, or turn the wheel with Ctrl.";
  const bar = document.getElementById("timeline-bar");
  const button = (text, label, act) => bar.append(make("button", { type: "button", "aria-label": label, onclick: act }, text));
  button("+", "Zoom in", () => zoom(1 / ZOOM));
  button("\u2212", "Zoom out", () => zoom(ZOOM));
  button("\u2190", "Earlier", () => pan(-0.5));
  button("\u2192", "Later", () => pan(0.5));
  button("All", "Show the whole step", () => show(0, step.until));
  makeTimelineRows();
}

function makeTimelineRows() {
  const rows = step.rows.slice(0, span.rows).map((row, at) => {
    const words = `${row.label}: ${(100 * row.busy).toFixed(0)}% busy`;
    const canvas = make("canvas", { role: "img", tabindex: at === 0 ? 0 : -1, "data-row": at, "aria-label": `${words}, ${plural(row.bars.length, "bar")}` });
    canvas.style.height = `${laneHeight(row) * Math.max(1, row.lanes) + 2}px`;
    return make("li", {}, make("span", { class: "name" }, row.label), make("small", {}, `${(100 * row.busy).toFixed(0)}% busy`), canvas);
  });
  if (step.rows.length > rows.length) {
    rows.push(make("li", {}, make("button", { type: "button", onclick: () => { span.rows = Infinity; makeTimelineRows(); drawTimeline(); } },
      `show all ${step.rows.length} rows`)));
  }
  timeline.replaceChildren(...rows);
}

const laneHeight = (row) => (row.lanes > 4 ? Math.max(4, 64 / row.lanes) : 16);

function drawTimeline() {
  if (!step) return;
  const style = getComputedStyle(document.documentElement);
  const color = Object.fromEntries(["accent", "step", "slots", "page", "text"].map((name) => [name, style.getPropertyValue(`--${name}`)]));
  for (const canvas of timeline.querySelectorAll("canvas")) drawRow(canvas, color);
  document.getElementById("timeline-span").textContent = `${formatTime(span.from)} to ${formatTime(span.to)}`;
}

function drawRow(canvas, color) {
  const row = step.rows[canvas.dataset.row];
  const [width, height, dense] = [canvas.clientWidth, canvas.clientHeight, window.devicePixelRatio || 1];
  canvas.width = width * dense;
  canvas.height = height * dense;
  const pen = canvas.getContext("2d");
  pen.scale(dense, dense);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const tall = laneHeight(row);
  const scale = width / (span.to - span.from);
  const marks = [];
  row.bars.forEach((bar, number) => {
    const left = (bar[2] - span.from) * scale;
    const long = Math.max(1, bar[3] * scale);
    if (left > width || left + long < 0) return;
    const top = 1 + bar[1] * tall;
    pen.fillStyle = bar[4] ? color.step : bar[5] >= 0 ? color.slots : color.accent;
    pen.fillRect(left, top, Math.max(1, long - (long > 4 ? 1 : 0)), tall - 1);
    if (tall > 12 && long > 40) drawBarName(pen, color.page, barName(bar), Math.max(0, left), top, Math.min(width, left + long), tall);
    if (isMarkedBar(canvas.dataset.row, number, bar)) marks.push([left, top, long]);
  });
  pen.strokeStyle = color.text;
  pen.lineWidth = 2;
  for (const [left, top, long] of marks) pen.strokeRect(left, top, Math.max(3, long), tall - 1);
}

// The last part of the name, or the last two, as far as there is room for them.
function drawBarName(pen, color, name, left, top, right, tall) {
  const parts = name.split("/");
  const text = [parts.slice(-2).join("/"), parts[parts.length - 1]].find((each) => pen.measureText(each).width < right - left - 8);
  if (!text) return;
  pen.fillStyle = color;
  pen.fillText(text, left + 4, top + tall / 2);
}

function isMarkedBar(row, number, bar) {
  const { thing, selected } = view;
  if (thing && thing.bar) return thing.bar[0] === Number(row) && thing.bar[1] === number;
  return selected !== null && selected.path === barName(bar);
}

// Show the microseconds from `from` to `to`, no less than a ten-thousandth of the step and nothing outside of it.
function show(from, to) {
  const long = Math.min(step.until, Math.max(step.until / 10000, to - from));
  span.from = Math.min(Math.max(0, from), step.until - long);
  span.to = span.from + long;
  drawTimeline();
  writeState();
}

function zoom(factor, middle = (span.from + span.to) / 2) {
  show(middle - (middle - span.from) * factor, middle + (span.to - middle) * factor);
}

const pan = (part) => show(span.from + part * (span.to - span.from), span.to + part * (span.to - span.from));

// Choose a bar of a row, bring it into sight, and put the focus on its row.
function chooseBar(row, number) {
  const bar = step.rows[row].bars[number];
  if (!bar) return;
  choose({ bar: [row, number] });
  const middle = bar[2] + bar[3] / 2;
  const half = (span.to - span.from) / 2;
  if (middle < span.from || middle > span.to) show(middle - half, middle + half);
}

function focusTimelineRow(row) {
  for (const canvas of timeline.querySelectorAll("canvas")) canvas.tabIndex = Number(canvas.dataset.row) === row ? 0 : -1;
  timeline.querySelector(`canvas[data-row="${row}"]`).focus();
}

function findBar(canvas, event) {
  const row = step.rows[canvas.dataset.row];
  const box = canvas.getBoundingClientRect();
  const perPixel = (span.to - span.from) / box.width;
  const time = span.from + (event.clientX - box.left) * perPixel;
  const lane = Math.floor((event.clientY - box.top - 1) / laneHeight(row));
  let [best, nearest] = [-1, NEAR * perPixel];
  row.bars.forEach((bar, number) => {
    const away = Math.max(bar[2] - time, time - bar[2] - bar[3], 0);
    if (bar[1] === lane && away < nearest) [best, nearest] = [number, away];
  });
  return best;
}

// The bar that an arrow key leads to in another row: the one that is nearest in time.
function nearestBar(row, time) {
  const { bars } = step.rows[row];
  let best = 0;
  bars.forEach((bar, number) => { if (Math.abs(bar[2] - time) < Math.abs(bars[best][2] - time)) best = number; });
  return best;
}

function onTimelineKey(event) {
  const canvas = event.target.closest("canvas");
  if (!canvas || event.ctrlKey || event.metaKey || event.altKey) return;
  const row = Number(canvas.dataset.row);
  const chosen = view.thing && view.thing.bar && view.thing.bar[0] === row ? view.thing.bar[1] : -1;
  const turn = (to) => {
    if (to < 0 || to >= timeline.querySelectorAll("canvas").length) return;
    focusTimelineRow(to);
    if (chosen >= 0) chooseBar(to, nearestBar(to, step.rows[row].bars[chosen][2]));
  };
  const moves = {
    ArrowRight: () => (event.shiftKey ? pan(0.25) : chooseBar(row, chosen + 1)),
    ArrowLeft: () => (event.shiftKey ? pan(-0.25) : chooseBar(row, Math.max(0, chosen - 1))),
    ArrowDown: () => turn(row + 1),
    ArrowUp: () => turn(row - 1),
    Home: () => chooseBar(row, 0),
    End: () => chooseBar(row, step.rows[row].bars.length - 1),
    "+": () => zoom(1 / ZOOM),
    "-": () => zoom(ZOOM),
    0: () => show(0, step.until),
  };
  if (!Object.hasOwn(moves, event.key)) return;
  event.preventDefault();
  moves[event.key]();
}

let held = null; // where the mouse went down, and what was shown then

function onTimelinePress(event) {
  const canvas = event.target.closest("canvas");
  if (!canvas || event.button !== 0) return;
  held = { canvas, x: event.clientX, from: span.from, to: span.to, moved: false };
}

function onTimelineMove(event) {
  if (!held) return;
  const by = (held.x - event.clientX) * (held.to - held.from) / held.canvas.clientWidth;
  if (Math.abs(held.x - event.clientX) > NEAR) held.moved = true;
  if (held.moved) show(held.from + by, held.to + by);
}

function onTimelineRelease(event) {
  if (!held) return;
  const { canvas, moved } = held;
  held = null;
  if (moved || event.type === "pointercancel") return;
  const number = findBar(canvas, event);
  focusTimelineRow(Number(canvas.dataset.row));
  if (number >= 0) chooseBar(Number(canvas.dataset.row), number);
}

function onTimelineWheel(event) {
  const canvas = event.target.closest("canvas");
  if (!canvas || !event.ctrlKey) return;
  event.preventDefault();
  const box = canvas.getBoundingClientRect();
  zoom(event.deltaY < 0 ? 1 / ZOOM : ZOOM, span.from + (event.clientX - box.left) / box.width * (span.to - span.from));
}

function explainBar([at, number]) {
  const row = step.rows[at];
  const bar = row.bars[number];
  const path = barName(bar).replace(/:\d+$/, "");
  const facts = make("dl", {});
  const fact = (term, text) => facts.append(make("dt", {}, term), make("dd", {}, text));
  fact(bar[5] >= 0 ? "link" : "device", row.label);
  fact("starts after", formatTime(bar[2]));
  fact("takes", `${formatTime(bar[3])}, ${(bar[3] / step.seconds / 1e4).toFixed(1)}% of the step`);
  if (bar[5] >= 0) fact("bytes", formatSize(bar[5]));
  fact("critical path", bar[4] ? "on it" : "not on it");
  const node = byPath.get(path);
  const title = make("h2", {}, bar[5] >= 0 ? "Transfer of " : "", linkTo(path));
  showDetail(title, facts, ...(node && node.kind ? [make("h3", {}, bar[5] >= 0 ? "The op that makes it" : "The op"), ...explainOp(node)] : []));
}

timeline.addEventListener("keydown", onTimelineKey);
timeline.addEventListener("pointerdown", onTimelinePress);
window.addEventListener("pointermove", onTimelineMove);
window.addEventListener("pointerup", onTimelineRelease);
window.addEventListener("pointercancel", onTimelineRelease);
timeline.addEventListener("wheel", onTimelineWheel, { passive: false });
window.addEventListener("resize", drawTimeline);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawTimeline);
