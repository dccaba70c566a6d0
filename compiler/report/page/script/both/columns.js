// Devices as columns and boxes: of many, those of a kind and job start as one, which opens a few at a time.

const FEW = 12;       // devices that are shown one by one
const AT_A_TIME = 32; // devices that an opened group shows more with each press

/** @typedef {{ label: string, devices: number[], shown: number, many: boolean }} Group */
/** @typedef {{ label: string, devices: number[], group: Group }} Column */

/**
 * Return the groups of devices.
 * @param {{ ref: string }[]} devices
 * @returns {Group[]}
 */
export function makeGroups(devices) {
  const many = devices.length > FEW;
  /** @type {Map<string, Group>} */
  const groups = new Map();
  devices.forEach((device, at) => {
    const family = many ? device.ref.replace(/\[\d+\]/g, "[*]") : device.ref;
    const group = groups.get(family) ?? { label: family, devices: [], shown: 0, many: false };
    groups.set(family, group);
    group.devices.push(at);
  });
  for (const group of groups.values()) {
    group.many = group.devices.length > 1;
    if (!group.many) group.label = devices[group.devices[0] ?? 0]?.ref ?? "";
  }
  return [...groups.values()];
}

/**
 * Return what is shown of the groups: a column for each device of opened ones, and one for the rest.
 * @param {Group[]} groups
 * @param {{ ref: string }[]} devices
 * @returns {Column[]}
 */
export function listColumns(groups, devices) {
  /** @type {Column[]} */
  const columns = [];
  for (const group of groups) {
    if (!group.many) {
      columns.push({ label: group.label, devices: group.devices, group });
      continue;
    }
    for (const at of group.devices.slice(0, group.shown)) columns.push({ label: devices[at]?.ref ?? "", devices: [at], group });
    const rest = group.devices.slice(group.shown);
    const others = group.shown ? `${rest.length} more ${group.label}` : group.label;
    if (rest.length) columns.push({ label: others, devices: rest, group });
  }
  return columns;
}

/**
 * Whether a column stands for several devices.
 * @param {Column} column
 */
export const isSum = (column) => column.devices.length > 1;

/**
 * Show more devices of a group, or none of them by itself if all are shown.
 * @param {Group} group
 */
export function turnGroup(group) {
  group.shown = group.shown >= group.devices.length ? 0 : Math.min(group.devices.length, group.shown + AT_A_TIME);
}

/**
 * Open a group so far that a device of it is shown, unless that would be far.
 * @param {Group[]} groups
 * @param {number} device
 */
export function showDevice(groups, device) {
  const group = groups.find((each) => each.many && each.devices.includes(device));
  if (!group) return;
  const at = group.devices.indexOf(device);
  if (at >= 2 * AT_A_TIME) return;
  while (group.shown <= at) turnGroup(group);
}

/** @param {Group[]} groups */
export const writeGroups = (groups) => groups.filter((group) => group.shown)
  .map((group) => encodeURIComponent(group.shown === AT_A_TIME ? group.label : `${group.label}:${group.shown}`)).join(",");

/**
 * @param {Group[]} groups
 * @param {string[]} written
 */
export function readGroups(groups, written) {
  for (const group of groups) {
    group.shown = 0;
    if (!group.many) continue;
    for (const each of written) {
      if (each === group.label) group.shown = AT_A_TIME;
      else if (each.startsWith(`${group.label}:`)) group.shown = Number(each.slice(group.label.length + 1)) || 0;
    }
    group.shown = Math.max(0, Math.min(group.shown, group.devices.length));
  }
}
