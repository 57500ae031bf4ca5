// The one stream of the page: opened again whenever it ends, and left closed while nobody looks for long.
import { address, ask } from "./gateway.js";

const RETRY_MS = [500, 2000];
const RETRY_MS_MAX = 5000;
const UNSEEN_MS = 60_000; // browsers open six connections to a host: a tab that nobody sees gives its one back
const SLACK_MS = 5000;

export class Connection {
  #source = null;
  #query = null;
  #handlers = {};
  #timer = 0;
  #silence = 0;
  #unseen = 0;
  #failures = 0;
  #lost = 0;
  #told = null;

  /** `heard(time)` is told the server's time, `refused()` that the gateway wants a token, `tell({state, since})` the state. */
  constructor({ heard, refused, tell, now }) {
    Object.assign(this, { heard, refused, tell, now, heartbeatMs: 15_000 });
    document.addEventListener("visibilitychange", () => this.#seen());
    addEventListener("online", () => this.#retry());
  }

  /** Follow what `query()` asks for, and nothing else; handlers by the name of the event, `open` comes with each connection. */
  follow(query, handlers) {
    this.#query = query;
    this.#handlers = handlers;
    this.#lost = 0;
    this.#say("connecting", this.now());
    this.#open();
  }

  close() {
    this.#query = null;
    this.#drop();
  }

  #open() {
    this.#drop();
    if (this.#query === null) return;
    const source = (this.#source = new EventSource(address("stream", this.#query())));
    const heard = (handle) => (event) => {
      if (source !== this.#source) return; // what another one still had to say
      this.#listen();
      handle(event);
    };
    source.onopen = heard(() => {
      this.#failures = 0;
      this.#handlers.open?.();
    });
    source.onerror = () => source === this.#source && this.#fail(source);
    source.addEventListener("heartbeat", heard(({ data }) => this.heard(JSON.parse(data).time)));
    source.addEventListener("bye", heard(() => {}));
    source.addEventListener("status", heard(({ data }) => {
      const { state, since } = JSON.parse(data);
      this.#lost = 0;
      this.#say(state, since);
      this.#handlers.status?.(state);
    }));
    for (const [name, handle] of Object.entries(this.#handlers)) {
      if (name === "open" || name === "status") continue;
      source.addEventListener(name, heard(({ data, lastEventId }) => handle(JSON.parse(data), lastEventId)));
    }
    this.#listen();
  }

  #drop() {
    clearTimeout(this.#timer);
    clearTimeout(this.#silence);
    this.#source?.close();
    this.#source = null;
  }

  /** A connection that is dead without saying so has no heartbeat. */
  #listen() {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => {
      this.#lose();
      this.#open();
    }, 2 * this.heartbeatMs + SLACK_MS);
  }

  #fail(source) {
    this.#lose();
    if (source.readyState !== EventSource.CLOSED) return; // the browser connects again by itself
    this.#drop();
    this.#failures += 1;
    const [least, most] = RETRY_MS;
    const wait = Math.min(RETRY_MS_MAX, (least + Math.random() * (most - least)) * this.#failures);
    this.#timer = setTimeout(() => this.#probe(), wait);
  }

  /** An event source does not say why it was refused; a plain request does. */
  async #probe() {
    const asked = this.#query;
    try {
      await ask("about");
    } catch (error) {
      if (error.status === 401) return this.refused();
    }
    if (asked !== null && asked === this.#query && this.#source === null) this.#open();
  }

  #retry() {
    if (this.#query !== null && this.#told !== "live") this.#open();
  }

  #lose() {
    if (!this.#lost) this.#lost = this.now();
    this.#say("reconnecting", this.#lost);
  }

  #say(state, since) {
    this.#told = state;
    this.tell({ state, since });
  }

  #seen() {
    clearTimeout(this.#unseen);
    if (!document.hidden) {
      if (this.#query !== null && this.#source === null) this.#open();
    } else {
      this.#unseen = setTimeout(() => {
        if (this.#source === null) return;
        this.#lose();
        this.#drop();
      }, UNSEEN_MS);
    }
  }
}
