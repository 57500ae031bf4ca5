// Foreign text made harmless: what can't be seen is shown, what turns the direction of writing is shown and has no effect.
import { element, setText } from "./element.js";

// Controls, zero-width signs but the joiner of emoji and scripts, marks of direction, separators, tags, lone surrogates.
const INVISIBLE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff]|[\u{e0000}-\u{e007f}]|[\ud800-\udfff]/gu;
const PICTURES = { "\n": "⏎", "\t": "⇥", "\r": "␍", "\u007f": "␡" };

function picture(sign) {
  const code = sign.codePointAt(0);
  return PICTURES[sign] ?? (code < 0x20 ? String.fromCharCode(0x2400 + code) : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** The text with everything invisible made visible. */
export function visible(text) {
  return text.replace(INVISIBLE, picture);
}

/** At most so many signs of the text, made visible; the rest is told by an ellipsis. */
export function clipped(text, signs) {
  return text.length <= signs ? visible(text) : `${visible(text.slice(0, signs).replace(/[\ud800-\udbff]$/, ""))}…`;
}

/** An element that keeps foreign text apart from the direction of what is around it. */
export function isolated(text, attributes = {}) {
  return element("bdi", attributes, visible(text));
}

export function setForeign(node, text, signs = Infinity) {
  setText(node, clipped(text, signs));
}
