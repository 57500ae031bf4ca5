// The server's clock on the client, and spans of time in words.

const UNITS = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1000, "s"],
];

export class Clock {
  #ahead = 0; // of this machine's clock, ms

  /** The server says what time it is, or was at most `late` ms ago. */
  hear(time, late = 0) {
    this.#ahead = time + late / 2 - Date.now();
  }

  now() {
    return Date.now() + this.#ahead;
  }
}

/** A span in its largest unit: `42 s`, `3 min`; a clock that is ahead counts as none. */
export function span(ms) {
  for (const [unit, name] of UNITS) if (ms >= unit) return `${Math.floor(ms / unit)} ${name}`;
  return "0 s";
}

/** A span in its two largest units where that tells more: `1 h 12 min`. */
export function exactSpan(ms) {
  const at = UNITS.findIndex(([unit]) => ms >= unit);
  if (at < 0) return "0 s";
  const [unit, name] = UNITS[at];
  const [less, lesser] = UNITS[at + 1] ?? [];
  const rest = less ? Math.floor((ms % unit) / less) : 0;
  return rest ? `${Math.floor(ms / unit)} ${name} ${rest} ${lesser}` : span(ms);
}

const OF_DAY = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const DATED = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", hour12: false });

/** The time of day; with its date when that is another day than `now`. */
export function timeOfDay(ms, now) {
  const same = new Date(ms).toDateString() === new Date(now).toDateString();
  return (same ? OF_DAY : DATED).format(ms);
}
