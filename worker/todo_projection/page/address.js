// The address is the state of the page: `#/?state=stuck&text=…&sort=…` the board, `#/s/<id>?at=12` a session.

/** What a hash asks for. */
export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split("?", 2);
  const asked = new URLSearchParams(query);
  if (path.startsWith("/s/")) {
    try {
      const at = asked.get("at");
      return { view: "session", session: decodeURIComponent(path.slice(3)), at: at !== null && /^\d{1,15}$/.test(at) ? Number(at) : null };
    } catch {
      return { view: "nowhere" }; // no percent-encoded text
    }
  }
  if (path !== "" && path !== "/") return { view: "nowhere" };
  return { view: "board", state: asked.get("state") ?? "", text: asked.get("text") ?? "", sort: asked.get("sort") ?? "" };
}

export function ofSession(session, at = null) {
  return `#/s/${encodeURIComponent(session)}${at === null ? "" : `?at=${at}`}`;
}

export function ofBoard(filter) {
  const given = Object.entries(filter).filter(([, value]) => value);
  return given.length ? `#/?${new URLSearchParams(given)}` : "#/";
}

/** Go there; with `replace` the way back does not lead here again. */
export function go(hash, { replace = false } = {}) {
  if (location.hash === hash) return;
  if (!replace) location.hash = hash;
  else {
    history.replaceState(history.state, "", hash);
    dispatchEvent(new HashChangeEvent("hashchange"));
  }
}
