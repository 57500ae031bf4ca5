// One session: its plan now or at any place of its history, its events, its family.
import { go, ofBoard, ofSession } from "./address.js";
import { changeOf } from "./change.js";
import { element, setHidden } from "./element.js";
import { leftOpen } from "./entry.js";
import { Events } from "./events.js";
import { Family } from "./family.js";
import { ask, sessionPath } from "./gateway.js";
import { Heading } from "./heading.js";
import { History } from "./history.js";
import { Log } from "./log.js";
import { Past } from "./past.js";
import { countsOf, Plan } from "./plan.js";

const PAGE = 60;
const PLAN = "todos";

export class Session {
  #log = new Log();
  #held = null; // the baseline, with what frames have changed of it since
  #deleted = false;
  #entries = new Map(); // of the session, its parent and its children
  #coming = null; // rows of a connection that has not told all of them yet
  #before = null; // {seq, list}: the list before the last write, where the log known does not go back that far
  #last = ""; // position of the last event seen
  #past = null;
  #drawing = false;
  #closed = false;

  constructor(session, { clock, connection, about, title, announce }) {
    Object.assign(this, { session, clock, connection, about, title, announce });
    this.heading = new Heading(session);
    this.plan = new Plan();
    this.history = new History(session, clock);
    this.family = new Family(session);
    this.events = new Events(session, () => this.#older());
    this.node = element("section", { class: "session", "aria-label": "Session" }, this.heading.node, element("div", { class: "columns" }, element("div", { class: "main" }, this.plan.node), element("div", { class: "side" }, this.history.node, this.family.node, this.events.node)));
    for (const card of [this.history.node, this.events.node]) setHidden(card, !about.events);
    this.#follow();
  }

  /** The address asks for this place, or for now. */
  show({ at }) {
    this.#past?.close();
    this.#past = at === null ? null : new Past(this.session, at, () => this.#draw());
    this.#draw();
  }

  close() {
    this.#closed = true;
    this.#past?.close();
    this.history.close();
  }

  tick() {
    this.#draw();
  }

  /** Esc: from the past to now, from now to the board. */
  leave() {
    go(this.#past ? ofSession(this.session) : ofBoard({}));
  }

  /** To the write before or after. */
  step(by) {
    const log = this.#past?.log.events.length && by < 0 ? this.#past.log : this.#log;
    this.history.step(by, log.events.filter((event) => event.type === "todo/write").map((event) => event.seq), this.#past?.at ?? null);
  }

  #follow() {
    const events = this.about.events ? { events: 1 } : {}; // what a token allows
    const query = () => ({ session: this.session, family: 1, ...events, after: this.#last });
    const mine = (handle) => (...given) => {
      if (this.#closed) return;
      handle(...given);
      this.#soon();
    };
    const handlers = {
      open: () => {
        this.#coming = new Map();
      },
      snapshot: (baseline) => this.#replace(baseline),
      projection: (frame) => this.#apply(frame),
      deleted: () => this.#delete(),
      event: ({ event }, id) => this.#put(event, id),
      rewound: ({ tail }) => this.#rewind(tail),
      row: (entry) => {
        this.#entries.set(entry.sessionId, entry);
        this.#coming?.set(entry.sessionId, entry);
      },
      gone: ({ sessionId }) => this.#entries.delete(sessionId),
      counts: () => {
        this.#entries = this.#coming ?? this.#entries; // all rows of this connection are there
        this.#coming = null;
      },
    };
    this.connection.follow(query, Object.fromEntries(Object.entries(handlers).map(([name, handle]) => [name, mine(handle)])));
  }

  #replace(baseline) {
    this.#held = baseline;
    this.#deleted = this.#deleted && baseline.epoch === null;
    if (baseline.epoch !== this.#log.epoch) {
      this.#log.clear(baseline.epoch);
      this.#load();
    }
  }

  #apply(frame) {
    if (this.#held === null) return; // a snapshot comes first
    const { key, value, seq, epoch, stale } = frame;
    const held = epoch === this.#held.epoch ? this.#held : { values: {}, at: {}, stale: {} };
    const marks = { ...held.stale };
    delete marks[key];
    if (stale) marks[key] = stale;
    this.#held = { ...held, epoch, asOfSeq: Math.max(seq, held.asOfSeq ?? -1), values: { ...held.values, [key]: value }, at: { ...held.at, [key]: seq }, stale: marks };
    if (epoch !== this.#log.epoch) {
      this.#log.clear(epoch);
      this.#load();
    }
    this.#deleted = false;
  }

  #delete() {
    this.#deleted = true;
    this.#held = { values: {}, at: {}, stale: {}, epoch: null, asOfSeq: -1 };
    this.#log.clear();
    this.#last = "";
  }

  #put(event, id) {
    this.#last = id;
    const epoch = Number(id.split("-")[0]);
    if (epoch !== this.#log.epoch) this.#log.clear(epoch);
    this.#log.put(event);
  }

  #rewind(tail) {
    this.#last = tail ?? "";
    this.#log.clear(tail ? Number(tail.split("-")[0]) : null);
    this.#load();
  }

  /** The newest page of the log: events only, the plan comes by the stream and by nothing else. */
  async #load() {
    const epoch = this.#log.epoch;
    if (epoch === null || !this.about.events) return;
    try {
      const page = await ask(sessionPath(this.session), { limit: PAGE });
      if (this.#closed || epoch !== this.#log.epoch || page.projections?.epoch !== epoch) return;
      this.#log.join(page);
      this.#soon();
    } catch {
      if (!this.#closed) setTimeout(() => !this.#closed && epoch === this.#log.epoch && this.#load(), 2000);
    }
  }

  async #older() {
    const log = this.#past?.log ?? this.#log;
    if (log.hasMore) {
      const page = await ask(sessionPath(this.session), { beforeSeq: log.first, limit: PAGE }).catch(() => null);
      if (page && !this.#closed) log.join(page);
    }
    this.#draw();
  }

  #soon() {
    if (this.#drawing) return;
    this.#drawing = true;
    requestAnimationFrame(() => {
      this.#drawing = false;
      this.#draw();
    });
  }

  #draw() {
    if (this.#closed) return;
    const past = this.#past;
    const now = past ? past.time : this.clock.now();
    const log = past ? past.log : this.#log;
    const held = past ? past.held : this.#held;
    const entry = this.#entries.get(this.session) ?? null;
    const board = past ? (held?.values.board ?? null) : (entry?.board ?? held?.values.board ?? null);
    const last = Math.max(this.#log.last, this.#held?.asOfSeq ?? -1);
    const plan = this.#planOf({ held, log, board, now, past });
    this.heading.show({ entry, board, past: past && { at: past.at, time: past.time, problem: past.problem }, now: this.clock.now() });
    this.plan.show(plan);
    this.history.show({ at: past?.at ?? null, last, time: (past ? past.log : this.#log).find(past?.at ?? last)?.time });
    this.family.show({ entries: this.#entries, parent: board?.parent ?? null, now: this.clock.now() });
    this.events.show({ log, now: this.clock.now(), at: past?.at ?? null });
    this.#tell(plan, board);
  }

  #planOf({ held, log, board, now, past }) {
    const todos = held?.values[PLAN];
    const seq = held?.at?.[PLAN];
    const plan = { kind: kindOf(held, todos, board, this.#deleted && !past), todos: todos ?? [], stale: held?.stale[PLAN] ?? null, now, past: Boolean(past), open: 0, change: null };
    if (plan.kind !== "list" && plan.kind !== "empty") return plan;
    const counts = countsOf(plan.todos);
    plan.open = board ? leftOpen({ ...board, done: counts.completed, total: plan.todos.length }) : 0;
    plan.started = this.#startedOf(plan.todos, seq, log, board);
    plan.wrote = log.find(seq) ?? null;
    const before = this.#listBefore(seq, log, past);
    if (before !== undefined && plan.wrote) plan.change = changeOf(before, plan.todos);
    return plan;
  }

  #startedOf(todos, seq, log, board) {
    const started = log.startedAt(todos, seq);
    const current = started.get(board?.current);
    if (current && board.since !== null) Object.assign(current, { time: board.since, atLeast: false });
    return started;
  }

  /** From the events known; else asked for, once for each write. */
  #listBefore(seq, log, past) {
    const list = log.find(seq) ? log.listBefore(seq) : undefined;
    if (list !== undefined || seq === undefined) return list;
    const key = `${log.epoch}-${seq}`;
    if (this.#before?.key === key) return this.#before.list;
    if (!past && !log.events.length) return undefined; // still on its way
    this.#before = { key, list: undefined };
    if (seq === 0) return (this.#before.list = null);
    ask(sessionPath(this.session), { atSeq: seq - 1, limit: 1 })
      .then((page) => {
        if (this.#before.key !== key) return;
        this.#before.list = page.projections.values[PLAN] ?? null;
        this.#soon();
      })
      .catch(() => setTimeout(() => this.#before?.key === key && (this.#before = null), 2000)); // until then nothing is said of it
    return undefined;
  }

  #tell({ kind, todos }, board) {
    const name = board?.title || board?.label || this.session;
    const { completed, in_progress } = countsOf(todos);
    const current = todos.find((todo) => todo.status === "in_progress");
    this.title(kind === "list" ? `${completed}/${todos.length} ${name}` : name);
    if (kind === "loading" || this.#past) return;
    const more = in_progress > 1 ? ` and ${in_progress - 1} more` : "";
    this.announce(kind === "list" ? `${completed} of ${todos.length} done${current ? `, now: ${current.content}${more}` : ""}` : kind === "empty" ? "the plan is empty" : `no plan`);
  }
}

function kindOf(held, todos, board, deleted) {
  if (held === null) return "loading";
  if (deleted) return "deleted";
  if (held.epoch === null) return "unknown";
  if (todos === undefined) return "absent";
  if (todos === null) return board?.turn == null ? "never" : "cleared";
  return todos.length ? "list" : "empty";
}
