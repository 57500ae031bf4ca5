// The published shapes: `todo-projection schema typescript`. Made from the JSON Schema; do not edit.

/**
 * All values of a session, cut at one position.
 *
 * `values` lacks the key of a unit that is not mounted; null is "no plan", an empty list "explicitly empty". A
 * session nobody wrote to, or a deleted one: `asOfSeq` -1, `epoch` and `rev` null, `values` empty.
 */
export interface Baseline {
  sessionId: string;
  asOfSeq: number;
  epoch: number | null;
  rev: string | null;
  values: Record<string, unknown>;
  at: Record<string, number>;
  stale: Record<string, Mark>;
}

/** The session is gone: its log, values, index entries and marks. */
export interface Deleted {
  type: "session/deleted";
  sessionId: string;
  epoch: number;
  rev: string;
}

/** The envelope: what readers of a log get. `time` in epoch ms, never ordered by; `data` is JSON as written. */
export interface Event {
  type: string;
  seq: number;
  time: number;
  data: unknown;
}

/** One event, read from the log; never published on a channel. */
export interface EventFrame {
  type: "session/event";
  sessionId: string;
  event: Event;
}

/** A published value after a commit changed it: `seq` is the event that caused it, `time` that event's (ms). */
export interface Frame {
  type: "session/projection";
  sessionId: string;
  key: string;
  value: unknown;
  seq: number;
  epoch: number;
  rev: string;
  stateVersion: number;
  time: number;
  stale?: Mark;
}

/** Why a value may be wrong: the event that was skipped, and its time (epoch ms). */
export interface Mark {
  seq: number;
  reason: string;
  since: number;
}

/** A page of a session's history, oldest event first; `projections` stands on the tail page only. */
export interface Page {
  events: Array<Event>;
  hasMore: boolean;
  projections?: Baseline;
}
