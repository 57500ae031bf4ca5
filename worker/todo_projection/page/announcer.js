// What is said to those who listen: one polite sentence, when things have come to rest.
import { setText } from "./element.js";
import { clipped } from "./text.js";

const REST_MS = 1500;
const SIGNS = 160;

export class Announcer {
  #waiting = 0;
  #next = "";

  constructor(node) {
    this.node = node;
  }

  say(text) {
    if (text === this.#next) return;
    this.#next = text;
    clearTimeout(this.#waiting);
    this.#waiting = setTimeout(() => setText(this.node, clipped(text, SIGNS)), REST_MS);
  }

  /** Another page begins: nothing of the last one is said any more. */
  clear() {
    clearTimeout(this.#waiting);
    this.#next = "";
    setText(this.node, "");
  }
}
