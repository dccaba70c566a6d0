// The matrix of scopes by devices: columns, rows made as they are needed, keys.

const PAGE = 300;      // rows made at a time
const FEW_DEVICES = 12; // of more, those of a kind and job start as one column
const OPENED = 60;     // rows that a search opens by itself
const view = { query: "", onlyMoved: false, limit: PAGE, selected: null, thing: null, focus: null, total: 0 };
const grid = document.getElementById("scopes");

const columnGroups = makeColumnGroups();

function makeColumnGroups() {
  const many = data.devices.length > FEW_DEVICES;
  const groups = new Map();
  data.devices.forEach((device, at) => {
    const family = many ? device.ref.replace(/\[\d+\]/g, "[*]") : device.ref;
    if (!groups.has(family)) groups.set(family, { label: family, devices: [], open: !many });
    groups.get(family).devices.push(at);
  });
  for (const group of groups.values()) {
    if (group.devices.length === 1) group.label = data.devices[group.devices[0]].ref;
  }
  return [...groups.values()];
}

function listColumns() {
  const columns = [];
  for (const group of columnGroups) {
    if (group.devices.length === 1 || !group.open) columns.push({ label: group.label, devices: group.devices, group });
    else for (const at of group.devices) columns.push({ label: data.devices[at].ref, devices: [at], group });
  }
  return columns;
}

function listRows() {
  const rows = [];
  const visit = (node) => {
    for (const child of node.children) {
      if (!child.hit) continue;
      rows.push(child);
      if (child.open) visit(child);
    }
  };
  visit(root);
  return rows;
}

function applySearch() {
  view.total = countOps(root, makeTest(view.query, view.onlyMoved));
  view.limit = PAGE;
  const searching = view.query.trim() || view.onlyMoved;
  if (searching) openWhileShort();
  document.getElementById("found").textContent = searching ? `${plural(view.total, "op")} found` : plural(view.total, "op");
}

// Open the scopes of what was found, level by level, as long as the rows stay few.
function openWhileShort() {
  eachNode(root, (node) => { node.open = node === root; });
  let level = root.children.filter((node) => node.hit);
  let rows = level.length;
  while (level.length && rows <= OPENED) {
    const next = level.flatMap((node) => node.children.filter((child) => child.hit));
    if (rows + next.length > OPENED) break;
    for (const node of level) node.open = true;
    rows += next.length;
    level = next;
  }
}

function drawGrid() {
  const columns = listColumns();
  const rows = listRows();
  const shown = rows.slice(0, view.limit);
  if (!shown.includes(view.focus)) view.focus = shown.includes(view.selected) ? view.selected : shown[0] || null;
  const body = make("tbody", {}, ...shown.map((node) => makeRow(node, columns)));
  if (rows.length > shown.length) body.append(makeMoreRow(rows.length - shown.length, columns.length));
  if (!rows.length) body.append(make("tr", { class: "more" }, make("td", { colspan: columns.length + 1 }, "no op matches")));
  const total = make("tr", {}, make("td", {}, "all"), ...columns.map((column) => makeCell(root, column, 0)));
  grid.replaceChildren(make("thead", {}, makeHead(columns)), body, make("tfoot", {}, total));
}

function makeHead(columns) {
  const head = make("tr", {}, make("th", { scope: "col" }, "scope"));
  for (const column of columns) {
    const several = column.group.devices.length > 1;
    const label = several
      ? make("button", {
          type: "button", title: column.group.open ? "take together" : "show each device",
          onclick: () => { column.group.open = !column.group.open; drawGrid(); drawStrip(); writeState(); },
        }, `${column.group.open ? "" : "+ "}${column.label}`)
      : column.label;
    const note = several && !column.group.open ? make("small", {}, `sum of ${column.devices.length}`) : null;
    head.append(make("th", { scope: "col" }, label, note));
  }
  return head;
}

function makeRow(node, columns) {
  const scope = node.children.length > 0;
  const name = make("td", { title: node.path },
    make("span", { class: "twist", "aria-hidden": "true" }, scope ? (node.open ? "\u25be" : "\u25b8") : ""),
    make("span", { class: "name" }, scope ? `${node.name}/` : node.name));
  name.style.paddingLeft = `${0.4 + (node.level - 1) * 1.1}rem`;
  if (node.kind) name.append(" ", make("span", { class: "type" }, node.kind[0]));
  if (node.kind && isMoved(node.kind)) name.append(" ", make("span", { class: "type moved" }, `moved to ${data.places[node.kind[4]]}`));
  const row = make("tr", {
    role: "row", "aria-level": node.level, "aria-expanded": scope ? String(node.open) : null,
    "aria-selected": String(node === view.selected), "data-path": node.path, tabindex: node === view.focus ? 0 : -1,
  }, name);
  let total = 0;
  for (const number of node.counts.values()) total += number;
  for (const column of columns) row.append(makeCell(node, column, total));
  return row;
}

function makeCell(node, column, total) {
  let number = 0;
  for (const device of column.devices) number += node.counts.get(device) || 0;
  const cell = make("td", { class: number ? "" : "zero" }, formatCount(number));
  if (number && total) cell.style.background = `rgba(var(--heat), ${(0.06 + 0.26 * number / total).toFixed(2)})`;
  return cell;
}

function makeMoreRow(left, columns) {
  const button = make("button", { type: "button", onclick: () => { view.limit += PAGE; drawGrid(); } },
    `show ${Math.min(PAGE, left)} more of ${left.toLocaleString("en-US")} rows`);
  return make("tr", { class: "more" }, make("td", { colspan: columns + 1 }, button));
}

function toggle(node, open) {
  if (!node.children.length) return;
  node.open = open === undefined ? !node.open : open;
  drawGrid();
}

function focusRow(node) {
  if (!node) return;
  view.focus = node;
  for (const row of grid.tBodies[0].rows) {
    const here = row.dataset.path === node.path;
    row.tabIndex = here ? 0 : -1;
    if (here) row.focus();
  }
}

function onGridClick(event) {
  const row = event.target.closest("tbody tr[data-path]");
  if (!row) return;
  const node = byPath.get(row.dataset.path);
  const toggles = node === view.selected || event.target.closest(".twist");
  if (toggles) toggle(node);
  if (!event.target.closest(".twist")) select(node);
  else writeState();
  focusRow(node);
}

function onGridKey(event) {
  const row = event.target.closest("tbody tr[data-path]");
  if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
  const node = byPath.get(row.dataset.path);
  const rows = listRows().slice(0, view.limit);
  const at = rows.indexOf(node);
  const moves = {
    ArrowDown: () => focusRow(rows[at + 1]),
    ArrowUp: () => focusRow(rows[at - 1]),
    Home: () => focusRow(rows[0]),
    End: () => focusRow(rows[rows.length - 1]),
    ArrowRight: () => (node.children.length && !node.open ? openAndStay(node, true) : focusRow(node.open ? rows[at + 1] : null)),
    ArrowLeft: () => (node.open ? openAndStay(node, false) : focusRow(node.parent === root ? null : node.parent)),
    Enter: () => { select(node); focusRow(node); },
    " ": () => { select(node); focusRow(node); },
  };
  if (!(event.key in moves)) return;
  event.preventDefault();
  moves[event.key]();
}

function openAndStay(node, open) {
  toggle(node, open);
  writeState();
  focusRow(node);
}

grid.addEventListener("click", onGridClick);
grid.addEventListener("keydown", onGridKey);
