// How far what is shown can be trusted: live, behind, reconnecting, and since when.
import { exactSpan, timeOfDay } from "./clock.js";
import { setAttribute, setHidden, setText } from "./element.js";

const TITLES = {
  live: "What is shown is what is stored.",
  behind: "Events wait to be projected: what is shown is older than what happened.",
  reconnecting: "The gateway, or the store behind it, can't be reached: what is shown may be old.",
  connecting: "",
};

export class Badge {
  #told = { state: "connecting", since: 0 };

  constructor(node, clock) {
    this.node = node;
    this.text = node.querySelector("span");
    this.clock = clock;
  }

  tell(told) {
    this.#told = told;
    this.tick();
  }

  tick() {
    const { state, since } = this.#told;
    const now = this.clock.now();
    setAttribute(this.node, "data-state", state);
    setAttribute(this.node, "title", `${TITLES[state]} Since ${timeOfDay(since, now)}.`);
    setHidden(this.node, state === "connecting");
    setText(this.text, state === "live" || state === "connecting" ? state : `${state} for ${exactSpan(now - since)}`);
  }
}
