// Keys, and the list of them.
import { element } from "./element.js";

const KEYS = [
  ["/", "Search"],
  ["j  k  ↓  ↑", "Next and previous session"],
  ["Enter", "Open the session"],
  ["Esc", "Back: out of the search, the past, the session"],
  ["[  ]", "The plan before and after a write"],
  ["t", "Dark or light"],
  ["?", "This list"],
];

export class Shortcuts {
  /** `view()` is what is shown; it has what of `find`, `move`, `enter`, `leave`, `step` it can do. */
  constructor(view) {
    this.view = view;
    const close = element("button", { type: "button", class: "button" }, "Close");
    this.dialog = element("dialog", { class: "keys", "aria-labelledby": "keys" }, element("h2", { id: "keys" }, "Keyboard shortcuts"), element("dl", {}, ...KEYS.map(([keys, name]) => element("div", {}, element("dt", {}, ...keys.split("  ").map((key) => element("kbd", {}, key))), element("dd", {}, name)))), close);
    close.addEventListener("click", () => this.dialog.close());
    document.body.append(this.dialog);
    document.addEventListener("keydown", (event) => this.#press(event));
  }

  list() {
    if (this.dialog.open) this.dialog.close();
    else this.dialog.showModal();
  }

  #press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
    const typing = event.target.closest?.("input:not([type=range]), select, textarea");
    if (this.dialog.open && event.key !== "?") return;
    const act = typing ? this.#whileTyping(event) : this.#act(event);
    if (act === null) return;
    event.preventDefault();
    act();
  }

  #whileTyping({ key, target }) {
    const view = this.view();
    if (key === "Escape") return () => view.leave?.();
    if (target.type === "search" && (key === "ArrowDown" || key === "Enter")) return () => view.move?.(1);
    return null;
  }

  #act({ key, target }) {
    const view = this.view();
    const sliding = target.matches?.("input[type=range]");
    switch (key) {
      case "/":
        return view.find ? () => view.find() : null;
      case "j":
        return view.move ? () => view.move(1) : null;
      case "k":
        return view.move ? () => view.move(-1) : null;
      case "ArrowDown":
        return view.move && !sliding ? () => view.move(1) : null;
      case "ArrowUp":
        return view.move && !sliding ? () => view.move(-1) : null;
      case "Enter":
        return view.enter && (target === document.body || target.closest("main") === target) ? () => view.enter() : null;
      case "Escape":
        return () => view.leave?.();
      case "[":
        return view.step ? () => view.step(-1) : null;
      case "]":
        return view.step ? () => view.step(1) : null;
      case "t":
        return () => dispatchEvent(new Event("theme"));
      case "?":
        return () => this.list();
      default:
        return null;
    }
  }
}
