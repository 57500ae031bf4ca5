// A window over very many rows: those in sight are elements, the others are a height.
import { setChildren } from "./element.js";

const BEYOND = 8; // rows drawn above and below what is in sight

export class Rows {
  #parts = new Map(); // by key: what `make` made
  #items = [];
  #places = new Map(); // by key: where it stands
  #height = 40;
  #waiting = false;

  /** `scroller` scrolls, `node` is as high as all rows; `make(key)` gives {node, show(item, index)}; `keyOf(item)`. */
  constructor({ scroller, node, make, keyOf }) {
    Object.assign(this, { scroller, node, make, keyOf });
    scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.#measure()).observe(scroller);
  }

  get items() {
    return this.#items;
  }

  placeOf(key) {
    return this.#places.get(key) ?? -1;
  }

  /** Show these; what is in sight stays where it is when rows come, go or move above it. */
  show(items) {
    const moved = this.#moved(items);
    this.#items = items;
    this.#places = new Map(items.map((item, index) => [this.keyOf(item), index]));
    this.node.style.height = `${items.length * this.#height}px`;
    if (moved && this.scroller.scrollTop > 0) this.scroller.scrollTop += moved * this.#height;
    this.#draw();
  }

  /** Draw what is in sight with the next frame. */
  draw() {
    if (this.#waiting) return;
    this.#waiting = true;
    requestAnimationFrame(() => {
      this.#waiting = false;
      this.#draw();
    });
  }

  /** Bring a row into sight. */
  reveal(index) {
    const top = index * this.#height;
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop) this.scroller.scrollTop = top;
    else if (top + this.#height > scrollTop + clientHeight) this.scroller.scrollTop = top + this.#height - clientHeight;
    this.#draw();
  }

  /** The element of a row, if it is drawn. */
  nodeOf(key) {
    return this.#parts.get(key)?.node;
  }

  #measure() {
    this.#height = parseFloat(getComputedStyle(this.node).getPropertyValue("--row")) || 40;
    this.node.style.height = `${this.#items.length * this.#height}px`;
    this.#draw();
  }

  #sight() {
    const first = Math.floor(this.scroller.scrollTop / this.#height);
    return [first, Math.min(this.#items.length, first + Math.ceil(this.scroller.clientHeight / this.#height) + 1)];
  }

  /** By how many places the rows in sight have moved: as far as most of them did, so that one that leaves takes nobody along. */
  #moved(items) {
    if (this.scroller.scrollTop <= 0) return 0;
    const [first, end] = this.#sight();
    const before = new Map();
    for (let index = first; index < end; index += 1) before.set(this.keyOf(this.#items[index]), index);
    const steps = [];
    items.forEach((item, index) => {
      const was = before.get(this.keyOf(item));
      if (was !== undefined) steps.push(index - was);
    });
    steps.sort((one, other) => one - other);
    return steps[steps.length >> 1] ?? 0;
  }

  #draw() {
    const [first, end] = this.#sight();
    const wanted = new Map();
    for (let index = Math.max(0, first - BEYOND); index < Math.min(this.#items.length, end + BEYOND); index += 1) {
      wanted.set(this.keyOf(this.#items[index]), index);
    }
    const focused = document.activeElement?.closest("[data-key]")?.dataset.key;
    if (focused !== undefined && this.#places.has(focused) && this.#parts.has(focused)) wanted.set(focused, this.#places.get(focused));
    for (const [key, part] of this.#parts) {
      if (wanted.has(key)) continue;
      this.#parts.delete(key);
    }
    const drawn = [...wanted].sort(([, one], [, other]) => one - other);
    setChildren(this.node, drawn.map(([key, index]) => this.#drawRow(key, index)));
  }

  #drawRow(key, index) {
    let part = this.#parts.get(key);
    if (!part) {
      part = this.make(key);
      part.node.dataset.key = key;
      this.#parts.set(key, part);
    }
    const place = `translateY(${index * this.#height}px)`;
    if (part.node.style.transform !== place) part.node.style.transform = place;
    part.show(this.#items[index], index);
    return part.node;
  }
}
