// One session on the board.
import { ofSession } from "./address.js";
import { Bar } from "./bar.js";
import { span } from "./clock.js";
import { element, setAttribute, setClass, setHidden, setText } from "./element.js";
import { leftOpen, tagOf, whyOf } from "./entry.js";
import { Glyph } from "./glyph.js";
import { setForeign } from "./text.js";

const SIGNS = 300; // of foreign text in a cell

export class BoardRow {
  #glyph = new Glyph();
  #bar = new Bar();
  #link = element("a", { class: "name" });
  #name = element("bdi");
  #tag = element("bdi", { class: "tag" });
  #mark = element("span", { class: "doubt", hidden: true }, "stale");
  #state = element("b");
  #why = element("span", { class: "why" });
  #now = element("bdi");
  #count = element("span", { class: "count" });
  #working = element("span", { class: "age working", role: "cell" });
  #event = element("span", { class: "age event", role: "cell" });
  #item = null;

  constructor(session, clock) {
    this.clock = clock;
    this.#link.href = ofSession(session);
    this.#link.tabIndex = -1;
    this.#link.append(this.#name);
    this.node = element(
      "div",
      { class: "row", role: "row" },
      element("span", { class: "who", role: "cell" }, this.#glyph.node, this.#link, this.#tag, this.#mark),
      element("span", { class: "state", role: "cell" }, this.#state, this.#why),
      element("span", { class: "now", role: "cell" }, this.#now),
      element("span", { class: "progress", role: "cell" }, this.#bar.node, this.#count),
      this.#working,
      this.#event,
    );
  }

  get link() {
    return this.#link;
  }

  show(item, index) {
    setAttribute(this.node, "aria-rowindex", index + 2);
    if (item === this.#item?.item && item.entry === this.#item.entry && item.depth === this.#item.depth) return this.tick();
    this.#item = { item, entry: item.entry, depth: item.depth };
    const { entry, name, depth } = item;
    const { board, state, stale } = entry;
    const { done = 0, total = null, current = null } = board ?? {};
    setClass(this.node, `row ${state}${leftOpen(board) && state !== "stuck" ? " ended" : ""}`);
    setAttribute(this.node, "data-depth", Math.min(depth, 4));
    this.#glyph.show(state, total ? done / total : 0);
    setForeign(this.#name, name, SIGNS);
    setForeign(this.#tag, tagOf(entry), SIGNS);
    const marks = Object.entries(stale);
    setHidden(this.#mark, marks.length === 0);
    setAttribute(this.#mark, "title", marks.map(([key, mark]) => `${key}: ${mark.reason}`).join("\n") || null);
    setText(this.#state, state);
    setForeign(this.#now, current ?? "", SIGNS);
    this.#bar.show(done, current ? 1 : 0, total);
    setText(this.#count, total === null ? "–" : `${done}/${total}`);
    this.tick();
  }

  /** Time has passed. */
  tick() {
    const { entry } = this.#item;
    const now = this.clock.now();
    const open = leftOpen(entry.board);
    const why = whyOf(entry, now);
    setText(this.#why, open && entry.state !== "stuck" ? `turn ended, ${open} open` : why);
    setAttribute(this.#why, "title", open ? `${why}; turn ended, ${open} open` : null);
    const since = entry.board?.since;
    setText(this.#working, since == null ? "" : span(now - since));
    setText(this.#event, entry.lastEvent == null ? "" : span(now - entry.lastEvent));
  }
}
