// The plan of one session: a strip that says how far it is, and its items.
import { Bar } from "./bar.js";
import { changeWords } from "./change.js";
import { span, timeOfDay } from "./clock.js";
import { element, Keyed, setAttribute, setHidden, setText } from "./element.js";
import { Item, STATUS_WORDS } from "./item.js";
import { isolated } from "./text.js";

const OPEN = "plan";

/** What is said where no item can be shown: a title, and what it means. */
const NOTHING = {
  loading: ["Loading…", ""],
  unknown: ["Nothing is known of this session", "Nobody has written to it, or nothing of it is projected yet. It shows up here by itself."],
  deleted: ["This session was deleted", "Its log and its plan are gone."],
  absent: ["No plans are kept here", "No worker has the unit that keeps them."],
  cleared: ["No plan in this turn", "A new turn clears the plan; the agent has not written another one."],
  never: ["No plan yet", "The session has events, but its agent has not written a plan."],
  empty: ["The plan is empty", "The agent wrote a list without items."],
};

export class Plan {
  #bar = new Bar();
  #counts = element("span", { class: "counts" });
  #toggle = element("button", { type: "button", class: "strip", "aria-controls": "items" });
  #open = element("span", { class: "open", hidden: true });
  #stale = element("p", { class: "stale", hidden: true, role: "note" });
  #list = element("ol", { class: "items", id: "items" });
  #nothing = element("div", { class: "nothing", hidden: true });
  #last = element("p", { class: "last", hidden: true });
  #removed = element("ul", { class: "removed", hidden: true, "aria-label": "Removed by the last write" });
  #keyed = new Keyed(this.#list, (content) => new Item(content));

  constructor() {
    const chevron = element("i", { class: "chevron", "aria-hidden": "true" });
    this.#toggle.append(chevron, this.#counts, this.#bar.node);
    this.#toggle.addEventListener("click", () => this.#expand(this.#list.hidden));
    this.node = element("section", { class: "plan", "aria-label": "Plan" }, element("div", { class: "head" }, this.#toggle, this.#open), this.#stale, this.#list, this.#nothing, this.#last, this.#removed);
    this.#expand(sessionStorage.getItem(OPEN) !== "closed");
  }

  /** `plan` is {kind, todos, change, started, wrote, open, stale, now, past}. */
  show(plan) {
    const { kind, todos, stale, now } = plan;
    this.node.dataset.kind = kind;
    const list = kind === "list";
    setHidden(this.#toggle, !list);
    setHidden(this.#nothing, list);
    setHidden(this.#stale, !stale);
    if (stale) setText(this.#stale, `This may be wrong since ${timeOfDay(stale.since, now)}: event ${stale.seq} could not be applied (${stale.reason}). todo-projection explain tells more.`);
    if (!list) this.#tellNothing(kind);
    this.#showList(list ? todos : [], plan);
    this.#tellOpen(plan);
    this.#tellChange(plan);
  }

  #showList(todos, { change, started, now }) {
    const counts = countsOf(todos);
    setText(this.#counts, countWords(counts));
    this.#bar.show(counts.completed, counts.in_progress, todos.length);
    this.#keyed.show(todos.map((todo) => [todo.content, { status: todo.status, change: changeMark(change, todo.content), started: started?.get(todo.content), now }]));
  }

  #tellNothing(kind) {
    if (this.#nothing.dataset.kind === kind) return;
    this.#nothing.dataset.kind = kind;
    const [title, text] = NOTHING[kind];
    this.#nothing.replaceChildren(element("h2", {}, title), element("p", {}, text));
  }

  #tellOpen({ open }) {
    setHidden(this.#open, !open);
    setText(this.#open, open ? `turn ended, ${open} open` : "");
  }

  #tellChange({ kind, change, wrote, todos, now, past }) {
    const known = Boolean(change) && (kind === "list" || kind === "empty");
    setHidden(this.#last, !known);
    setHidden(this.#removed, !known || !change.removed.length);
    if (!known) return;
    const when = past ? `at ${timeOfDay(wrote.time, now)}` : `${span(now - wrote.time)} ago`;
    const words = `Last write ${when}: ${changeWords(change, todos)}`;
    setText(this.#last, words);
    const key = `${wrote.seq}/${change.removed.length}`;
    if (this.#removed.dataset.key === key) return;
    this.#removed.dataset.key = key;
    this.#removed.replaceChildren(...change.removed.map((todo) => element("li", {}, "removed ", element("s", {}, isolated(todo.content)))));
  }

  #expand(open) {
    setHidden(this.#list, !open);
    setAttribute(this.#toggle, "aria-expanded", String(open));
    sessionStorage.setItem(OPEN, open ? "open" : "closed");
  }
}

function changeMark(change, content) {
  if (!change || change.first) return null;
  if (change.added.has(content)) return "added";
  const turned = change.turned.get(content);
  if (turned) return `was ${STATUS_WORDS[turned[0]]}`;
  return change.moved.has(content) ? "moved" : null;
}

export function countsOf(todos) {
  const counts = { completed: 0, in_progress: 0, pending: 0 };
  for (const todo of todos) counts[todo.status] += 1;
  return counts;
}

/** Those that are not zero: `1 completed · 2 in progress · 1 pending`. */
export function countWords(counts) {
  return Object.entries(counts).filter(([, count]) => count).map(([status, count]) => `${count} ${STATUS_WORDS[status]}`).join(" · ");
}
