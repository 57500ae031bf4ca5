// The end of a session's log, the newest event on top.
import { ofSession } from "./address.js";
import { timeOfDay } from "./clock.js";
import { element, Keyed, setAttribute, setHidden, setText } from "./element.js";
import { eventWords } from "./event_words.js";
import { setForeign } from "./text.js";

const SIGNS = 240;
const DRAWN_MAX = 300;

export class Events {
  #list = element("ol", { class: "events", reversed: true });
  #more = element("button", { type: "button", class: "button", hidden: true }, "Older events");
  #none = element("p", { class: "none", hidden: true }, "No event yet.");
  #drawn = 60;

  constructor(session, older) {
    this.keyed = new Keyed(this.#list, () => new EventRow(session));
    this.#more.addEventListener("click", () => {
      this.#drawn = Math.min(DRAWN_MAX, this.#drawn + 60);
      older();
    });
    this.node = element("section", { class: "card tail", "aria-label": "Events" }, element("h2", {}, "Events"), this.#none, this.#list, this.#more);
  }

  show({ log, now, at }) {
    const shown = log.events.slice(-this.#drawn).reverse();
    this.keyed.show(shown.map((event) => [`${log.epoch}-${event.seq}`, { event, now, here: event.seq === at }]));
    setHidden(this.#none, shown.length > 0);
    setHidden(this.#more, !(log.hasMore || log.events.length > shown.length) || this.#drawn >= DRAWN_MAX);
  }
}

class EventRow {
  #link = element("a");
  #seq = element("span", { class: "seq" });
  #type = element("bdi", { class: "type" });
  #words = element("bdi", { class: "words" });
  #time = element("time");
  #event = null;

  constructor(session) {
    this.session = session;
    this.#link.append(this.#seq, this.#type, this.#time, this.#words);
    this.node = element("li", {}, this.#link);
  }

  show({ event, now, here }) {
    setAttribute(this.#link, "aria-current", here ? "true" : null);
    if (event === this.#event) return;
    this.#event = event;
    setText(this.#seq, String(event.seq));
    setForeign(this.#type, event.type, 60);
    setForeign(this.#words, eventWords(event), SIGNS);
    setText(this.#time, timeOfDay(event.time, now));
    setAttribute(this.#time, "datetime", new Date(event.time).toISOString());
    this.node.dataset.type = event.type;
    this.#link.href = ofSession(this.session, event.seq);
    this.#link.title = "See the plan as it was here";
  }
}
