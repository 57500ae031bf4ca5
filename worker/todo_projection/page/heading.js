// Whose plan it is: names, state and why, turn; and whether one looks at the past.
import { ofBoard, ofSession } from "./address.js";
import { span, timeOfDay } from "./clock.js";
import { element, setAttribute, setHidden, setText } from "./element.js";
import { nameOf, whyOf } from "./entry.js";
import { Glyph } from "./glyph.js";
import { setForeign, visible } from "./text.js";

export class Heading {
  #up = element("nav", { class: "up", "aria-label": "Up" });
  #parent = element("a", { hidden: true });
  #name = element("bdi");
  #label = element("bdi", { class: "label", hidden: true });
  #id = element("bdi", { class: "id" });
  #glyph = new Glyph();
  #state = element("b");
  #why = element("span", { class: "why" });
  #turn = element("span", { class: "turn" });
  #chip = element("p", { class: "chip" }, this.#glyph.node, this.#state, this.#why, this.#turn);
  #past = element("p", { class: "past", role: "status", hidden: true });
  #pastWords = element("span");

  constructor(session) {
    this.session = session;
    const copy = element("button", { type: "button", class: "copy", title: "Copy the id" }, "Copy id");
    copy.addEventListener("click", () => this.#copy(copy));
    setForeign(this.#id, session);
    this.#up.append(element("a", { href: ofBoard({}) }, "Board"), this.#parent);
    this.#past.append(this.#pastWords, element("a", { class: "button live", href: ofSession(session) }, "Back to live"));
    this.node = element("header", { class: "heading" }, this.#up, element("h1", {}, this.#name), element("p", { class: "ids" }, this.#label, this.#id, copy), this.#chip, this.#past);
  }

  /** `entry` may be null while nothing is known; `past` is null when one looks at now. */
  show({ entry, board, past, now }) {
    setForeign(this.#name, entry ? nameOf(entry) : board?.title || board?.label || this.session, 400);
    setHidden(this.#label, !(board?.title && board.label) || board.label === this.session);
    setForeign(this.#label, board?.label ?? "", 200);
    setHidden(this.#parent, !board?.parent);
    if (board?.parent) {
      setForeign(this.#parent, board.parent, 80);
      this.#parent.href = ofSession(board.parent);
    }
    setHidden(this.#chip, entry === null || past !== null); // it speaks of now
    if (entry) this.#tell(entry, now);
    setHidden(this.#past, past === null);
    setAttribute(document.documentElement, "data-past", past !== null);
    if (past) setText(this.#pastWords, past.problem ? `Event ${past.at} can't be shown: ${past.problem}.` : `You look at the past: event ${past.at}, ${timeOfDay(past.time, now)}, ${span(now - past.time)} ago.`);
  }

  #tell(entry, now) {
    const { done = 0, total = null, turn = null, open, reason } = entry.board ?? {};
    this.#chip.dataset.state = entry.state;
    this.#glyph.show(entry.state, total ? done / total : 0);
    setText(this.#state, entry.state);
    setText(this.#why, whyOf(entry, now));
    const ending = open ? "open" : reason === null ? "" : `ended: ${visible(reason ?? "")}`;
    setText(this.#turn, turn === null && !open ? "" : `turn ${turn ?? ""} ${ending}`.trim());
  }

  async #copy(button) {
    try {
      await navigator.clipboard.writeText(this.session);
      setText(button, "Copied");
    } catch {
      getSelection().selectAllChildren(this.#id);
      setText(button, "Selected");
    }
    setTimeout(() => setText(button, "Copy id"), 1500);
  }
}
