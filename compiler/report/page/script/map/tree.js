// The ops as a tree of nodes, in which clones that are alike are one; sums by spot, searched and sorted.
//
// A spot is where an op is: one device, or for an op that clones share, the device of each of these clones.

import { data, placeName } from "../both/data.js";

/** @typedef {import("../both/data.js").Rule} Rule */
/** @typedef {import("../both/data.js").Cost} Cost */
/** @typedef {{ device: number, assigned: number, clone: number }} Place */

const SHARED = -2; // the clone of an op that the clones of a family share
const APART = 32;   // clones that a search takes out of their family
const MEASURES = ["held", "flops", "bytes", "time"]; // in the order of a cost

/**
 * A scope, an op, or an op with scopes of its name inside.
 * @typedef {object} TreeNode
 * @property {string} name
 * @property {string} path
 * @property {TreeNode | null} parent
 * @property {{ type: string, role: string, clone: number, spot: number } | null} op
 * @property {Rule | null} rule
 * @property {Cost} cost
 * @property {number} family The family whose clones share it, or -1.
 * @property {TreeNode[]} children
 * @property {number} level
 * @property {boolean} open
 * @property {Map<number, number>} sums What is measured, by spot.
 * @property {boolean} hit
 */

/** @type {Place[][]} */
const spots = data.spots.map((pairs) => pairs.map(([device, assigned]) => ({ device, assigned, clone: -1 })));
for (const family of data.families) {
  for (const spot of family.spots) spots[spot]?.forEach((place, at) => { place.clone = family.clones[at] ?? -1; });
}

/** @type {Map<string, TreeNode>} */
const byPath = new Map();

/** The clones of each family that are shown by themselves. @type {Set<number>[]} */
export const aparts = data.families.map(() => new Set());

/** @type {TreeNode[]} */
const folds = [];

/**
 * What the table shows and by what it is sorted; it is stale if nodes have come since the last `measure`.
 * @type {{ measure: string, sort: string, down: boolean, stale: boolean }}
 */
export const order = { measure: "ops", sort: "", down: true, stale: true };

/** How often each device is among the places of a spot. @type {Map<number, Map<number, number>>} */
let devicesOfSpots = new Map();

/**
 * @param {any[]} raw
 * @param {TreeNode | null} parent
 * @param {string} name
 * @param {{ family: number, own?: Map<number, number>, clone?: number }} within
 * @returns {TreeNode}
 */
function makeNode(raw, parent, name, within) {
  const kind = typeof raw[1] === "number" ? data.kinds[raw[1]] : undefined;
  /** @type {TreeNode} */
  const node = {
    name, parent,
    path: parent && parent.path ? `${parent.path}/${name}` : name,
    op: null, rule: null, cost: [0, 0, 0, 0], family: within.family,
    children: [], level: parent ? parent.level + 1 : 0, open: false, sums: new Map(), hit: true,
  };
  if (kind) {
    const [type, role, clone, spot] = kind;
    node.op = { type, role, clone: clone === SHARED ? within.clone ?? SHARED : clone, spot: within.own?.get(spot) ?? spot };
    node.rule = data.rules[raw[2]] ?? null;
    node.cost = data.costs[raw[3]] ?? node.cost;
  }
  byPath.set(node.path, node);
  for (const inner of raw.slice(kind ? 4 : 1)) {
    if (!Array.isArray(inner)) node.children.push(makeFold(inner.family, node));
    else node.children.push(makeNode(inner, node, data.names[inner[0]] ?? "", within));
  }
  return node;
}

/**
 * @param {number} family
 * @param {TreeNode} parent
 */
function makeFold(family, parent) {
  const node = makeNode(data.families[family]?.tree ?? [], parent, data.families[family]?.label ?? "", { family });
  folds[family] = node;
  return node;
}

export const root = makeNode(data.tree, null, "", { family: -1 });
root.open = true;

/**
 * @param {TreeNode} node
 * @param {(node: TreeNode) => void} visit
 */
export function eachNode(node, visit) {
  visit(node);
  for (const child of node.children) eachNode(child, visit);
}

/**
 * Show a clone of a family by itself.
 * @param {number} clone
 * @returns {TreeNode | null} Its scope, or null if no family has the clone or it is apart already.
 */
export function takeApart(clone) {
  const number = data.families.findIndex((each) => each.clones.includes(clone));
  const [family, apart, fold] = [data.families[number], aparts[number], folds[number]];
  if (!family || !apart || !fold || apart.has(clone)) return null;
  apart.add(clone);
  /** @type {Map<number, number>} */
  const own = new Map();
  for (const spot of family.spots) {
    own.set(spot, spots.length);
    spots.push((spots[spot] ?? []).filter((place) => place.clone === clone));
  }
  const node = makeNode(family.tree, root, data.clones[clone] ?? "", { family: -1, own, clone });
  const at = root.children.indexOf(fold) - (apart.size - 1) + [...apart].filter((each) => each < clone).length;
  root.children.splice(at, 0, node);
  devicesOfSpots = new Map();
  order.stale = true;
  return node;
}

/**
 * Return what is at a path, for which a clone may have to be taken out of its family.
 * @param {string} path
 * @returns {TreeNode | null}
 */
export function findNode(path) {
  const known = byPath.get(path);
  if (known) return known;
  const clone = cloneOf(path);
  if (clone === null) return null;
  takeApart(clone);
  return byPath.get(path) ?? null;
}

/**
 * Whether there is something at a path.
 * @param {string} path
 */
export function hasNode(path) {
  if (byPath.has(path)) return true;
  const clone = cloneOf(path);
  const fold = folds[data.families.findIndex((each) => clone !== null && each.clones.includes(clone))];
  return fold !== undefined && clone !== null && byPath.has(fold.path + path.slice((data.clones[clone] ?? "").length));
}

/** @param {string} path */
function cloneOf(path) {
  const scope = path.split("/", 1)[0];
  for (const family of data.families) {
    for (const clone of family.clones) if (data.clones[clone] === scope) return clone;
  }
  return null;
}

/**
 * Return where an op is: on one device, or on that of each clone that shares it.
 * @param {TreeNode} node
 * @returns {Place[]}
 */
export function placesOf(node) {
  const apart = aparts[node.family];
  const places = spots[node.op?.spot ?? -1] ?? [];
  return apart ? places.filter((place) => !apart.has(place.clone)) : places;
}

/** @param {number} spot */
function placesOfSpot(spot) {
  const number = data.families.findIndex((each) => each.spots.includes(spot));
  const apart = aparts[number];
  const places = spots[spot] ?? [];
  return apart ? places.filter((place) => !apart.has(place.clone)) : places;
}

/** Show all clones of families together again. */
export function joinClones() {
  for (const [number, apart] of aparts.entries()) {
    const scopes = new Set([...apart].map((clone) => data.clones[clone]));
    for (const child of root.children) {
      if (scopes.has(child.path)) eachNode(child, (node) => byPath.delete(node.path));
    }
    root.children = root.children.filter((child) => !scopes.has(child.path));
    aparts[number]?.clear();
  }
  devicesOfSpots = new Map();
  order.stale = true;
}

/**
 * Take apart the clones that a search names, if it names some of a family and not too many.
 * @param {string} query
 */
export function takeNamedApart(query) {
  for (const word of query.trim().split(/\s+/)) {
    const scope = word.startsWith("clone:") ? null : word.split("/", 1)[0] ?? "";
    const glob = scope && /[*?]/.test(scope) ? makeGlob(scope) : null;
    for (const family of data.families) {
      const named = family.clones.filter((clone) => (scope === null ? word === `clone:${clone}`
        : glob ? glob.test(data.clones[clone] ?? "") : data.clones[clone] === scope));
      if (named.length < family.clones.length && named.length <= APART) named.forEach(takeApart);
    }
  }
}

/** @param {Place} place */
export const isMovedPlace = (place) => place.assigned >= 0 && place.assigned !== place.device;

/** @param {TreeNode} node */
export const isMoved = (node) => placesOf(node).some(isMovedPlace);

export const hasRun = () => data.spots.some((pairs) => pairs.some(([, assigned]) => assigned >= 0));

/**
 * The path of the same thing in one of the clones that share it.
 * @param {TreeNode} node
 */
export function realPath(node) {
  const family = data.families[node.family];
  if (!family) return node.path;
  const clone = family.clones.find((each) => !aparts[node.family]?.has(each)) ?? family.clones[0] ?? -1;
  return (data.clones[clone] ?? "") + node.path.slice(family.label.length);
}

/**
 * Measure every scope by spot, with the ops that `wanted` holds for.
 * @param {(node: TreeNode) => boolean} wanted
 */
export function measure(wanted) {
  order.stale = false;
  const at = MEASURES.indexOf(order.measure);
  /** @param {TreeNode} node */
  const visit = (node) => {
    node.sums = new Map();
    node.hit = false;
    if (node.op && wanted(node)) {
      node.sums.set(node.op.spot, at < 0 ? 1 : node.cost[at] ?? 0);
      node.hit = true;
    }
    for (const child of node.children) {
      visit(child);
      node.hit = node.hit || child.hit;
      for (const [spot, size] of child.sums) node.sums.set(spot, (node.sums.get(spot) ?? 0) + size);
    }
  };
  visit(root);
  for (const [family, fold] of folds.entries()) {
    fold.name = nameOf(family);
    if (aparts[family]?.size === data.families[family]?.clones.length) fold.hit = false;
  }
}

/** @param {number} number */
function nameOf(number) {
  const family = data.families[number];
  const apart = aparts[number]?.size ?? 0;
  return apart && family ? `${family.label} but ${apart}` : family?.label ?? "";
}

/** How many ops were found. @param {(node: TreeNode) => boolean} wanted */
export function countHits(wanted) {
  let found = 0;
  eachNode(root, (node) => { if (node.op && wanted(node)) found += placesOf(node).length; });
  return found;
}

/**
 * Return what a node has on some devices.
 * @param {TreeNode} node
 * @param {number[]} devices
 */
export function sumOn(node, devices) {
  let sum = 0;
  for (const [spot, size] of node.sums) {
    let counts = devicesOfSpots.get(spot);
    if (!counts) {
      counts = new Map();
      for (const place of placesOfSpot(spot)) counts.set(place.device, (counts.get(place.device) ?? 0) + 1);
      devicesOfSpots.set(spot, counts);
    }
    for (const device of devices) sum += size * (counts.get(device) ?? 0);
  }
  return sum;
}

// --- search: words that must all hold -----------------------------------------------------------------------

/**
 * @param {string} query `role:`, `type:`, `on:`, `rule:`, `clone:`, a glob, or part of a name, and several of them.
 * @param {boolean} onlyMoved
 * @returns {(node: TreeNode) => boolean}
 */
export function makeTest(query, onlyMoved) {
  const tests = query.trim().split(/\s+/).filter(Boolean).map(makeWordTest);
  if (onlyMoved) tests.push(isMoved);
  return (node) => tests.every((test) => test(node));
}

/**
 * @param {string} word
 * @returns {(node: TreeNode) => boolean}
 */
function makeWordTest(word) {
  const [, key, value] = word.match(/^(role|type|on|rule|clone):(.*)$/) ?? [];
  const text = (value ?? "").toLowerCase();
  /** @param {string | undefined} name */
  const starts = (name) => (name ?? "").toLowerCase().startsWith(text);
  switch (key) {
    case "role": return (node) => starts(node.op?.role);
    case "type": return (node) => starts(node.op?.type);
    case "clone": return (node) => (node.op?.clone === SHARED ? placesOf(node).some((each) => String(each.clone) === text) : String(node.op?.clone) === text);
    case "rule": return (node) => `${node.rule?.[1]} ${node.rule?.[5]}`.toLowerCase().includes(text);
    case "on": return (node) => placesOf(node).some((each) => starts(placeName(each.device)) || starts(placeName(each.assigned)));
    default: return makeNameTest(word);
  }
}

/**
 * @param {string} word
 * @returns {(node: TreeNode) => boolean}
 */
function makeNameTest(word) {
  if (!/[*?]/.test(word)) {
    const part = word.toLowerCase();
    return (node) => (part.includes("..") ? node.path : realPath(node)).toLowerCase().includes(part);
  }
  const glob = makeGlob(word);
  return (node) => glob.test(realPath(node));
}

/**
 * Return what matches a path, and all that is inside it.
 * @param {string} word
 */
function makeGlob(word) {
  const escaped = word.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".");
  return new RegExp(`^(?:${escaped})(?:/.*)?$`);
}
