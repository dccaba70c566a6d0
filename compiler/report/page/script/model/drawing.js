// The model as a graph of layers, each coloured by the device on which a clone computes it.

import { data, placeName } from "../both/data.js";
import { byId, make, makeFacts, makeSvg, onPress } from "../both/dom.js";
import { choose, decode, register, view, writeAddress } from "../both/state.js";
import { explainOp, explainScope, linkTo, quote, showDetail } from "../map/explain.js";
import { eachNode, findNode, hasNode, placesOf } from "../map/tree.js";
import { layOut } from "./layout.js";

const [BOX, TALL, BESIDE, BELOW] = [184, 42, 24, 26]; // boxes and what is between them, in pixels
const LETTERS = 25; // of a line in a box
const HUE = 137.5;  // between the colours of two devices, in degrees
const FIRST = 210;

const { model } = data;
const holder = byId("model");
const chooser = /** @type {HTMLSelectElement} */ (byId("model-clone"));
const drawn = { clone: 0 };

/** @param {number} clone */
const scopeOf = (clone) => data.clones[clone] ?? "";

/**
 * The scope of a box in the tower of the clone, or in the graph if towers share it.
 * @param {number} box
 */
function pathOf(box) {
  const [inner = "", , kind = ""] = model?.boxes[box] ?? [];
  const scope = scopeOf(drawn.clone);
  const paths = [scope ? `${scope}/${inner}` : inner, inner, ...(kind === "input" ? ["input"] : [])];
  return paths.find(hasNode) ?? null;
}

/**
 * The device that computes most of a scope on the way forward; without such ops, the one that has most of its ops.
 * @param {string | null} path
 */
function deviceOf(path) {
  const family = data.families.find((each) => each.clones.includes(drawn.clone));
  const shared = family && path?.startsWith(`${scopeOf(drawn.clone)}/`) ? findNode(family.label + path.slice(scopeOf(drawn.clone).length)) : null;
  const node = shared ?? (path ? findNode(path) : null);
  const [forward, all] = /** @type {[Map<number, number>, Map<number, number>]} */ ([new Map(), new Map()]);
  if (node) {
    eachNode(node, (each) => {
      const places = placesOf(each);
      const place = places.find((one) => one.clone === drawn.clone) ?? places[0];
      if (!place) return;
      for (const counts of each.op?.role === "forward" ? [forward, all] : [all]) counts.set(place.device, (counts.get(place.device) ?? 0) + 1);
    });
  }
  return [...(forward.size ? forward : all)].sort((a, b) => b[1] - a[1])[0]?.[0] ?? -1;
}

function draw() {
  byId("model-section").hidden = !model;
  if (!model) return;
  const layout = layOut(model.boxes.length, model.arrows);
  const width = layout.width * (BOX + BESIDE);
  const height = layout.layers * (TALL + BELOW);
  const picture = makeSvg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-labelledby": "model-title" });
  /** @param {[number, number]} place */
  const middle = ([layer, x]) => /** @type {[number, number]} */ ([x * (BOX + BESIDE) + BESIDE / 2 + BOX / 2, layer * (TALL + BELOW) + BELOW / 2]);
  for (const route of layout.routes) picture.append(makeSvg("path", { class: "flow", d: routeOf(route.map(middle)) }));
  /** @type {Set<number>} */
  const devices = new Set();
  model.boxes.forEach((_, number) => {
    const device = deviceOf(pathOf(number));
    if (device >= 0) devices.add(device);
    const [x, y] = middle(layout.places[number] ?? [0, 0]);
    picture.append(makeBox(number, x - BOX / 2, y, device));
  });
  holder.replaceChildren(picture);
  byId("model-keys").replaceChildren(...[...devices].sort((a, b) => a - b).map((device) => {
    const color = make("i", { "aria-hidden": "true", class: "device" });
    color.style.setProperty("--hue", hueOf(device));
    return make("span", { class: "key" }, color, placeName(device));
  }), "Choose a layer to see its ops, the rule that has placed them, and its line.");
  mark();
}

/** @param {number} device */
const hueOf = (device) => ((FIRST + HUE * device) % 360).toFixed(0);

/**
 * @param {number} number
 * @param {number} x
 * @param {number} y
 * @param {number} device
 */
function makeBox(number, x, y, device) {
  const [name = "", label = "", kind = ""] = model?.boxes[number] ?? [];
  const place = device >= 0 ? placeName(device) : "no op";
  const group = makeSvg("g", { role: "button", tabindex: 0, "data-box": number, class: `layer ${kind}`, "aria-label": `${name}, ${label}, on ${place}` },
    makeSvg("title", {}, `${name}: ${label}, on ${place}`),
    makeSvg("rect", { x, y, width: BOX, height: TALL, rx: kind === "input" || kind === "loss" ? TALL / 2 : 5 }),
    makeSvg("text", { x: x + BOX / 2, y: y + 16 }, shorten(name.split("/").slice(-2).join("/"))),
    makeSvg("text", { class: "small", x: x + BOX / 2, y: y + 31 }, `${shorten(label, LETTERS - place.length)} \u00b7 ${place}`));
  if (device >= 0) group.style.setProperty("--hue", hueOf(device));
  else group.classList.add("nowhere");
  onPress(group, () => choose({ box: number }));
  return group;
}

/** @param {string} text */
const shorten = (text, letters = LETTERS) => (text.length > letters ? `${text.slice(0, Math.max(1, letters - 1))}\u2026` : text);

/** @param {[number, number][]} points The upper middle of each box or point on the way. */
function routeOf(points) {
  const last = points.length - 1;
  let path = "";
  points.forEach(([x, y], at) => {
    if (at === 0) { path = `M${x},${y + TALL}`; return; }
    const [from, above] = points[at - 1] ?? [0, 0];
    const start = above + TALL;
    path += ` C${from},${start + BELOW / 2} ${x},${y - BELOW / 2} ${x},${y}`;
    if (at < last) path += ` L${x},${y + TALL}`;
  });
  return path;
}

/** @param {number} number */
export function explainBox(number) {
  const [name = "", label = "", kind = "", file = -1, line = 0, column = 0] = model?.boxes[number] ?? [];
  const path = pathOf(number);
  const node = path ? findNode(path) : null;
  showDetail(make("h2", { class: "name" }, name),
    makeFacts([kind, label], ["ops", path ? linkTo(path) : "none: the step does not need it"]),
    ...(file >= 0 ? [make("h3", {}, "Written in"), ...quote(file, line, column)] : []),
    ...(node?.op ? explainOp(node) : []), ...(node?.children.length ? explainScope(node) : []));
}

function mark() {
  const box = view.chosen && "box" in view.chosen ? String(view.chosen.box) : null;
  for (const each of holder.querySelectorAll("[data-box]")) each.setAttribute("aria-pressed", String(each.getAttribute("data-box") === box));
}

export function startModel() {
  const clones = Object.keys(data.clones).map(Number);
  if (model) chooser.replaceChildren(...clones.map((each) => make("option", { value: each }, `clone ${each}`)));
  byId("model-clone-box").hidden = clones.length < 2;
  chooser.addEventListener("change", () => { drawn.clone = Number(chooser.value); draw(); writeAddress(); });
  register({
    write: () => [
      drawn.clone === clones[0] ? null : `clone=${drawn.clone}`,
      view.chosen && "box" in view.chosen ? `layer=${view.chosen.box},${encodeURIComponent(model?.boxes[view.chosen.box]?.[0] ?? "")}` : null,
    ],
    read: (address) => {
      const wanted = Number(address.get("clone") ?? clones[0]);
      drawn.clone = clones.includes(wanted) ? wanted : clones[0] ?? 0;
      chooser.value = String(drawn.clone);
      const [number, ...name] = (address.get("layer") ?? "").split(",");
      if (address.has("layer") && model?.boxes[Number(number)]?.[0] === decode(name.join(","))) view.chosen = { box: Number(number) };
      draw();
    },
    mark,
  });
}
