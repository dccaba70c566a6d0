// Making elements. Text is always set as text and never parsed as markup.

/** @typedef {Node | string | null | undefined} Child */
/** @typedef {Record<string, any>} Attributes */


/**
 * Return the element of the page that has this name.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found;
}

const SVG = byId("svg").namespaceURI;

/**
 * Return the input of the page that has this name.
 * @param {string} id
 */
export const inputById = (id) => /** @type {HTMLInputElement} */ (byId(id));

/**
 * Make an element: attributes, among them listeners such as `onclick`, then children.
 * @param {string} tag
 * @param {Attributes} attributes
 * @param {Child[]} children
 * @returns {HTMLElement}
 */
export function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(key, value);
  }
  element.append(...present(children));
  return element;
}

/**
 * Make an element of a drawing.
 * @param {string} tag
 * @param {Attributes} attributes
 * @param {Child[]} children
 * @returns {SVGElement}
 */
export function makeSvg(tag, attributes, ...children) {
  const element = /** @type {SVGElement} */ (document.createElementNS(SVG, tag));
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...present(children));
  return element;
}

/** @param {Child[]} children */
const present = (children) => /** @type {(Node | string)[]} */ (children.filter((each) => each !== null && each !== undefined));

/**
 * Make a button that looks like a word of the text.
 * @param {Child} text
 * @param {(event: Event) => void} act
 * @param {Attributes} more
 */
export const makeWord = (text, act, more = {}) => make("button", { type: "button", class: "plain", onclick: act, ...more }, text);

/**
 * Make a list of terms and what is said about each; a term is left out if there is nothing to say.
 * @param {[string, ...Child[]][]} facts
 */
export function makeFacts(...facts) {
  const list = make("dl", {});
  for (const [term, ...said] of facts) {
    if (present(said).length) list.append(make("dt", {}, term), make("dd", {}, ...said));
  }
  return list;
}

/**
 * Say what a colour means.
 * @param {string} kind The class that has the colour.
 * @param {string} text
 */
export const makeKey = (kind, text) => make("span", { class: "key" }, make("i", { class: kind, "aria-hidden": "true" }), text);

/**
 * Let the Enter and the space key do what a click does, on what is no button of the browser.
 * @param {Element} element
 * @param {() => void} act
 */
export function onPress(element, act) {
  element.addEventListener("click", act);
  element.addEventListener("keydown", (event) => {
    const { key } = /** @type {KeyboardEvent} */ (event);
    if (key !== "Enter" && key !== " ") return;
    event.preventDefault();
    act();
  });
}
