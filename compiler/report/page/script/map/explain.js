// What is said about a scope or an op: where it is, which rule put it there, which line that is.

import { data, placeName } from "../both/data.js";
import { byId, make, makeFacts, makeWord } from "../both/dom.js";
import { formatFlops, formatSize, formatTimeCell, plural } from "../both/format.js";
import { quoteLines } from "../both/quote.js";
import { reveal } from "./scopes.js";
import { aparts, eachNode, findNode, hasNode, isMovedPlace, placesOf, realPath } from "./tree.js";

/** @typedef {import("./tree.js").TreeNode} TreeNode */
/** @typedef {import("../both/data.js").Rule} Rule */
/** @typedef {import("../both/dom.js").Child} Child */

const RULES_SHOWN = 12;
const DEVICES_SHOWN = 8;
const CHAIN = 6;

/** @param {Child[]} parts */
export const showDetail = (...parts) => byId("said").replaceChildren(...parts.filter((each) => each !== null && each !== undefined));

/**
 * A button that leads to what is at a path, or the path if nothing is there.
 * @param {string} path
 */
export function linkTo(path) {
  return hasNode(path) ? makeWord(path, () => reveal(path), { class: "plain name" }) : make("code", {}, path);
}

/** @param {TreeNode} node */
export function explainNode(node) {
  const parts = [make("h2", { class: "name" }, node.children.length ? `${node.path}/` : node.path)];
  if (node.op) parts.push(...explainOp(node));
  if (node.children.length) parts.push(...explainScope(node));
  if (node.family >= 0) parts.push(...explainFamily(node));
  showDetail(...parts);
}

/**
 * @param {TreeNode} node
 * @returns {HTMLElement[]}
 */
export function explainOp(node) {
  if (!node.op) return [];
  const { type, role, clone } = node.op;
  const places = placesOf(node);
  const devices = [...new Set(places.map((each) => placeName(each.device)))];
  const ran = places.filter((each) => each.assigned >= 0);
  const moved = ran.filter(isMovedPlace);
  const [, flops, bytes, time] = node.cost;
  const of = node.family >= 0 ? `${role}, of ${places.length} clones` : clone >= 0 ? `${role}, of clone ${clone}` : role;
  const facts = makeFacts(
    ["op", type],
    ["role", of],
    ["device", shorten(devices)],
    ["assigned", ran.length ? make("span", { class: moved.length ? "moved" : "" },
      shorten([...new Set((moved.length ? moved : ran).map((each) => placeName(each.assigned)))])) : null],
    ["FLOPs", flops ? formatFlops(flops) : null],
    ["reads and writes", bytes ? formatSize(bytes) : null],
    ["takes", time ? `${formatTimeCell(time)}${node.family >= 0 ? ", on an average of the clones" : ""}` : null],
    ...explainVariable(realPath(node)));
  return [facts, make("h3", {}, "Placed by"), ...explainRule(node, CHAIN)];
}

/** @param {string[]} devices */
function shorten(devices) {
  const left = devices.length - DEVICES_SHOWN;
  return left > 0 ? `${devices.slice(0, DEVICES_SHOWN).join(", ")} and ${left} more` : devices.join(", ");
}

/**
 * @param {string} path
 * @returns {[string, ...Child[]][]}
 */
function explainVariable(path) {
  const variable = Object.hasOwn(data.variables, path) ? data.variables[path] : undefined;
  if (!variable) return [];
  const [shape, dtype, bytes, trainable, copies, slots, group] = variable;
  /** @type {[string, ...Child[]][]} */
  const facts = [["variable", `${dtype} [${shape.join(", ")}], ${formatSize(bytes)}${trainable ? "" : ", not trained"}`]];
  facts.push(["copies on", copies.length ? shorten(copies.map(placeName)) : null]);
  facts.push(["optimizer", group ? make("code", {}, group) : null]);
  for (const [name, size, place] of slots.slice(0, DEVICES_SHOWN)) facts.push(["slot", linkTo(name), `, ${formatSize(size)} on ${placeName(place)}`]);
  if (slots.length > DEVICES_SHOWN) facts.push(["", `and ${slots.length - DEVICES_SHOWN} more slots`]);
  return facts;
}

/**
 * What is followed, if anything, each linked to; then the rule or default that decided in the end.
 * @param {TreeNode} node
 * @param {number} left
 * @returns {HTMLElement[]}
 */
function explainRule(node, left) {
  if (!node.rule) return [];
  const [reason, text] = node.rule;
  if (reason !== "follows") return explainDecision(node.rule);
  const followed = findFollowed(node, text);
  const parts = [make("p", {}, "follows ", followed ? linkTo(followed.path) : make("code", {}, text))];
  if (followed && followed !== node && left > 0) return [...parts, ...explainRule(followed, left - 1)];
  return [...parts, ...explainDecision(node.rule)];
}

// A rule: reason, text, file, line, column, decided by; what follows bears the place of what decided.
/** @param {Rule} rule */
const decisionOf = (rule) => rule[5] || rule[1];

/**
 * @param {Rule} rule
 * @param {string} before
 */
function explainDecision(rule, before = "") {
  const text = make("code", {}, decisionOf(rule));
  if (rule[2] >= 0) return [make("p", {}, `${before}the rule `, text), ...quote(rule[2], rule[3], rule[4])];
  return [make("p", {}, `${before}the default `, text, ": no rule matches it")];
}

// What an op follows is named as inside its tower, or as in the whole graph.
/**
 * @param {TreeNode} node
 * @param {string} name
 */
function findFollowed(node, name) {
  const family = data.families[node.family];
  const scope = family ? family.label : data.clones[node.op?.clone ?? -1] ?? "";
  for (const path of [scope ? `${scope}/${name}` : name, name]) {
    const found = hasNode(path) ? findNode(path) : null;
    if (found?.op) return found;
  }
  return null;
}

/**
 * The lines of the spec around a place.
 * @param {number} file
 * @param {number} line
 * @param {number} column
 */
export const quote = (file, line, column) => quoteLines(data.files[file] ?? "", data.lines[file], line, column);

/** @param {TreeNode} node */
export function explainScope(node) {
  /** @type {Map<number, number>} */
  const devices = new Map();
  /** @type {Map<string, number>} */
  const roles = new Map();
  /** @type {Map<string, { rule: Rule, number: number, following: number }>} */
  const sorts = new Map();
  const sums = [0, 0, 0, 0];
  eachNode(node, (inner) => {
    const { op, rule } = inner;
    if (!op || !rule) return;
    const places = placesOf(inner);
    for (const place of places) add(devices, place.device, 1);
    add(roles, op.role, places.length);
    inner.cost.forEach((size, at) => { sums[at] = (sums[at] ?? 0) + size * places.length; });
    const key = `${rule[2]}:${rule[3]}:${rule[4]} ${decisionOf(rule)}`;
    const sort = sorts.get(key) ?? { rule, number: 0, following: 0 };
    sorts.set(key, sort);
    sort.number += places.length;
    if (rule[0] === "follows") sort.following += places.length;
  });
  const [held = 0, flops = 0, bytes = 0, time = 0] = sums;
  const ranked = byNumber(devices);
  const facts = makeFacts(
    ...ranked.slice(0, DEVICES_SHOWN).map(([device, number]) => /** @type {[string, string]} */ ([placeName(device), plural(number, "op")])),
    ["", ranked.length > DEVICES_SHOWN ? `and ${ranked.length - DEVICES_SHOWN} more devices` : null],
    ["roles", byNumber(roles).map(([role, number]) => `${role} ${number.toLocaleString("en-US")}`).join(", ")],
    ["variables, slots", held ? formatSize(held) : null],
    ["FLOPs", flops ? formatFlops(flops) : null],
    ["reads and writes", bytes ? formatSize(bytes) : null],
    ["takes", time ? `${formatTimeCell(time)}, op by op` : null]);
  const rules = [...sorts.values()].sort((a, b) => b.number - a.number);
  const parts = [make("h3", {}, node.op ? "Inside it" : "Ops"), facts, make("h3", {}, "Placed by")];
  for (const each of rules.slice(0, RULES_SHOWN)) {
    const share = each.following === each.number ? "all" : each.following.toLocaleString("en-US");
    parts.push(...explainDecision(each.rule, `${plural(each.number, "op")}${each.following ? `, ${share} following another` : ""}: `));
  }
  if (rules.length > RULES_SHOWN) parts.push(make("p", {}, `and ${rules.length - RULES_SHOWN} more rules`));
  return parts;
}

// Clones that are alike are one; each can be shown by itself.
/** @param {TreeNode} node */
function explainFamily(node) {
  const family = data.families[node.family];
  const left = (family?.clones ?? []).filter((clone) => !aparts[node.family]?.has(clone));
  if (!family || !left.length) return [];
  const number = /** @type {HTMLInputElement} */ (make("input", {
    type: "number", id: "clone", min: left[0], max: left[left.length - 1], value: left[0],
  }));
  const show = () => {
    const scope = data.clones[number.value];
    if (scope !== undefined && left.includes(Number(number.value))) reveal(scope + node.path.slice(family.label.length));
  };
  number.addEventListener("keydown", (event) => { if (event.key === "Enter") show(); });
  return [make("h3", {}, "Clones"), make("p", {}, `${plural(left.length, "clone")} have these ops for the same reasons, each on its own devices.`),
    make("p", {}, make("label", { for: "clone" }, "Clone "), number, " ", make("button", { type: "button", onclick: show }, "Show it by itself"))];
}

/**
 * @param {string} title
 * @param {[string, number][]} tensors
 */
export function listTensors(title, tensors) {
  if (!tensors.length) return [];
  const items = tensors.map(([name, bytes]) => make("li", {}, `${formatSize(bytes)} `, linkTo(name.replace(/:\d+$/, ""))));
  return [make("h3", {}, title), make("ul", {}, ...items)];
}

/**
 * @template K
 * @param {Map<K, number>} counts
 * @param {K} key
 * @param {number} number
 */
const add = (counts, key, number) => counts.set(key, (counts.get(key) ?? 0) + number);

/**
 * @template K
 * @param {Map<K, number>} counts
 */
const byNumber = (counts) => [...counts].sort((a, b) => b[1] - a[1]);
