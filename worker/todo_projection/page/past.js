// A session at one place of its log, as it was then.
import { ask, sessionPath } from "./gateway.js";
import { Log } from "./log.js";

const PAGE = 60;

export class Past {
  log = new Log();
  held = null;
  problem = null;
  #closed = false;

  constructor(session, at, draw) {
    Object.assign(this, { session, at, draw });
    this.#load();
  }

  get time() {
    return this.log.events.at(-1)?.time ?? Date.now();
  }

  close() {
    this.#closed = true; // an answer that comes late is nobody's any more
  }

  async #load() {
    try {
      const page = await ask(sessionPath(this.session), { atSeq: this.at, limit: PAGE });
      if (this.#closed) return;
      this.log.clear(page.projections.epoch);
      this.log.join(page);
      this.held = page.projections;
    } catch (error) {
      if (this.#closed) return;
      this.problem = error.problem ? `${error.message}: ${error.problem.allowed ?? ""}` : "the gateway does not answer";
      if (!error.problem) setTimeout(() => !this.#closed && this.#load(), 2000);
    }
    this.draw();
  }
}
