// The map's data as a tree of nodes, counted per device, and searched.

const data = JSON.parse(document.getElementById("data").textContent);

// A node is a scope, an op, or an op with scopes of its name inside. Data: [name, child...] for a scope,
// [name, kind, rule, child...] for an op; kind is [type, role, clone, requested, assigned].
function makeNode(raw, parent) {
  const isOp = typeof raw[1] === "number";
  const name = data.names[raw[0]];
  const node = {
    name, parent,
    path: parent && parent.path ? `${parent.path}/${name}` : name,
    kind: isOp ? data.kinds[raw[1]] : null,
    rule: isOp ? data.rules[raw[2]] : null,
    children: [], level: parent ? parent.level + 1 : 0, open: false, counts: null, hit: true,
  };
  for (const inner of raw.slice(isOp ? 3 : 1)) node.children.push(makeNode(inner, node));
  return node;
}

const root = makeNode(data.tree, null);
root.open = true;
const byPath = new Map();
eachNode(root, (node) => byPath.set(node.path, node));

function eachNode(node, visit) {
  visit(node);
  for (const child of node.children) eachNode(child, visit);
}

const isMoved = (kind) => kind[4] >= 0 && kind[4] !== kind[3];

// Count the ops of every scope by the device asked for, those that `wanted` holds for, and return how many.
function countOps(node, wanted) {
  const counts = new Map();
  let total = 0;
  if (node.kind && wanted(node)) {
    counts.set(node.kind[3], 1);
    total = 1;
  }
  for (const child of node.children) {
    total += countOps(child, wanted);
    for (const [device, number] of child.counts) counts.set(device, (counts.get(device) || 0) + number);
  }
  node.counts = counts;
  node.hit = total > 0;
  return total;
}

// A search is words that must all hold: `role:`, `type:`, `on:`, `rule:`, `clone:`, a glob, or part of a name.
function makeTest(query, onlyMoved) {
  const tests = query.trim().split(/\s+/).filter(Boolean).map(makeWordTest);
  if (onlyMoved) tests.push((node) => isMoved(node.kind));
  return (node) => tests.every((test) => test(node));
}

function makeWordTest(word) {
  const [, key, value] = word.match(/^(role|type|on|rule|clone):(.*)$/) || [];
  const text = (value || "").toLowerCase();
  switch (key) {
    case "role": return (node) => node.kind[1].toLowerCase().startsWith(text);
    case "type": return (node) => node.kind[0].toLowerCase().startsWith(text);
    case "clone": return (node) => String(node.kind[2]) === text;
    case "rule": return (node) => `${node.rule[1]} ${node.rule[5]}`.toLowerCase().includes(text);
    case "on": return (node) => [3, 4].some((at) => (data.places[node.kind[at]] || "").toLowerCase().startsWith(text));
    default: return makeNameTest(word);
  }
}

function makeNameTest(word) {
  if (!/[*?]/.test(word)) {
    const part = word.toLowerCase();
    return (node) => node.path.toLowerCase().includes(part);
  }
  const escaped = word.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".");
  const glob = new RegExp(`^(?:${escaped})(?:/.*)?$`);
  return (node) => glob.test(node.path);
}

function formatSize(bytes) {
  if (bytes === null || bytes === undefined) return "?";
  if (bytes === 0) return ".";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (Math.abs(bytes) >= 1024 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  const digits = unit === 0 ? 0 : Math.max(0, 3 - String(Math.trunc(Math.abs(bytes))).length);
  return `${bytes.toFixed(digits)} ${units[unit]}`;
}

const formatCount = (number) => (number ? number.toLocaleString("en-US") : ".");
const plural = (number, noun) => `${number.toLocaleString("en-US")} ${noun}${number === 1 ? "" : "s"}`;

// Make an element: attributes, then children; text is always set as text, never parsed.
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
