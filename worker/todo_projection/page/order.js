// Which sessions a board shows and in which order: found, sorted, children under their parents.
import { haystack, nameOf, ORDERS } from "./entry.js";

const names = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

export class Order {
  #known = new Map(); // by session: the entry, and what is worked out from it once
  #sorted = [];
  #filter = {};
  #rank = ORDERS.attention;

  ask(filter) {
    this.#filter = { ...filter, text: filter.text.trim().toLowerCase() };
    this.#rank = ORDERS[filter.sort] ?? ORDERS.attention;
    for (const one of this.#known.values()) one.rank = this.#rank(one.entry);
  }

  put(entry) {
    const before = this.#known.get(entry.sessionId);
    const one = before ?? { session: entry.sessionId };
    if (!before) this.#sorted.push(one);
    Object.assign(one, { entry, name: nameOf(entry), hay: haystack(entry), rank: this.#rank(entry), depth: 0, gone: false });
    this.#known.set(entry.sessionId, one);
  }

  drop(session) {
    const one = this.#known.get(session);
    if (one) one.gone = true;
    this.#known.delete(session);
  }

  get(session) {
    return this.#known.get(session);
  }

  sessions() {
    return [...this.#known.keys()];
  }

  /** What is to be shown, the first on top: {session, entry, name, depth}. */
  list() {
    const shown = (this.#sorted = this.#sorted.filter((one) => !one.gone));
    const found = new Set(shown.filter((one) => this.#takes(one)));
    const children = new Map();
    for (const one of found) {
      one.depth = 0;
      one.best = one.rank;
      const parent = this.#parentOf(one, found);
      one.parent = parent;
      if (!parent) continue;
      if (children.has(parent)) children.get(parent).push(one);
      else children.set(parent, [one]);
    }
    for (const one of found) this.#lift(one);
    shown.sort(compare);
    const placed = [];
    for (const one of shown) if (found.has(one) && !one.parent) place(one, 0, children, placed);
    return placed;
  }

  #takes({ entry, hay }) {
    const { state, text } = this.#filter;
    return (!state || entry.state === state) && (!text || hay.includes(text));
  }

  /** The parent, if it is shown too; of sessions that are each other's ancestors the one that is come upon is a root. */
  #parentOf(one, found) {
    const parent = this.#known.get(one.entry.board?.parent);
    if (!parent || !found.has(parent)) return null;
    for (let above = parent, steps = 0; above; above = this.#known.get(above.entry.board?.parent), steps += 1) {
      if (above === one || steps > 32) return null;
    }
    return parent;
  }

  /** A child that needs somebody takes its parent up with it. */
  #lift(one) {
    for (let above = one.parent; above && before(one.rank, above.best); above = above.parent) above.best = one.rank;
  }
}

function place(one, depth, children, placed) {
  one.depth = depth;
  placed.push(one);
  for (const child of (children.get(one) ?? []).sort(compare)) place(child, depth + 1, children, placed);
}

function before([first, second], [otherFirst, otherSecond]) {
  return first < otherFirst || (first === otherFirst && second < otherSecond);
}

function compare(one, other) {
  const [rank, otherRank] = [one.best ?? one.rank, other.best ?? other.rank];
  return rank[0] - otherRank[0] || rank[1] - otherRank[1] || names.compare(one.name, other.name) || (one.session < other.session ? -1 : 1);
}
