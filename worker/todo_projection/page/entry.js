// A session in a list: its names, its state and why, and where it stands in an order.
import { span } from "./clock.js";

export const STATES = ["stuck", "quiet", "active", "done", "empty", "cleared", "unknown"];

const MEANINGS = {
  stuck: "an item has been in progress for longer than",
  quiet: "no event for longer than",
  active: "neither stuck nor quiet",
  done: "every item is completed",
  empty: "the plan is an empty list",
  cleared: "no plan in this turn",
  unknown: "nothing of it is projected yet",
};

/** What a state means, with the bounds the gateway goes by. */
export function meaning(state, about) {
  const bound = { stuck: about?.stuckMs, quiet: about?.quietMs }[state];
  return MEANINGS[state] + (bound === undefined ? "" : ` ${span(bound)}`);
}

/** The name for people: what it works on, else what it is called, else its id. */
export function nameOf(entry) {
  return entry.board?.title || entry.board?.label || entry.sessionId;
}

/** What tells it from others of that name. */
export function tagOf(entry) {
  const { title, label } = entry.board ?? {};
  return title && label ? label : title || label ? entry.sessionId : "";
}

/** Why it is in this state, as of `now`: what the gateway said grows older by itself. */
export function whyOf(entry, now) {
  const { state, lastEvent, board, why } = entry;
  if (state === "stuck" && board?.since != null) return `in progress for ${span(now - board.since)}`;
  if (state === "quiet" && lastEvent != null) return `no event for ${span(now - lastEvent)}`;
  if (state === "active" && lastEvent != null) return `last event ${span(now - lastEvent)} ago`;
  return why;
}

/** What a turn left open: it has ended, and not all is done. */
export function leftOpen(board) {
  if (!board || board.open || board.reason === null || board.total === null) return 0;
  return board.total - board.done;
}

/** The text a search looks through, the same that the gateway's own does. */
export function haystack({ sessionId, board }) {
  return [sessionId, board?.title, board?.label, board?.current].filter(Boolean).join("\n").toLowerCase();
}

/** The smaller the sooner; a turn that left something open comes right before those at work. */
function urgency(entry) {
  const place = STATES.indexOf(entry.state);
  return entry.state === "active" && leftOpen(entry.board) ? place - 0.5 : place;
}

/** Orders, each by [first, second]: the smallest comes first. */
export const ORDERS = {
  attention: (entry) => [urgency(entry), bySince(entry)],
  recent: (entry) => [0, -(entry.lastEvent ?? 0)],
  longest: (entry) => (entry.board?.since == null ? [1, -(entry.lastEvent ?? 0)] : [0, entry.board.since]),
  name: () => [0, 0],
};

function bySince(entry) {
  const working = entry.state === "stuck" || entry.state === "active";
  return working ? (entry.board?.since ?? Number.MAX_SAFE_INTEGER) : -(entry.lastEvent ?? 0);
}
