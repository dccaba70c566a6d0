// Boxes in layers: each box below all that lead to it, in an order in which few arrows cross.

const SWEEPS = 8; // times that the order of each layer is put right by its neighbours

/**
 * @typedef {object} Layout
 * @property {[number, number][]} places Of each box: its layer from 0, and its place in the layer, in boxes from the left.
 * @property {[number, number][][]} routes Of each arrow: the same for each point that it passes.
 * @property {number} layers
 * @property {number} width The places of the widest layer.
 */

/**
 * Lay out boxes and the arrows between them, which make no circle.
 * @param {number} count
 * @param {[number, number][]} arrows
 * @returns {Layout}
 */
export function layOut(count, arrows) {
  const layerOf = findLayers(count, arrows);
  // An arrow over several layers gets a point in each of them, so that it is led around boxes.
  /** @type {number[]} */
  const points = [...layerOf];
  /** @type {[number, number][]} */
  const links = [];
  const chains = arrows.map(([from, to]) => {
    const chain = [from];
    for (let layer = (layerOf[from] ?? 0) + 1; layer < (layerOf[to] ?? 0); layer += 1) chain.push(points.push(layer) - 1);
    chain.push(to);
    chain.slice(1).forEach((point, at) => links.push([chain[at] ?? 0, point]));
    return chain;
  });
  const layers = points.reduce((most, layer) => Math.max(most, layer + 1), 0);
  const rows = orderLayers(points, links, layers);
  const width = rows.reduce((most, row) => Math.max(most, row.length), 1);
  const x = findPlaces(rows, links, points.length, width);
  /** @param {number} point @returns {[number, number]} */
  const place = (point) => [points[point] ?? 0, x[point] ?? 0];
  return { places: layerOf.map((_, box) => place(box)), routes: chains.map((chain) => chain.map(place)), layers, width };
}

/**
 * The layer of each box: one below the lowest of those that lead to it.
 * @param {number} count
 * @param {[number, number][]} arrows
 */
function findLayers(count, arrows) {
  /** @type {number[]} */
  const layers = Array(count).fill(0);
  for (let moved = true, round = 0; moved && round <= count; round += 1) {
    moved = false;
    for (const [from, to] of arrows) {
      const least = (layers[from] ?? 0) + 1;
      if ((layers[to] ?? 0) < least) { layers[to] = least; moved = true; }
    }
  }
  // What nothing leads to stands right above what it leads to, such as the labels of a loss.
  const led = new Set(arrows.map(([, to]) => to));
  for (let box = 0; box < count; box += 1) {
    const below = arrows.filter(([from]) => from === box).map(([, to]) => layers[to] ?? 0);
    if (!led.has(box) && below.length) layers[box] = Math.min(...below) - 1;
  }
  return layers;
}

/**
 * The points of each layer from left to right, each near the mean of its neighbours.
 * @param {number[]} points
 * @param {[number, number][]} links
 * @param {number} layers
 */
function orderLayers(points, links, layers) {
  /** @type {number[][]} */
  const rows = Array.from({ length: layers }, () => []);
  points.forEach((layer, point) => rows[layer]?.push(point));
  const { above, below } = neighbours(points.length, links);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const down = sweep % 2 === 0;
    const at = new Map(rows.flatMap((row) => row.map((point, place) => /** @type {[number, number]} */ ([point, place - row.length / 2]))));
    for (const row of down ? rows : [...rows].reverse()) {
      const mean = new Map(row.map((point) => [point, meanOf((down ? above : below)[point] ?? [], at) ?? at.get(point) ?? 0]));
      row.sort((a, b) => (mean.get(a) ?? 0) - (mean.get(b) ?? 0));
      row.forEach((point, place) => at.set(point, place - row.length / 2));
    }
  }
  return rows;
}

/**
 * How far each point is from the left: near the mean of its neighbours, one apart from those beside it.
 * @param {number[][]} rows
 * @param {[number, number][]} links
 * @param {number} count
 * @param {number} width
 */
function findPlaces(rows, links, count, width) {
  const { above, below } = neighbours(count, links);
  /** @type {Map<number, number>} */
  const at = new Map();
  for (const row of rows) row.forEach((point, place) => at.set(point, place + (width - row.length) / 2));
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const row of sweep % 2 ? [...rows].reverse() : rows) {
      const wanted = row.map((point) => meanOf([...(above[point] ?? []), ...(below[point] ?? [])], at) ?? at.get(point) ?? 0);
      let least = 0;
      row.forEach((point, place) => {
        const x = Math.min(Math.max(least, wanted[place] ?? 0), width - (row.length - place));
        at.set(point, x);
        least = x + 1;
      });
    }
  }
  return Array.from({ length: count }, (_, point) => at.get(point) ?? 0);
}

/**
 * @param {number} count
 * @param {[number, number][]} links
 */
function neighbours(count, links) {
  /** @type {number[][]} */
  const above = Array.from({ length: count }, () => []);
  /** @type {number[][]} */
  const below = Array.from({ length: count }, () => []);
  for (const [from, to] of links) {
    above[to]?.push(from);
    below[from]?.push(to);
  }
  return { above, below };
}

/**
 * @param {number[]} points
 * @param {Map<number, number>} at
 */
function meanOf(points, at) {
  if (!points.length) return null;
  return points.reduce((sum, point) => sum + (at.get(point) ?? 0), 0) / points.length;
}
