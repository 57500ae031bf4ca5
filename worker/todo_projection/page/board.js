// The board: every session, those that need somebody first.
import { go, ofBoard, ofSession } from "./address.js";
import { BoardRow } from "./board_row.js";
import { element, setAttribute, setHidden, setText } from "./element.js";
import { meaning, STATES } from "./entry.js";
import { Order } from "./order.js";
import { Rows } from "./rows.js";
import { Tabs } from "./tabs.js";

const COLUMNS = [
  ["who", "Session"],
  ["state", "State"],
  ["now", "Now"],
  ["progress", "Progress"],
  ["age working", "On it for"],
  ["age event", "Last event"],
];
const SORTS = { attention: "Needs attention first", recent: "Last event first", longest: "Longest on one item first", name: "By name" };
const TYPING_MS = 150;

export class Board {
  #order = new Order();
  #coming = null; // rows of a connection that has not told all of them yet
  #counts = null;
  #filter = { state: "", text: "", sort: "" };
  #followed = "";
  #drawing = false;
  #typing = 0;
  #chosen = null;

  constructor({ clock, connection, about, title }) {
    Object.assign(this, { clock, connection, about, title });
    this.tabs = new Tabs((state) => go(ofBoard({ ...this.#filter, state })));
    this.search = element("input", { type: "search", placeholder: "Search", "aria-label": "Search sessions", "aria-keyshortcuts": "/", maxlength: 200, spellcheck: false, autocomplete: "off" });
    this.sort = element("select", { "aria-label": "Order" }, ...Object.entries(SORTS).map(([value, name]) => element("option", { value }, name)));
    this.note = element("p", { class: "note", hidden: true });
    this.list = element("div", { class: "rows", role: "rowgroup" });
    const head = element("div", { class: "row head", role: "row", "aria-rowindex": 1 }, ...COLUMNS.map(([names, name]) => element("span", { class: names, role: "columnheader" }, name)));
    this.table = element("div", { class: "table", role: "table", "aria-label": "Sessions" }, element("div", { class: "heads", role: "rowgroup" }, head), this.list);
    this.empty = element("div", { class: "empty", hidden: true });
    this.scroller = element("div", { class: "scroller" }, this.table, this.empty);
    this.node = element("section", { class: "board", "aria-label": "Board" }, element("div", { class: "tools" }, this.tabs.node, element("div", { class: "find" }, this.search, this.sort)), this.note, this.scroller);
    this.rows = new Rows({ scroller: this.scroller, node: this.list, keyOf: (item) => item.session, make: (session) => new BoardRow(session, clock) });
    this.search.addEventListener("input", () => this.#type());
    this.sort.addEventListener("change", () => go(ofBoard({ ...this.#filter, sort: this.sort.value === "attention" ? "" : this.sort.value })));
    this.list.addEventListener("focusin", (event) => this.#choose(event.target.closest("[data-key]")?.dataset.key ?? null));
  }

  /** The address asks for this. */
  show({ state, text, sort }) {
    this.#filter = { state: STATES.includes(state) ? state : "", text, sort: sort in SORTS ? sort : "" };
    if (this.search.value.trim() !== text.trim()) this.search.value = text;
    this.sort.value = this.#filter.sort || "attention";
    this.#order.ask(this.#filter);
    this.#follow();
    this.#draw();
  }

  close() {
    clearTimeout(this.#typing);
  }

  tick() {
    this.rows.draw();
  }

  /** Move the choice by so many rows, or to an end. */
  move(by) {
    const items = this.rows.items;
    if (items.length === 0) return;
    const at = this.#chosen === null ? -1 : this.rows.placeOf(this.#chosen);
    const to = Math.max(0, Math.min(items.length - 1, at < 0 ? (by > 0 ? by - 1 : 0) : at + by));
    this.#focus(items[to].session, to);
  }

  enter() {
    if (this.#chosen !== null && this.rows.placeOf(this.#chosen) >= 0) go(ofSession(this.#chosen));
  }

  /** Esc: one thing less that stands in the way. */
  leave() {
    if (document.activeElement === this.search && !this.search.value) this.search.blur();
    else if (this.#filter.text || this.#filter.state) go(ofBoard({ sort: this.#filter.sort }));
    else document.activeElement?.blur();
  }

  find() {
    this.search.focus();
    this.search.select();
  }

  /** Where it stood when it was left. */
  restore({ session = null, top = 0 } = {}) {
    this.remembered = { session, top };
  }

  memory() {
    return { session: this.#chosen, top: this.scroller.scrollTop };
  }

  #focus(session, index) {
    this.#choose(session);
    this.rows.reveal(index);
    this.rows.nodeOf(session)?.querySelector("a").focus({ preventScroll: true });
  }

  #choose(session) {
    for (const link of this.list.querySelectorAll('a[tabindex="0"]')) link.tabIndex = -1;
    this.#chosen = session;
    const link = session === null ? null : this.rows.nodeOf(session)?.querySelector("a");
    if (link) link.tabIndex = 0;
  }

  #type() {
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => go(ofBoard({ ...this.#filter, text: this.search.value.trim() }), { replace: true }), TYPING_MS);
  }

  /** While all sessions fit into one window this page finds in them by itself; of more, the gateway does. */
  #asked() {
    const { state, text, sort } = this.#filter;
    const limit = this.about.rowsMax;
    if (this.#total() <= limit) return { board: 1, limit };
    return { board: 1, limit, state, text, sort: sort === "longest" ? sort : "" };
  }

  #follow() {
    const asked = this.#asked();
    if (JSON.stringify(asked) === this.#followed) return;
    this.#followed = JSON.stringify(asked);
    this.connection.follow(() => asked, {
      open: () => {
        this.#coming = new Map();
      },
      row: (entry) => this.#take(entry),
      gone: ({ sessionId }) => {
        this.#coming?.delete(sessionId);
        this.#order.drop(sessionId);
        this.#soon();
      },
      counts: (counts) => this.#count(counts),
    });
  }

  #take(entry) {
    this.#coming?.set(entry.sessionId, entry);
    this.#order.put(entry);
    this.#soon();
  }

  /** Counts end the first rows of a connection: what is not among those is gone. */
  #count(counts) {
    if (this.#coming !== null) {
      for (const session of this.#order.sessions()) if (!this.#coming.has(session)) this.#order.drop(session);
      this.#coming = null;
    }
    this.#counts = counts;
    this.#follow();
    this.#soon();
  }

  #total() {
    return this.#counts === null ? 0 : Object.values(this.#counts).reduce((sum, count) => sum + count, 0);
  }

  /** With the next frame; a tab that nobody sees has none. */
  #soon() {
    if (this.#drawing) return;
    this.#drawing = true;
    requestAnimationFrame(() => {
      this.#drawing = false;
      this.#draw();
    });
  }

  #draw() {
    if (!this.node.isConnected) return;
    const items = this.#order.list();
    this.rows.show(items);
    if (this.remembered && items.length) {
      this.#recall();
    }
    setAttribute(this.table, "aria-rowcount", items.length + 1);
    this.tabs.show({ counts: this.#counts, total: this.#total(), chosen: this.#filter.state, about: this.about });
    this.#tellEmpty(items.length);
    const total = this.#total();
    setHidden(this.note, total <= this.about.rowsMax);
    setText(this.note, `The first ${this.about.rowsMax.toLocaleString("en")} of ${total.toLocaleString("en")} sessions; search and filters look through all of them.`);
    const stuck = this.#counts?.stuck ?? 0;
    this.title(stuck ? `${stuck} stuck · Plans` : "Plans");
  }

  #recall() {
    const { session, top } = this.remembered;
    this.remembered = null;
    this.scroller.scrollTop = top;
    const index = session === null ? -1 : this.rows.placeOf(session);
    if (index >= 0) this.#focus(session, index);
  }

  #tellEmpty(shown) {
    setHidden(this.empty, shown > 0 || this.#counts === null);
    setHidden(this.table, !this.empty.hidden);
    const { state, text } = this.#filter;
    const kind = this.#total() === 0 && !text ? "none" : `${state} ${text}`;
    if (this.empty.hidden || this.empty.dataset.kind === kind) return;
    this.empty.dataset.kind = kind;
    this.empty.replaceChildren(...(kind === "none" ? first() : this.#nothingFits(state, text)));
  }

  #nothingFits(state, text) {
    const asked = [state && `is ${state} (${meaning(state, this.about)})`, text && `has “${text}” in its id, title, label or current item`];
    return [
      element("h2", {}, state && !text ? `Nothing is ${state}` : "Nothing fits"),
      element("p", {}, "No session ", element("bdi", {}, asked.filter(Boolean).join(" and ")), "."),
      element("p", {}, element("a", { class: "button", href: ofBoard({ sort: this.#filter.sort }) }, "Show all sessions")),
    ];
  }
}

function first() {
  const command = `echo '{"todos": [{"content": "Try it", "status": "in_progress"}]}' | todo-write call my-session --parallel`;
  return [
    element("h2", {}, "No session yet"),
    element("p", {}, "A session stands here as soon as its agent has written its plan, or any other event, and a worker has projected it. From a shell:"),
    element("pre", {}, element("code", {}, command)),
    element("p", {}, "A dozen agents that make their plans up: ", element("code", {}, "todo-write demo"), ". The worker that shows them: ", element("code", {}, "todo-projection worker"), "."),
  ];
}
