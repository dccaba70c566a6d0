// What is shown of the devices in all parts of the page alike: which groups are open.

import { listColumns, makeGroups, readGroups, turnGroup, writeGroups } from "../both/columns.js";
import { data } from "../both/data.js";
import { decodeList, register, writeAddress } from "../both/state.js";

/** @typedef {import("../both/columns.js").Column} Column */
/** @typedef {import("../both/columns.js").Group} Group */

export const groups = makeGroups(data.devices);
export const columnsShown = () => listColumns(groups, data.devices);

/** @type {(() => void)[]} */
const drawers = [];

/**
 * Draw a part of the page now and whenever other devices are shown.
 * @param {() => void} draw
 */
export const onDevices = (draw) => { drawers.push(draw); };

export const drawDevices = () => { for (const draw of drawers) draw(); };

/** @param {Group} group */
export function openGroup(group) {
  turnGroup(group);
  drawDevices();
  writeAddress();
}

export function registerDevices() {
  register({
    write: () => [groups.some((group) => group.shown) ? `apart=${writeGroups(groups)}` : null],
    read: (address) => {
      readGroups(groups, decodeList(address.get("apart")));
      drawDevices();
    },
  });
}
