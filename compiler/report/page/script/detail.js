// What is said about the scope or op that was chosen: where it is, which rule put it there, which line that is.

const RULES_SHOWN = 12;
const CHAIN = 6;

// Choose a device, `{ device }`, a link, `{ from, to }`, or a bar, `{ bar: [row, number] }`, by their numbers, instead of a scope or an op.
function choose(thing) {
  select(null);
  view.thing = thing;
  drawThing();
  markChosen();
  drawTimeline();
  writeState();
}

function drawThing() {
  const { thing } = view;
  if ("bar" in thing) explainBar(thing.bar);
  else if ("device" in thing) explainMemory(data.devices[thing.device]);
  else explainLink(data.transfers.find(([from, to]) => from === thing.from && to === thing.to));
}

function select(node) {
  view.selected = node;
  view.thing = null;
  markChosen();
  for (const row of grid.querySelectorAll("tbody tr[data-path]")) {
    row.setAttribute("aria-selected", String(node !== null && row.dataset.path === node.path));
  }
  drawDetail(node);
  drawTimeline();
  writeState();
}

// Open every scope around a node, show it, and say what there is to say.
function reveal(node) {
  if (!node.hit) {
    view.query = "";
    view.onlyMoved = false;
    showSearch();
    applySearch();
  }
  for (let outer = node.parent; outer; outer = outer.parent) outer.open = true;
  const at = listRows().indexOf(node);
  if (at >= view.limit) view.limit = at + PAGE;
  view.focus = node;
  view.selected = node;
  view.thing = null;
  drawGrid();
  scrollTo(grid.querySelector('tbody tr[aria-selected="true"]'));
  select(node);
}

// Bring a row into sight inside its box, without moving the page.
function scrollTo(row) {
  const box = grid.parentElement;
  if (!row) return;
  const above = row.offsetTop - box.clientHeight / 3;
  if (row.offsetTop < box.scrollTop + 40 || row.offsetTop + 60 > box.scrollTop + box.clientHeight) box.scrollTop = above;
}

function drawDetail(node) {
  if (!node) {
    showDetail(make("h2", {}, "Why is it there?"),
      make("p", {}, "Choose a scope or an op: the rule that placed it and its line in the spec are shown here. "
        + "For a device or a link, its memory or what crosses it is."));
    return;
  }
  const parts = [make("h2", { class: "name" }, node.children.length ? `${node.path}/` : node.path)];
  if (node.kind) parts.push(...explainOp(node));
  if (node.children.length) parts.push(...explainScope(node));
  showDetail(...parts);
}

function explainOp(node) {
  const [type, role, clone, requested, assigned] = node.kind;
  const facts = make("dl", {});
  const fact = (term, ...value) => facts.append(make("dt", {}, term), make("dd", {}, ...value));
  fact("op", type);
  fact("role", clone >= 0 ? `${role}, of clone ${clone}` : role);
  fact("device", data.places[requested]);
  if (assigned >= 0) fact("assigned", make("span", { class: isMoved(node.kind) ? "moved" : "" }, data.places[assigned]));
  const variable = Object.hasOwn(data.variables, node.path) ? data.variables[node.path] : null;
  if (variable) explainVariable(variable, fact);
  return [facts, make("h3", {}, "Placed by"), ...explainRule(node, CHAIN)];
}

function explainVariable([shape, dtype, bytes, trainable, copies, slots, group], fact) {
  fact("variable", `${dtype} [${shape.join(", ")}], ${formatSize(bytes)}${trainable ? "" : ", not trained"}`);
  if (copies.length) fact("copies on", copies.map((at) => data.places[at]).join(", "));
  if (group) fact("optimizer", make("code", {}, group));
  for (const [name, size, place] of slots) fact("slot", linkTo(name), `, ${formatSize(size)} on ${data.places[place]}`);
}

// What is followed, if anything, each linked to; then the rule or default that decided in the end.
function explainRule(node, left) {
  const [reason, text] = node.rule;
  if (reason !== "follows") return explainDecision(node.rule);
  const followed = findFollowed(node, text);
  const parts = [make("p", {}, "follows ", followed ? linkTo(followed.path) : make("code", {}, text))];
  if (followed && followed !== node && left > 0) return [...parts, ...explainRule(followed, left - 1)];
  return [...parts, ...explainDecision(node.rule)];
}

// A rule in data: [reason, text, file, line, column, decided by]; what follows bears the place of what decided.
const decisionOf = (rule) => rule[5] || rule[1];

function explainDecision(rule, before = "") {
  const text = make("code", {}, decisionOf(rule));
  if (rule[2] >= 0) return [make("p", {}, `${before}the rule `, text), ...quote(rule)];
  return [make("p", {}, `${before}the default `, text, ": no rule matches it")];
}

// What an op follows is named as inside its tower, or as in the whole graph.
function findFollowed(node, name) {
  const clone = node.kind[2];
  const scope = clone >= 0 ? data.clones[clone] : "";
  const found = [scope ? `${scope}/${name}` : name, name].map((path) => byPath.get(path));
  return found.find((each) => each && each.kind) || null;
}

function quote([, , file, line, column]) {
  const place = make("p", {}, make("code", {}, `${data.files[file]}:${line}:${column}`));
  const lines = data.lines[file];
  if (!lines) return [place];
  const block = make("pre", { tabindex: 0, "aria-label": `lines of ${data.files[file]}` });
  const width = String(line + 3).length;
  for (let number = Math.max(1, line - 3); number <= line + 3; number += 1) {
    const text = lines[number];
    if (text === undefined) continue;
    block.append(make("span", { class: number === line ? "hit" : "" },
      make("span", { class: "no" }, `${String(number).padStart(width)} | `), text));
  }
  return [place, block];
}

function explainScope(node) {
  const devices = new Map();
  const sorts = new Map();
  const roles = new Map();
  eachNode(node, (inner) => {
    if (!inner.kind) return;
    add(devices, inner.kind[3]);
    add(roles, inner.kind[1]);
    const { rule } = inner;
    const sort = `${rule[2]}:${rule[3]}:${rule[4]} ${decisionOf(rule)}`;
    if (!sorts.has(sort)) sorts.set(sort, { rule, number: 0, following: 0 });
    sorts.get(sort).number += 1;
    if (rule[0] === "follows") sorts.get(sort).following += 1;
  });
  const facts = make("dl", {});
  const fact = (term, value) => facts.append(make("dt", {}, term), make("dd", {}, value));
  for (const [device, number] of byNumber(devices)) fact(data.places[device], plural(number, "op"));
  fact("roles", byNumber(roles).map(([role, number]) => `${role} ${number.toLocaleString("en-US")}`).join(", "));
  const ranked = [...sorts.values()].sort((a, b) => b.number - a.number);
  const parts = [make("h3", {}, node.kind ? "Inside it" : "Ops"), facts, make("h3", {}, "Placed by")];
  for (const each of ranked.slice(0, RULES_SHOWN)) parts.push(...explainSort(each));
  if (ranked.length > RULES_SHOWN) parts.push(make("p", {}, `and ${ranked.length - RULES_SHOWN} more rules`));
  return parts;
}

function explainSort({ rule, number, following }) {
  const share = following === number ? "all" : following.toLocaleString("en-US");
  return explainDecision(rule, `${plural(number, "op")}${following ? `, ${share} following another` : ""}: `);
}

// What the forecast of a device's memory is made of.
function explainMemory(device) {
  const facts = make("dl", {});
  const fact = (term, bytes) => facts.append(make("dt", {}, term), make("dd", {}, formatSize(bytes)));
  fact("variables", device.variables);
  fact("slots", device.slots);
  fact("other variables", device.other);
  if (device.step !== null) fact("tensors of a step at their peak", device.step);
  if (device.memory !== null) fact("in all", device.memory);
  if (device.limit !== null) fact("memory that the spec gives it", device.limit);
  showDetail(make("h2", {}, `Memory forecast of ${device.ref}`), facts, ...listTensors("Largest tensors at the peak", device.largest));
}

function explainLink([from, to, tensors, bytes, unknown, largest]) {
  const known = `${plural(tensors, "tensor")}, ${formatSize(bytes)} a step`;
  showDetail(make("h2", {}, `From ${data.places[from]} to ${data.places[to]}`),
    make("p", {}, unknown ? `${known}, and ${unknown.toLocaleString("en-US")} of unknown size` : known),
    ...listTensors("Largest tensors of a step", largest));
}

const showDetail = (...parts) => document.getElementById("detail").replaceChildren(...parts);

function listTensors(title, tensors) {
  if (!tensors.length) return [];
  const items = tensors.map(([name, bytes]) => make("li", {}, `${formatSize(bytes)} `, linkTo(name.replace(/:\d+$/, ""))));
  return [make("h3", {}, title), make("ul", {}, ...items)];
}

const add = (counts, key) => counts.set(key, (counts.get(key) || 0) + 1);
const byNumber = (counts) => [...counts].sort((a, b) => b[1] - a[1]);

function linkTo(path) {
  const node = byPath.get(path);
  if (!node) return make("code", {}, path);
  return make("button", { type: "button", class: "plain name", onclick: () => reveal(node) }, path);
}
