// What an event says, in one line.

const WORDS = {
  "todo/write": ({ todos }) => (Array.isArray(todos) ? writeWords(todos) : null),
  "turn/start": ({ turn }) => (turn === undefined ? "" : `turn ${turn}`),
  "turn/end": ({ turn, reason }) => [turn === undefined ? "" : `turn ${turn}`, reason?.kind ?? reason].filter(Boolean).join(" · "),
  "session/title": ({ title }) => title,
  "session/start": ({ label, parentSession, cwd }) => [label, parentSession && `child of ${parentSession}`, cwd].filter(Boolean).join(" · "),
};

/** `2/5 completed · <current> +k`. */
export function writeWords(todos) {
  if (!todos.length) return "an empty list";
  const done = todos.filter((todo) => todo?.status === "completed").length;
  const working = todos.filter((todo) => todo?.status === "in_progress");
  const more = working.length > 1 ? ` +${working.length - 1}` : "";
  return `${done}/${todos.length} completed${working.length ? ` · ${working[0].content}${more}` : ""}`;
}

export function eventWords({ type, data }) {
  const words = WORDS[type]?.(data ?? {});
  if (typeof words === "string") return words;
  return textIn(data) ?? (data === null || data === undefined ? "" : JSON.stringify(data));
}

/** The text of a message, however its model wraps it. */
function textIn(data) {
  const content = data?.message?.content ?? data?.content ?? data?.text;
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return null;
  const texts = content.map((part) => part?.text).filter((text) => typeof text === "string");
  return texts.length ? texts.join(" ") : null;
}
