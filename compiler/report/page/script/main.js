// The head, the tables of devices and transfers, and the state of the page in its address.

const LINKS_SHOWN = 200;
const search = document.getElementById("search");
const onlyMisplaced = document.getElementById("misplaced");

function drawHead() {
  document.getElementById("title").textContent = data.title;
  document.getElementById("facts").textContent = data.facts.join(" \u00b7 ");
  const ran = data.kinds.some((kind) => kind[4] >= 0);
  document.getElementById("misplaced-box").hidden = !ran;
}

function drawDevices() {
  const known = data.devices.some((device) => device.memory !== null);
  const heads = ["device", "ops", "variables", "slots", "held", ...(known ? ["memory"] : []), "in / step", "out / step"];
  const most = Math.max(1, ...data.devices.map(heldBytes));
  const body = make("tbody", {}, ...data.devices.map((device) => make("tr", {},
    make("td", { class: "name" }, device.ref),
    numberCell(formatCount(device.ops)),
    numberCell(formatSize(device.variables)),
    numberCell(formatSize(device.slots)),
    make("td", {}, formatSize(heldBytes(device)), makeShare(heldBytes(device) / most)),
    known ? make("td", {}, make("button", { type: "button", class: "plain", onclick: () => choose({ device: data.devices.indexOf(device) }) },
      formatSize(device.memory))) : null,
    numberCell(formatSize(device.in) + (device.in_unknown ? "+" : "")),
    numberCell(formatSize(device.out) + (device.out_unknown ? "+" : "")),
    make("td", { class: "left name" }, device.device))));
  document.getElementById("devices").replaceChildren(makeTableHead([...heads, "name in TensorFlow"], 1, heads.length), body);
  document.getElementById("devices-section").open = data.devices.length <= 24;
}

const heldBytes = (device) => device.variables + device.slots;
const numberCell = (text) => make("td", { class: text === "." ? "zero" : "" }, text);

function makeShare(share) {
  const bar = make("i", {});
  bar.style.width = `${(100 * share).toFixed(1)}%`;
  return make("span", { class: "share", "aria-hidden": "true" }, bar);
}

// The first `left` columns hold text, and so do those from `end` on.
function makeTableHead(heads, left, end = heads.length) {
  const cells = heads.map((text, at) => make("th", { scope: "col", class: at < left || at >= end ? "left" : "" }, text));
  return make("thead", {}, make("tr", {}, ...cells));
}

function drawTransfers(limit) {
  const links = [...data.transfers].sort((a, b) => b[3] - a[3]);
  const most = Math.max(1, ...links.map((link) => link[3]));
  const rows = links.slice(0, limit).map(([from, to, tensors, bytes, unknown, largest]) => make("tr", {},
    make("td", { class: "name" }, data.places[from]),
    make("td", { class: "left name" }, data.places[to]),
    largest.length
      ? make("td", {}, make("button", { type: "button", class: "plain", onclick: () => choose({ from, to }) },
          formatCount(tensors)))
      : numberCell(formatCount(tensors)),
    make("td", {}, formatSize(bytes), makeShare(bytes / most)),
    numberCell(formatCount(unknown))));
  const body = make("tbody", {}, ...rows);
  if (!links.length) body.append(make("tr", {}, make("td", { colspan: 5 }, "nothing is sent from device to device")));
  if (links.length > limit) {
    const button = make("button", { type: "button", onclick: () => drawTransfers(Infinity) }, `show all ${links.length} links`);
    body.append(make("tr", { class: "more" }, make("td", { colspan: 5 }, button)));
  }
  document.getElementById("transfers").replaceChildren(makeTableHead(["from", "to", "tensors", "bytes", "of unknown size"], 2), body);
}

// --- the state of the page: #q=...&moved=1&open=a,b&apart=c,d&time=from,to and sel=..., device=..., link=e,f or bar=row,number 

function writeState() {
  const parts = [];
  if (view.query) parts.push(`q=${encodeURIComponent(view.query)}`);
  if (view.onlyMoved) parts.push("moved=1");
  if (!view.query && !view.onlyMoved) {
    const open = listRows().filter((node) => node.open).map((node) => encodeURIComponent(node.path));
    if (open.length && open.length <= 50) parts.push(`open=${open.join(",")}`);
  }
  const apart = columnGroups.filter((group) => group.open && group.devices.length > 1);
  if (apart.length) parts.push(`apart=${apart.map((group) => encodeURIComponent(group.label)).join(",")}`);
  if (step && !isWhole()) parts.push(`time=${span.from.toFixed(3)},${span.to.toFixed(3)}`);
  const { thing } = view;
  if (thing && "device" in thing) parts.push(`device=${encodeURIComponent(data.places[thing.device])}`);
  else if (thing && "bar" in thing) parts.push(`bar=${thing.bar.join(",")}`);
  else if (thing) parts.push(`link=${[thing.from, thing.to].map((each) => encodeURIComponent(data.places[each])).join(",")}`);
  if (view.selected) parts.push(`sel=${encodeURIComponent(view.selected.path)}`);
  try {
    history.replaceState(null, "", `#${parts.join("&")}`);
  } catch {
    // Some browsers refuse this for files; the page works the same without.
  }
}

function readState() {
  const state = new Map(location.hash.slice(1).split("&").map((part) => {
    const [key, ...value] = part.split("=");
    return [key, value.join("=")];
  }));
  view.query = decode(state.get("q"));
  view.onlyMoved = state.get("moved") === "1";
  showSearch();
  eachNode(root, (node) => { node.open = node === root; });
  applySearch();
  for (const path of (state.get("open") || "").split(",").map(decode)) {
    for (let node = byPath.get(path); node; node = node.parent) node.open = true;
  }
  const apart = (state.get("apart") || "").split(",").map(decode);
  for (const group of columnGroups) group.open = group.devices.length > 1 && apart.includes(group.label);
  view.selected = null;
  readSpan(state);
  view.thing = readThing(state);
  const chosen = byPath.get(decode(state.get("sel")));
  drawGrid();
  drawStrip();
  drawTimeline();
  if (chosen && chosen !== root) reveal(chosen);
  else if (view.thing) drawThing();
  else drawDetail(null);
}

// The part of the step that the address names, or all of it.
function readSpan(state) {
  if (!step) return;
  const [from, to] = (state.get("time") || "").split(",").map(Number);
  const valid = from >= 0 && to > from && to <= step.until + 0.001;
  span.from = valid ? from : 0;
  span.to = valid ? to : step.until;
}

// The bar, the device or the link that the address names, or null if there is no such thing in this map.
function readThing(state) {
  const [row, number] = (state.get("bar") || "").split(",").map(Number);
  if (state.has("bar") && step && step.rows[row] && step.rows[row].bars[number]) return { bar: [row, number] };
  const device = data.places.indexOf(decode(state.get("device")));
  if (device >= 0 && device < data.devices.length) return { device };
  const [from, to] = (state.get("link") || "").split(",").map((each) => data.places.indexOf(decode(each)));
  return data.transfers.some((each) => each[0] === from && each[1] === to) ? { from, to } : null;
}

function decode(text) {
  try {
    return decodeURIComponent(text || "");
  } catch {
    return "";
  }
}

function showSearch() {
  search.value = view.query;
  onlyMisplaced.checked = view.onlyMoved;
}

function onSearch() {
  view.query = search.value;
  view.onlyMoved = onlyMisplaced.checked;
  if (!view.query.trim()) eachNode(root, (node) => { node.open = node === root; });
  applySearch();
  drawGrid();
  writeState();
}

let typing = 0;
search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(onSearch, 120); });
search.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { search.value = ""; onSearch(); }
  if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); focusRow(listRows()[0]); }
});
onlyMisplaced.addEventListener("change", onSearch);
document.getElementById("collapse").addEventListener("click", () => {
  eachNode(root, (node) => { node.open = node === root; });
  drawGrid();
  writeState();
});
document.addEventListener("keydown", (event) => {
  const typingNow = event.target.closest("input, textarea");
  if (event.key === "/" && !typingNow && !event.ctrlKey && !event.metaKey) { event.preventDefault(); search.focus(); search.select(); }
});
window.addEventListener("hashchange", readState);

drawHead();
drawTimelineHead();
drawDevices();
drawTransfers(LINKS_SHOWN);
readState();
