// The table of scopes by devices: what is measured, sorting, rows made as they are needed, keys.

import { isSum } from "../both/columns.js";
import { data, placeName } from "../both/data.js";
import { byId, inputById, make } from "../both/dom.js";
import { formatCount, formatFlops, formatSize, formatTimeCell, plural } from "../both/format.js";
import { choose, decode, decodeList, encodeList, register, view, writeAddress } from "../both/state.js";
import { columnsShown, onDevices, openGroup } from "./panels.js";
import {
  aparts, countHits, eachNode, findNode, isMoved, isMovedPlace, joinClones, makeTest, measure, order, placesOf, root, sumOn,
  takeApart, takeNamedApart, hasRun,
} from "./tree.js";

/** @typedef {import("./tree.js").TreeNode} TreeNode */
/** @typedef {import("../both/columns.js").Column} Column */

const PAGE = 300;  // rows made at a time
const OPENED = 60; // rows that a search opens by itself
const WRITTEN = 50; // open scopes that the address holds
const ALL = "all";

/** What can be measured: words, and how a figure is written. @type {Record<string, [string, (size: number) => string]>} */
export const MEASURES = {
  ops: ["numbers of ops", formatCount],
  held: ["bytes of variables and slots", formatSize],
  flops: ["FLOPs of a step", formatFlops],
  bytes: ["bytes that a step reads and writes", formatSize],
  time: ["time of a step", formatTimeCell],
};

/** @type {{ query: string, onlyMoved: boolean, limit: number, focus: TreeNode | null }} */
const table = { query: "", onlyMoved: false, limit: PAGE, focus: null };
const grid = /** @type {HTMLTableElement} */ (byId("scopes"));
const search = inputById("search");
const onlyMisplaced = inputById("misplaced");
const measured = /** @type {HTMLSelectElement} */ (byId("measure"));

const figure = () => (MEASURES[order.measure] ?? ["", formatCount])[1];
const chosenPath = () => (view.chosen && "path" in view.chosen ? view.chosen.path : null);

/** @returns {TreeNode[]} */
function listRows() {
  const columns = columnsShown();
  const sorted = columns.find((each) => each.label === order.sort);
  const devices = sorted ? sorted.devices : data.devices.map((_, at) => at);
  const turn = order.down ? -1 : 1;
  /** @param {TreeNode[]} nodes */
  const arrange = (nodes) => {
    if (!order.sort) return nodes;
    if (order.sort === "name") return [...nodes].sort((a, b) => -turn * a.name.localeCompare(b.name, "en", { numeric: true }));
    const sizes = new Map(nodes.map((node) => [node, sumOn(node, devices)]));
    return [...nodes].sort((a, b) => turn * ((sizes.get(a) ?? 0) - (sizes.get(b) ?? 0)));
  };
  /** @type {TreeNode[]} */
  const rows = [];
  /** @param {TreeNode} node */
  const visit = (node) => {
    for (const child of arrange(node.children.filter((each) => each.hit))) {
      rows.push(child);
      if (child.open) visit(child);
    }
  };
  visit(root);
  return rows;
}

const isSearching = () => table.query.trim() !== "" || table.onlyMoved;

function applySearch() {
  takeNamedApart(table.query);
  const wanted = makeTest(table.query, table.onlyMoved);
  measure(wanted);
  table.limit = PAGE;
  if (isSearching()) openWhileShort();
  const total = countHits(wanted);
  byId("found").textContent = isSearching() ? `${plural(total, "op")} found` : plural(total, "op");
}

const closeAll = () => eachNode(root, (node) => { node.open = node === root; });

// Open the scopes of what was found, level by level, as long as the rows stay few.
function openWhileShort() {
  closeAll();
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

export function drawGrid() {
  if (order.stale) measure(makeTest(table.query, table.onlyMoved));
  const columns = columnsShown();
  const rows = listRows();
  const shown = rows.slice(0, table.limit);
  const path = chosenPath();
  if (!table.focus || !shown.includes(table.focus)) table.focus = shown.find((node) => node.path === path) ?? shown[0] ?? null;
  const whole = sumOn(root, data.devices.map((_, at) => at));
  const body = make("tbody", {}, ...shown.map((node) => makeRow(node, columns, whole)));
  const wide = columns.length + 2;
  if (rows.length > shown.length) body.append(makeMoreRow(rows.length - shown.length, wide));
  if (!rows.length) body.append(make("tr", { class: "more" }, make("td", { colspan: wide }, "no op matches")));
  const total = make("tr", {}, make("td", {}, "all"), ...makeCells(root, columns, 0));
  grid.replaceChildren(make("thead", {}, makeHead(columns)), body, make("tfoot", {}, total));
  byId("join").hidden = aparts.every((apart) => !apart.size);
}

/** @param {Column[]} columns */
function makeHead(columns) {
  const head = make("tr", {}, makeSortHead("name", "scope"), makeSortHead(ALL, ALL));
  for (const column of columns) {
    const { group } = column;
    const cell = makeSortHead(column.label, column.label);
    if (isSum(column)) cell.append(make("small", {}, `sum of ${column.devices.length}`));
    if (group.many && group.devices.indexOf(column.devices[0] ?? -1) + column.devices.length === group.devices.length) {
      const open = isSum(column);
      cell.append(make("button", {
        type: "button", class: "turn", "aria-label": open ? `show devices of ${group.label} one by one` : `take ${group.label} together`,
        onclick: () => openGroup(group),
      }, open ? "+" : "\u2212"));
    }
    head.append(cell);
  }
  return head;
}

/**
 * @param {string} key
 * @param {string} text
 */
function makeSortHead(key, text) {
  const sorted = order.sort === key;
  const state = sorted ? (order.down ? "descending" : "ascending") : "none";
  const arrow = sorted ? (order.down ? " \u2193" : " \u2191") : "";
  return make("th", { scope: "col", "aria-sort": state }, make("button", {
    type: "button", "data-sort": key, onclick: () => {
      sortBy(key);
      /** @type {HTMLElement | null} */ (grid.querySelector(`[data-sort="${CSS.escape(key)}"]`))?.focus();
    },
  }, text, make("span", { "aria-hidden": "true" }, arrow)));
}

// The first press sorts from the largest, the second from the smallest, and the third as in the graph.
/** @param {string} key */
function sortBy(key) {
  if (order.sort !== key) [order.sort, order.down] = [key, true];
  else if (order.down) order.down = false;
  else order.sort = "";
  drawGrid();
  writeAddress();
}

/**
 * @param {TreeNode} node
 * @param {Column[]} columns
 * @param {number} whole
 */
function makeRow(node, columns, whole) {
  const scope = node.children.length > 0;
  const name = make("td", { title: node.path },
    make("span", { class: "twist", "aria-hidden": "true" }, scope ? (node.open ? "\u25be" : "\u25b8") : ""),
    make("span", { class: "name" }, scope ? `${node.name}/` : node.name));
  name.style.paddingLeft = `${0.4 + (node.level - 1) * 1.1}rem`;
  if (node.op) name.append(" ", make("span", { class: "type" }, node.op.type));
  if (node.op && isMoved(node)) {
    const moved = placesOf(node).find(isMovedPlace);
    name.append(" ", make("span", { class: "type moved" }, `moved to ${placeName(moved?.assigned ?? -1)}`));
  }
  return make("tr", {
    role: "row", "aria-level": node.level, "aria-expanded": scope ? String(node.open) : null,
    "aria-selected": String(node.path === chosenPath()), "data-path": node.path, tabindex: node === table.focus ? 0 : -1,
  }, name, ...makeCells(node, columns, whole));
}

/**
 * @param {TreeNode} node
 * @param {Column[]} columns
 * @param {number} whole What all of a cell is a share of, or 0 for no shading.
 */
function makeCells(node, columns, whole) {
  const sizes = columns.map((column) => sumOn(node, column.devices));
  const total = sizes.reduce((sum, size) => sum + size, 0);
  return [total, ...sizes].map((size, at) => {
    const cell = make("td", { class: size ? "" : "zero" }, size ? figure()(size) : ".");
    if (size && whole && at) cell.style.background = `rgba(var(--heat), ${(0.05 + 0.27 * Math.sqrt(size / whole)).toFixed(2)})`;
    return cell;
  });
}

/**
 * @param {number} left
 * @param {number} wide
 */
function makeMoreRow(left, wide) {
  const button = make("button", { type: "button", onclick: () => { table.limit += PAGE; drawGrid(); } },
    `show ${Math.min(PAGE, left)} more of ${left.toLocaleString("en-US")} rows`);
  return make("tr", { class: "more" }, make("td", { colspan: wide }, button));
}

/**
 * @param {TreeNode} node
 * @param {boolean} open
 */
function setOpen(node, open) {
  if (!node.children.length) return;
  node.open = open;
  drawGrid();
  writeAddress();
}

/** @param {TreeNode | null | undefined} node */
function focusRow(node) {
  if (!node) return;
  table.focus = node;
  for (const row of grid.tBodies[0]?.rows ?? []) {
    const here = row.dataset["path"] === node.path;
    row.tabIndex = here ? 0 : -1;
    if (here) row.focus();
  }
}

/**
 * Show and choose what is at a path, with every scope around it open.
 * @param {string} path
 */
export function reveal(path) {
  const node = findNode(path);
  if (!node || node === root) return;
  if (order.stale) measure(makeTest(table.query, table.onlyMoved));
  if (!node.hit) {
    [table.query, table.onlyMoved] = ["", false];
    showSearch();
    applySearch();
  }
  for (let outer = node.parent; outer; outer = outer.parent) outer.open = true;
  const at = listRows().indexOf(node);
  if (at >= table.limit) table.limit = at + PAGE;
  table.focus = node;
  choose({ path: node.path });
  drawGrid();
  scrollToRow(grid.querySelector('tbody tr[aria-selected="true"]'));
}

// Bring a row into sight inside its box, without moving the page.
/** @param {HTMLElement | null} row */
function scrollToRow(row) {
  const box = grid.parentElement;
  if (!row || !box) return;
  const above = row.offsetTop - box.clientHeight / 3;
  if (row.offsetTop < box.scrollTop + 40 || row.offsetTop + 60 > box.scrollTop + box.clientHeight) box.scrollTop = above;
}

/** @param {Event} event */
const rowOf = (event) => /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("tbody tr[data-path]"));

/** @param {MouseEvent} event */
function onGridClick(event) {
  const node = findNode(rowOf(event)?.dataset["path"] ?? "");
  if (!rowOf(event) || !node) return;
  const twist = /** @type {Element} */ (event.target).closest(".twist");
  const toggles = node.path === chosenPath() || twist;
  if (!twist) choose({ path: node.path });
  if (toggles) setOpen(node, !node.open);
  focusRow(node);
}

/** @param {KeyboardEvent} event */
function onGridKey(event) {
  const row = rowOf(event);
  const node = findNode(row?.dataset["path"] ?? "");
  if (!row || !node || event.target !== row || event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = listRows().slice(0, table.limit);
  const at = rows.indexOf(node);
  /** @param {boolean} open */
  const turn = (open) => { setOpen(node, open); focusRow(node); };
  const explain = () => { choose({ path: node.path }); focusRow(node); };
  /** @type {Record<string, () => void>} */
  const moves = {
    ArrowDown: () => focusRow(rows[at + 1]),
    ArrowUp: () => focusRow(rows[at - 1]),
    Home: () => focusRow(rows[0]),
    End: () => focusRow(rows[rows.length - 1]),
    ArrowRight: () => (node.children.length && !node.open ? turn(true) : focusRow(node.open ? rows[at + 1] : null)),
    ArrowLeft: () => (node.open ? turn(false) : focusRow(node.parent === root ? null : node.parent)),
    Enter: explain,
    " ": explain,
  };
  const move = moves[event.key];
  if (!move) return;
  event.preventDefault();
  move();
}

function showSearch() {
  search.value = table.query;
  onlyMisplaced.checked = table.onlyMoved;
}

function onSearch() {
  table.query = search.value;
  table.onlyMoved = onlyMisplaced.checked;
  if (!table.query.trim()) closeAll();
  applySearch();
  drawGrid();
  writeAddress();
}

function addListeners() {
  let typing = 0;
  search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(onSearch, 120); });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { search.value = ""; onSearch(); }
    if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); focusRow(listRows()[0]); }
  });
  onlyMisplaced.addEventListener("change", onSearch);
  measured.addEventListener("change", () => { order.measure = measured.value; order.stale = true; drawGrid(); writeAddress(); });
  byId("collapse").addEventListener("click", () => { closeAll(); drawGrid(); writeAddress(); });
  byId("join").addEventListener("click", () => { joinClones(); choose(null); drawGrid(); });
  document.addEventListener("keydown", (event) => {
    const typed = /** @type {Element} */ (event.target).closest("input, textarea, select");
    if (event.key !== "/" || typed || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    search.focus();
    search.select();
  });
  grid.addEventListener("click", onGridClick);
  grid.addEventListener("keydown", onGridKey);
}

/** @returns {(string | null)[]} */
function write() {
  const open = isSearching() ? [] : listRows().filter((node) => node.open).map((node) => node.path);
  const apart = aparts.flatMap((each) => [...each]);
  return [
    table.query ? `q=${encodeURIComponent(table.query)}` : null,
    table.onlyMoved ? "moved=1" : null,
    order.measure === "ops" ? null : `by=${order.measure}`,
    order.sort ? `sort=${order.down ? "" : "-"}${encodeURIComponent(order.sort)}` : null,
    apart.length ? `clones=${apart.join(",")}` : null,
    open.length && open.length <= WRITTEN ? `open=${encodeList(open)}` : null,
  ];
}

/** @param {import("../both/state.js").Address} address */
function read(address) {
  table.query = decode(address.get("q"));
  table.onlyMoved = address.get("moved") === "1";
  const by = address.get("by") ?? "";
  order.measure = data.measures.includes(by) ? by : "ops";
  measured.value = order.measure;
  const sort = decode(address.get("sort"));
  order.down = !sort.startsWith("-");
  order.sort = order.down ? sort : sort.slice(1);
  joinClones();
  for (const clone of decodeList(address.get("clones"))) takeApart(Number(clone));
  showSearch();
  closeAll();
  applySearch();
  for (const path of decodeList(address.get("open"))) {
    for (let node = findNode(path); node; node = node.parent) node.open = true;
  }
  drawGrid();
}

function mark() {
  if (order.stale) drawGrid();
  const path = chosenPath();
  for (const row of grid.tBodies[0]?.rows ?? []) row.setAttribute("aria-selected", String(row.dataset["path"] === path));
}

export function startScopes() {
  byId("misplaced-box").hidden = !hasRun();
  measured.replaceChildren(...data.measures.map((each) => make("option", { value: each }, MEASURES[each]?.[0] ?? each)));
  addListeners();
  onDevices(drawGrid);
  register({ write, read, mark });
}
