// The page of a placement map: its head, its parts, and what is said about what is chosen.

import { data } from "./both/data.js";
import { byId, make } from "./both/dom.js";
import { choose, decode, readAddress, register, view } from "./both/state.js";
import { explainDevice, explainLink, startDevices } from "./map/devices.js";
import { explainNode, showDetail } from "./map/explain.js";
import { registerDevices } from "./map/panels.js";
import { reveal, startScopes } from "./map/scopes.js";
import { findNode, hasNode, root } from "./map/tree.js";
import { explainBox, startModel } from "./model/drawing.js";
import { explainBar, startTimeline } from "./step/timeline.js";

function explain() {
  const { chosen } = view;
  const detail = byId("detail");
  detail.classList.toggle("chosen", chosen !== null);
  detail.scrollTop = 0;
  const node = chosen && "path" in chosen ? findNode(chosen.path) : null;
  if (node) explainNode(node);
  else if (chosen && "bar" in chosen) explainBar(chosen.bar);
  else if (chosen && "box" in chosen) explainBox(chosen.box);
  else if (chosen && "device" in chosen) explainDevice(chosen.device);
  else if (chosen && "from" in chosen) explainLink(chosen.from, chosen.to);
  else {
    showDetail(make("h2", {}, "Why is it there?"),
      make("p", {}, "Choose a scope or an op: the rule that placed it and its line in the spec are shown here. "
        + "For a device or a link, its memory or what crosses it is."));
  }
}

function start() {
  byId("title").textContent = data.title;
  byId("facts").textContent = data.facts.join(" \u00b7 ");
  startScopes();
  registerDevices();
  startTimeline();
  startDevices();
  startModel();
  let wanted = "";
  register({
    write: () => [view.chosen && "path" in view.chosen ? `sel=${encodeURIComponent(view.chosen.path)}` : null],
    read: (address) => { wanted = decode(address.get("sel")); },
    mark: explain,
  });
  const open = () => {
    readAddress();
    if (wanted && hasNode(wanted) && wanted !== root.path) reveal(wanted);
  };
  byId("close").addEventListener("click", () => choose(null));
  document.addEventListener("keydown", (event) => {
    const typed = /** @type {Element} */ (event.target).closest("input, select");
    if (event.key === "Escape" && !typed && view.chosen) choose(null);
  });
  window.addEventListener("hashchange", open);
  open();
}

start();
