// Elements of the page. Each text becomes a text node, with what does not show written out: what logs hold is
// never markup.

const SVG = "http://www.w3.org/2000/svg";

// Characters that don't show, or that turn the direction of others. They are shown as their numbers: \u202e.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** The text for people. */
export const readable = (text) =>
  String(text).replace(UNSEEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** An element with its attributes and children. Left out: attributes that are null or false, children null. */
export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(name, value === true ? "" : value);
    }
  }
  const given = children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== "");
  made.append(...given.map((one) => (one instanceof Node ? one : readable(one))));
  return made;
}

/** Words for screen readers alone. */
export const unseen = (...words) => el("span", { class: "unseen" }, ...words);

/**
 * Change `old` into `made`, and touch only what differs: focus, selection, opened details and live regions stay
 * as they are. Children with the same `data-key` are the same. An element with `data-own` is its module's own.
 */
export function morph(old, made) {
  if (old.hasAttribute("data-own")) return;
  for (const { name } of [...old.attributes]) {
    if (!made.hasAttribute(name) && !(name === "open" && old.localName === "details")) old.removeAttribute(name);
  }
  for (const { name, value } of made.attributes) {
    if (old.getAttribute(name) !== value && name !== "open") old.setAttribute(name, value);
  }
  morphChildren(old, [...made.childNodes]);
}

/** The same for all that lies within `parent`. */
export function morphChildren(parent, children) {
  const keyed = new Map([...parent.children].map((one) => [one.dataset.key, one]));
  let at = parent.firstChild;
  for (const child of children) {
    const key = child.dataset?.key;
    const match = key === undefined ? at : keyed.get(key);
    if (!match || !isSame(match, child)) {
      parent.insertBefore(child, at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else parent.insertBefore(match, at);
    if (child.nodeType === Node.ELEMENT_NODE) morph(match, child);
    else if (match.data !== child.data) match.data = child.data;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

const isSame = (one, other) => one.nodeName === other.nodeName && one.dataset?.key === other.dataset?.key;
