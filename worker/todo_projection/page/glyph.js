// Pictures of states: each has a shape of its own, so that colour is never all that tells.

const SVG = "http://www.w3.org/2000/svg";
const RADIUS = 2; // of the pie: a circle drawn with a stroke of twice that
const AROUND = 2 * Math.PI * RADIUS;

const SHAPES = {
  done: ["M5 8.2l2.1 2.1L11.2 6"],
  completed: ["M5 8.2l2.1 2.1L11.2 6"],
  stuck: ["M8 4.8v3.9M8 11v.1"],
  quiet: ["M6.6 6v4M9.4 6v4"],
  unknown: ["M6.4 6.5a1.7 1.7 0 1 1 2.5 1.4c-.6.3-.9.6-.9 1.2M8 11v.1"],
  empty: ["M5.6 8h4.8"],
  cleared: [],
  active: [],
  pending: [],
  in_progress: [],
};

export class Glyph {
  #state = "";
  #arc;
  #mark;

  constructor() {
    this.node = make("svg", { class: "glyph", viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" });
    this.#mark = make("path", { class: "mark" });
    this.#arc = make("circle", { class: "arc", cx: 8, cy: 8, r: RADIUS, transform: "rotate(-90 8 8)" });
    this.node.append(make("circle", { class: "disc", cx: 8, cy: 8, r: 6.3 }), this.#arc, this.#mark);
  }

  /** `share` of 1 is done. */
  show(state, share = 0) {
    if (state !== this.#state) {
      this.#state = state;
      this.node.dataset.state = state;
      this.#mark.setAttribute("d", (SHAPES[state] ?? []).join(" "));
    }
    const dash = `${(share * AROUND).toFixed(2)} ${AROUND.toFixed(2)}`;
    if (this.#arc.getAttribute("stroke-dasharray") !== dash) this.#arc.setAttribute("stroke-dasharray", dash);
  }
}

function make(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
