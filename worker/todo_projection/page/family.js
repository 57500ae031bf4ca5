// Parent and children of a session.
import { ofSession } from "./address.js";
import { element, Keyed, setAttribute, setHidden, setText } from "./element.js";
import { nameOf, tagOf, whyOf } from "./entry.js";
import { Glyph } from "./glyph.js";
import { setForeign } from "./text.js";

const SIGNS = 200;
const DRAWN_MAX = 100;

export class Family {
  #list = element("ul", { class: "family" });
  #more = element("p", { class: "none", hidden: true });
  #keyed = new Keyed(this.#list, (session) => new Relative(session));

  constructor(session) {
    this.session = session;
    this.node = element("section", { class: "card", "aria-label": "Parent and children", hidden: true }, element("h2", {}, "Parent and children"), this.#list, this.#more);
  }

  /** `entries` are those of the session, its parent and its children, by id; `parent` is an id or null. */
  show({ entries, parent, now }) {
    const children = [...entries.values()].filter((entry) => entry.board?.parent === this.session);
    children.sort((one, other) => (other.lastEvent ?? 0) - (one.lastEvent ?? 0));
    const shown = children.slice(0, DRAWN_MAX).map((entry) => [entry.sessionId, { entry, relation: "child", now }]);
    if (parent) shown.unshift([parent, { entry: entries.get(parent) ?? null, relation: "parent", now }]);
    this.#keyed.show(shown);
    setHidden(this.node, shown.length === 0);
    setHidden(this.#more, children.length <= DRAWN_MAX);
    setText(this.#more, `and ${children.length - DRAWN_MAX} more`);
  }
}

class Relative {
  #glyph = new Glyph();
  #relation = element("span", { class: "relation" });
  #name = element("bdi");
  #count = element("span", { class: "count" });
  #why = element("span", { class: "why" });
  #tag = element("bdi", { class: "tag" });

  constructor(session) {
    this.session = session;
    const link = element("a", { href: ofSession(session) }, this.#glyph.node, this.#name, this.#tag, this.#count, this.#relation, this.#why);
    this.node = element("li", {}, link);
  }

  show({ entry, relation, now }) {
    const { done = 0, total = null } = entry?.board ?? {};
    this.#glyph.show(entry?.state ?? "unknown", total ? done / total : 0);
    setAttribute(this.node, "data-relation", relation);
    setText(this.#relation, relation);
    setForeign(this.#name, entry ? nameOf(entry) : this.session, SIGNS);
    setForeign(this.#tag, entry ? tagOf(entry) : "", SIGNS);
    setText(this.#count, total === null ? "" : `${done}/${total}`);
    setText(this.#why, entry ? `${entry.state} · ${whyOf(entry, now)}` : "");
  }
}
