// Elements, and changing them only where they differ: nothing flickers, no focus or selection is lost.

/** An element with classes, attributes and children; text stays text. */
export function element(tag, { class: names, ...attributes } = {}, ...children) {
  const made = document.createElement(tag);
  if (names) made.className = names;
  for (const [name, value] of Object.entries(attributes)) setAttribute(made, name, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value === true ? "" : String(value));
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setClass(node, names) {
  if (node.className !== names) node.className = names;
}

export function setHidden(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

/** Make these the children of a node, in this order, moving only those that stand elsewhere. */
export function setChildren(node, children) {
  const wanted = new Set(children);
  for (const child of [...node.childNodes]) if (!wanted.has(child)) child.remove();
  let place = node.firstChild;
  for (const child of children) {
    if (child === place) place = place.nextSibling;
    else if (child.parentNode === node && node.moveBefore) node.moveBefore(child, place); // keeps the focus
    else node.insertBefore(child, place);
  }
}

/** Nodes by key, made when a key comes, dropped when it goes. */
export class Keyed {
  constructor(node, make) {
    this.node = node;
    this.make = make;
    this.parts = new Map();
  }

  /** `items` are [key, data]; `make(key)` gives {node, show(data)}. */
  show(items) {
    const before = this.parts;
    this.parts = new Map();
    for (const [key, data] of items) {
      const part = before.get(key) ?? this.make(key);
      this.parts.set(key, part);
      part.show(data);
    }
    setChildren(this.node, [...this.parts.values()].map((part) => part.node));
  }
}
