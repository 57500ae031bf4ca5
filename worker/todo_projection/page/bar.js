// Progress as a bar: what is completed, then what is in progress.
import { element } from "./element.js";

export class Bar {
  #done = element("i", { class: "done" });
  #working = element("i", { class: "working" });

  constructor() {
    this.node = element("span", { class: "bar", "aria-hidden": "true" }, this.#done, this.#working);
  }

  show(done, working, total) {
    scale(this.#done, total ? done / total : 0);
    scale(this.#working, total ? (done + working) / total : 0);
  }
}

function scale(node, share) {
  const value = `scaleX(${share.toFixed(4)})`;
  if (node.style.transform !== value) node.style.transform = value;
}
