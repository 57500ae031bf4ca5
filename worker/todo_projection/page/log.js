// The events known of one session's log: contiguous from some place up to its end.

const KEPT_MAX = 2000; // of a stream that runs for days; older ones can be asked for again
const STATUSES = new Set(["pending", "in_progress", "completed"]);

/** The list of a sound write, null of a new turn, undefined of an event that leaves the list as it is. */
function listOf(event) {
  if (event.type === "turn/start") return null;
  if (event.type !== "todo/write") return undefined;
  const todos = event.data?.todos;
  const sound = Array.isArray(todos) && todos.every((todo) => typeof todo?.content === "string" && STATUSES.has(todo.status));
  return sound ? todos : undefined;
}

export class Log {
  epoch = null;
  events = []; // the oldest first
  hasMore = false;

  clear(epoch = null) {
    Object.assign(this, { epoch, events: [], hasMore: false });
  }

  get first() {
    return this.events[0]?.seq ?? 0;
  }

  get last() {
    return this.events.at(-1)?.seq ?? -1;
  }

  /** A page that ends where the log was read up to, or older ones: what joins what is known. */
  join({ events, hasMore }) {
    if (!events.length) return;
    if (!this.events.length) {
      Object.assign(this, { events: [...events], hasMore });
    } else if (events.at(-1).seq >= this.first - 1) {
      const older = events.filter((event) => event.seq < this.first);
      const newer = events.filter((event) => event.seq > this.last);
      if (events[0].seq < this.first) this.hasMore = hasMore;
      this.events = [...older, ...this.events, ...newer];
    }
  }

  put(event) {
    if (event.seq <= this.last) return; // known from a page
    if (this.events.length && event.seq > this.last + 1) Object.assign(this, { events: [], hasMore: true }); // what is between is not known
    if (!this.events.length) this.hasMore = event.seq > 0;
    this.events.push(event);
    if (this.events.length > KEPT_MAX) {
      this.events.splice(0, KEPT_MAX / 4);
      this.hasMore = true;
    }
  }

  find(seq) {
    return this.events[seq - this.first]?.seq === seq ? this.events[seq - this.first] : this.events.find((event) => event.seq === seq);
  }

  /** The list before this event; undefined when that is further back than what is known. */
  listBefore(seq) {
    for (const event of this.#back(seq)) {
      const list = listOf(event);
      if (list !== undefined) return list;
    }
    return this.hasMore ? undefined : null;
  }

  /** Since when each item in progress at `seq` has been so: {time, atLeast} by its text. */
  startedAt(todos, seq) {
    const open = new Map(todos.filter((todo) => todo.status === "in_progress").map((todo) => [todo.content, { time: null, atLeast: true }]));
    const left = new Set(open.keys());
    for (const event of this.#back(seq + 1)) {
      if (!left.size) break;
      const list = listOf(event);
      if (list === undefined) continue;
      const working = new Set((list ?? []).filter((todo) => todo.status === "in_progress").map((todo) => todo.content));
      for (const content of left) {
        if (working.has(content)) open.get(content).time = event.time;
        else {
          open.get(content).atLeast = false;
          left.delete(content);
        }
      }
    }
    if (!this.hasMore) for (const content of left) open.get(content).atLeast = false;
    return open;
  }

  *#back(seq) {
    for (let at = this.events.length - 1; at >= 0; at -= 1) if (this.events[at].seq < seq) yield this.events[at];
  }
}
