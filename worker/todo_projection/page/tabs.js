// How many sessions are in each state, each a filter.
import { element, Keyed, setAttribute, setClass, setText } from "./element.js";
import { meaning, STATES } from "./entry.js";
import { Glyph } from "./glyph.js";

const ALWAYS = new Set(["", "stuck", "quiet", "active", "done"]);

export class Tabs {
  constructor(choose) {
    this.node = element("div", { class: "tabs", role: "group", "aria-label": "States" });
    this.keyed = new Keyed(this.node, (state) => new Tab(state, choose));
  }

  show({ counts, total, chosen, about }) {
    const shown = ["", ...STATES].filter((state) => ALWAYS.has(state) || state === chosen || counts?.[state]);
    const count = (state) => (counts === null ? null : state === "" ? total : counts[state]);
    this.keyed.show(shown.map((state) => [state, { count: count(state), chosen: state === chosen, about }]));
  }
}

class Tab {
  #count = element("span", { class: "count" });

  constructor(state, choose) {
    this.state = state;
    const glyph = new Glyph();
    glyph.show(state, 0.6);
    this.node = element("button", { type: "button" }, state ? glyph.node : null, element("span", {}, state || "all"), this.#count);
    this.node.addEventListener("click", () => choose(this.node.getAttribute("aria-pressed") === "true" ? "" : state));
  }

  show({ count, chosen, about }) {
    setText(this.#count, count === null ? "" : count.toLocaleString("en"));
    setClass(this.node, count ? "some" : "none");
    setAttribute(this.node, "aria-pressed", String(chosen));
    setAttribute(this.node, "title", this.state ? `${this.state}: ${meaning(this.state, about)}` : "every session");
  }
}
