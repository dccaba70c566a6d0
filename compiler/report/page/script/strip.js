// The strip of devices: boxes filled against their memory, and the links between them as wide as their bytes.

const BOX = 184;         // the width of a box, and what is between two, in pixels
const BETWEEN = 40;
const WIDEST = 12;       // of a link, in pixels
const LABELLED = 16;     // links, of which each may have its bytes written on it
const HIGHEST = 7;       // boxes that a link passes over before it rises no further
const FILLS = [["variables", "variables"], ["slots", "slots"], ["other", "other variables"], ["step", "step"]];
const strip = document.getElementById("strip");
const SVG = document.getElementById("svg").namespaceURI;

const takenBytes = (device) => FILLS.reduce((sum, [key]) => sum + (device[key] || 0), 0);

// What a device is filled against: the memory that the spec gives it, or else what the fullest device takes.
function makeRoom() {
  const most = Math.max(1, ...data.devices.map(takenBytes));
  return (device) => (device.limit === null ? most : Math.max(1, device.limit));
}

const roomOf = makeRoom();

function drawStrip() {
  const boxes = listColumns();
  const at = new Map();
  boxes.forEach((box, number) => box.devices.forEach((device) => at.set(device, number)));
  const links = sumLinks(at);
  const width = boxes.length * (BOX + BETWEEN) - BETWEEN;
  const inner = make("div", {},
    drawLinks(links.filter(([from, to]) => from < to), boxes, width, true, links),
    make("ol", {}, ...boxes.map((box, number) => makeBox(box, links.find(([from, to]) => from === number && to === number)))),
    drawLinks(links.filter(([from, to]) => from > to), boxes, width, false, links));
  inner.style.width = `${width}px`;
  strip.replaceChildren(inner);
  const limited = data.devices.filter((device) => device.limit !== null).length;
  const against = limited === data.devices.length ? "the memory that the spec gives the device"
    : limited ? "the memory that the spec gives the device or, without that, what the fullest device takes"
      : "what the fullest device takes";
  const keys = FILLS.filter(([key]) => data.devices.some((device) => device[key]))
    .map(([key, text]) => make("span", { class: "key" }, make("i", { class: key, "aria-hidden": "true" }), text));
  document.getElementById("strip-keys").replaceChildren(...keys,
    `Filled against ${against}. Links are as wide as the bytes of a step; those above lead to the right, those below to the left.`);
  markChosen();
}

// The bytes of a step between boxes: [box, box, bytes, transfers], the widest first.
function sumLinks(at) {
  const sums = new Map();
  for (const each of data.transfers) {
    const key = `${at.get(each[0])} ${at.get(each[1])}`;
    if (!sums.has(key)) sums.set(key, [at.get(each[0]), at.get(each[1]), 0, []]);
    sums.get(key)[2] += each[3];
    sums.get(key)[3].push(each);
  }
  return [...sums.values()].sort((a, b) => b[2] - a[2]);
}

function makeBox(box, inside) {
  const devices = box.devices.map((each) => data.devices[each]);
  const device = devices.reduce((one, other) => (shareOf(other) > shareOf(one) ? other : one));
  const over = device.limit !== null && takenBytes(device) > device.limit;
  const bar = make("span", { class: "fill", "aria-hidden": "true" });
  for (const [key] of FILLS) {
    if (!device[key]) continue;
    const part = make("i", { class: key });
    part.style.width = `${(100 * device[key] / Math.max(roomOf(device), takenBytes(device))).toFixed(2)}%`;
    bar.append(part);
  }
  const taken = formatSize(takenBytes(device)) + (device.limit === null ? "" : ` of ${formatSize(device.limit)}`);
  const notes = [devices.length > 1 ? `${devices.length} devices, the fullest:` : plural(device.ops, "op"),
    inside ? `${formatSize(inside[2])} among them` : ""].filter(Boolean);
  const button = make("button", {
    type: "button", "data-devices": box.devices.join(" "),
    onclick: () => (devices.length > 1 ? chooseGroup(box) : choose({ device: box.devices[0] })),
  },
  make("span", { class: "name" }, box.label), make("small", {}, notes.join(", ")), bar,
  make("span", { class: over ? "moved" : "" }, over ? `${taken}: too much` : taken));
  return make("li", {}, button);
}

const shareOf = (device) => takenBytes(device) / roomOf(device);

function chooseGroup(box) {
  box.group.open = true;
  drawGrid();
  drawStrip();
  writeState();
  const first = strip.querySelector(`[data-devices="${box.devices[0]}"]`);
  first.focus();
}

// Links as arcs over the boxes (`above`) or under them, each a button that tells what crosses.
function drawLinks(links, boxes, width, above, all) {
  const rise = (from, to) => 18 + 19 * Math.min(HIGHEST, Math.abs(from - to));
  const height = links.length ? Math.max(...links.map(([from, to]) => rise(from, to))) + WIDEST + 8 : 8;
  const most = Math.max(1, ...all.map((link) => link[2]));
  const picture = makeSvg("svg", { width, height, role: "group", "aria-label": above ? "Links to the right" : "Links to the left" });
  const texts = makeSvg("g", { "aria-hidden": "true" });
  const longFirst = [...links].sort((a, b) => Math.abs(b[0] - b[1]) - Math.abs(a[0] - a[1]));
  for (const [from, to, bytes, transfers] of longFirst) {
    const start = from * (BOX + BETWEEN) + BOX * (above ? 0.72 : 0.28);
    const end = to * (BOX + BETWEEN) + BOX * (above ? 0.28 : 0.72);
    const thick = Math.max(1.5, WIDEST * bytes / most);
    const y = (distance) => (above ? height - distance : distance).toFixed(1);
    const far = rise(from, to) * 4 / 3;
    const head = 6 + thick / 2;
    const name = `${boxes[from].label} to ${boxes[to].label}: ${formatSize(bytes)} a step`;
    const route = `M${start},${y(0)} C${start},${y(far)} ${end},${y(far)} ${end},${y(8)}`;
    const link = makeSvg("g", { role: "button", tabindex: 0, "aria-label": name, "data-link": linkName(transfers) },
      makeSvg("title", {}, name),
      makeSvg("path", { class: "hold", d: route }),
      makeSvg("path", { class: "edge", d: route, "stroke-width": (thick + 4).toFixed(1) }),
      makeSvg("path", { class: "line", d: route, "stroke-width": thick.toFixed(1) }),
      makeSvg("path", { class: "head", d: `M${end - head},${y(9)} L${end + head},${y(9)} L${end},${y(0)} Z` }));
    if (all.length <= LABELLED) {
      texts.append(makeSvg("text", { x: (start + end) / 2, y: y(rise(from, to) + (above ? 3 + thick / 2 : 13 + thick / 2)) }, formatSize(bytes)));
    }
    link.addEventListener("click", () => chooseLink(transfers));
    link.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      chooseLink(transfers);
    });
    picture.append(link);
  }
  picture.append(texts);
  return picture;
}

const linkName = (transfers) => transfers.map(([from, to]) => `${from}>${to}`).join(" ");

// A link between groups of devices stands for several; the one that carries most is told about.
function chooseLink(transfers) {
  const [from, to] = transfers.reduce((one, other) => (other[3] > one[3] ? other : one));
  choose({ from, to });
}

function markChosen() {
  const { thing } = view;
  for (const button of strip.querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(thing !== null && button.dataset.devices === String(thing.device)));
  }
  for (const link of strip.querySelectorAll("[data-link]")) {
    const chosen = thing !== null && link.dataset.link.split(" ").includes(`${thing.from}>${thing.to}`);
    link.setAttribute("aria-pressed", String(chosen));
  }
}

function makeSvg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}
