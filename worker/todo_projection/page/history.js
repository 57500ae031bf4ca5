// The history of a session: a slider over its log, and ways to a time.
import { go, ofSession } from "./address.js";
import { span, timeOfDay } from "./clock.js";
import { element, setAttribute, setHidden, setText } from "./element.js";
import { ask, sessionPath } from "./gateway.js";

const AGO = [
  [300_000, "5 min ago"],
  [3_600_000, "1 h ago"],
  [86_400_000, "1 day ago"],
];
const SETTLE_MS = 120;

export class History {
  #slider = element("input", { type: "range", min: 0, step: 1, "aria-label": "Place in the log" });
  #where = element("output", { class: "where" });
  #problem = element("p", { class: "problem", role: "alert", hidden: true });
  #settling = 0;
  #dragged = null; // a place that is not there yet

  constructor(session, clock) {
    Object.assign(this, { session, clock });
    const ago = AGO.map(([ms, name]) => {
      const button = element("button", { type: "button", class: "button" }, name);
      button.addEventListener("click", () => this.#goBack(ms));
      return button;
    });
    this.node = element("section", { class: "card history", "aria-label": "History" }, element("h2", {}, "History"), this.#slider, this.#where, element("div", { class: "ways" }, ...ago), this.#problem);
    this.#slider.addEventListener("input", () => this.#drag());
    this.#slider.addEventListener("change", () => this.#drag());
  }

  /** `at` null is live; `last` is the newest seq there is, `time` of the event at `at`. */
  show({ at, last, time }) {
    const max = Math.max(0, last);
    setAttribute(this.#slider, "max", max);
    this.#slider.disabled = last < 1;
    if (this.#dragged !== null && this.#dragged === (at ?? max)) this.#dragged = null;
    if (this.#dragged === null && Number(this.#slider.value) !== (at ?? max)) this.#slider.value = at ?? max;
    if (this.#dragged !== null) return;
    const when = time ? ` · ${timeOfDay(time, this.clock.now())} · ${span(this.clock.now() - time)} ago` : "";
    setText(this.#where, last < 0 ? "no event yet" : at === null ? `live · event ${last}${when}` : `event ${at} of ${last}${when}`);
    setAttribute(this.#slider, "aria-valuetext", this.#where.textContent);
  }

  /** One write back or on, among the seqs of writes that are known. */
  step(by, writes, at) {
    const to = by < 0 ? writes.findLast((seq) => seq < (at ?? Infinity)) : writes.find((seq) => seq > (at ?? Infinity));
    if (to !== undefined) go(ofSession(this.session, to));
    else if (by > 0) go(ofSession(this.session));
  }

  close() {
    clearTimeout(this.#settling);
  }

  #drag() {
    const place = Number(this.#slider.value);
    this.#dragged = place;
    setText(this.#where, `event ${place} of ${this.#slider.max}`);
    setHidden(this.#problem, true);
    clearTimeout(this.#settling);
    this.#settling = setTimeout(() => {
      const end = place >= Number(this.#slider.max);
      if (end) this.#dragged = null;
      go(ofSession(this.session, end ? null : place), { replace: location.hash.includes("?at=") });
    }, SETTLE_MS);
  }

  async #goBack(ms) {
    const time = Math.round(this.clock.now() - ms);
    setHidden(this.#problem, true);
    try {
      const page = await ask(sessionPath(this.session), { atTime: time, limit: 1 });
      go(ofSession(this.session, page.projections.asOfSeq));
    } catch (error) {
      const begins = parseInt(error.problem?.allowed, 10);
      setText(this.#problem, begins ? `Nothing was written yet: the log begins at ${timeOfDay(begins, this.clock.now())}, ${span(this.clock.now() - begins)} ago.` : `The gateway can't say: ${error.message}.`);
      setHidden(this.#problem, false);
    }
  }
}
