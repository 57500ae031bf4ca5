// One item of a plan.
import { exactSpan } from "./clock.js";
import { element, setAttribute, setClass, setHidden, setText } from "./element.js";
import { Glyph } from "./glyph.js";
import { setForeign } from "./text.js";

const SHORT = 600; // signs of an item that are shown before somebody asks for all
export const STATUS_WORDS = { pending: "pending", in_progress: "in progress", completed: "completed" };

export class Item {
  #glyph = new Glyph();
  #text = element("bdi");
  #more = element("button", { type: "button", class: "more", hidden: true });
  #change = element("span", { class: "change", hidden: true });
  #status = element("span", { class: "status" });
  #age = element("span", { class: "age" });
  #whole = false;

  constructor(content) {
    this.content = content;
    this.node = element("li", { class: "item" }, this.#glyph.node, element("span", { class: "content" }, this.#text, this.#more), this.#change, this.#status, this.#age);
    this.#more.addEventListener("click", () => {
      this.#whole = !this.#whole;
      this.#showText();
    });
    this.#showText();
  }

  /** `change` is a word, or null; `started` is {time, atLeast}, or nothing. */
  show({ status, change, started, now }) {
    setClass(this.node, `item ${status}`);
    setAttribute(this.node, "aria-current", status === "in_progress" ? "step" : null);
    this.#glyph.show(status, status === "in_progress" ? 0.5 : 0);
    setText(this.#status, STATUS_WORDS[status] ?? status);
    setHidden(this.#change, change === null);
    if (change !== null) setText(this.#change, change);
    setText(this.#age, started?.time ? `${started.atLeast ? "over " : ""}${exactSpan(now - started.time)}` : "");
  }

  #showText() {
    const signs = this.content.length;
    setForeign(this.#text, this.content, this.#whole ? Infinity : SHORT);
    setHidden(this.#more, signs <= SHORT);
    setText(this.#more, this.#whole ? "Show less" : `Show all ${signs.toLocaleString("en")} characters`);
    setAttribute(this.#more, "aria-expanded", String(this.#whole));
  }
}
