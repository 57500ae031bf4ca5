// The page: what the address asks for, shown; one connection, one clock.
import { parse } from "./address.js";
import { Announcer } from "./announcer.js";
import { Badge } from "./badge.js";
import { Board } from "./board.js";
import { Clock } from "./clock.js";
import { Connection } from "./connection.js";
import { element, setHidden } from "./element.js";
import { ask } from "./gateway.js";
import { Session } from "./session.js";
import { Shortcuts } from "./shortcuts.js";
import { SignIn } from "./signin.js";

const TICK_MS = 1000;
const RETRY_MS = 2000;

const main = document.getElementById("view");
const clock = new Clock();
const badge = new Badge(document.getElementById("badge"), clock);
const announcer = new Announcer(document.getElementById("said"));
const connection = new Connection({
  heard: (time) => clock.hear(time),
  refused: signIn,
  tell: (told) => badge.tell(told),
  now: () => clock.now(),
});
const shortcuts = new Shortcuts(() => view ?? {});
const parts = { clock, connection, about: null, title: setTitle, announce: (text) => announcer.say(text) };
let view = null;
let shown = null;
let remembered = {};

document.getElementById("theme").addEventListener("click", () => dispatchEvent(new Event("theme")));
document.getElementById("help").addEventListener("click", () => shortcuts.list());
document.getElementById("out").addEventListener("click", signOut);
addEventListener("hashchange", show);
setInterval(tick, TICK_MS);
document.addEventListener("visibilitychange", tick);
begin();

/** What the gateway says of itself comes first: its clock, its bounds, or that it wants a token. */
async function begin() {
  const asked = Date.now();
  try {
    parts.about = await ask("about");
  } catch (error) {
    if (error.status === 401) return signIn();
    badge.tell({ state: "reconnecting", since: clock.now() });
    setTimeout(begin, RETRY_MS);
    return;
  }
  setHidden(document.getElementById("out"), !parts.about.login);
  clock.hear(parts.about.now, Date.now() - asked);
  connection.heartbeatMs = parts.about.heartbeatMs;
  show();
}

async function signOut() {
  await fetch("api/logout", { method: "POST" }).catch(() => {}); // who is not signed out sees that: the page goes on
  begin();
}

function signIn() {
  connection.close();
  badge.tell({ state: "connecting", since: clock.now() });
  leave();
  parts.about = null;
  const form = new SignIn(begin);
  main.replaceChildren(form.node);
  form.field.focus();
}

function show() {
  if (parts.about === null) return;
  const asked = parse(location.hash);
  const key = asked.view === "session" ? `s ${asked.session}` : asked.view;
  if (key !== shown) {
    leave();
    shown = key;
    view = made(asked);
    main.replaceChildren(view.node);
    view.restore?.(remembered);
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  view.show?.(asked);
}

function made(asked) {
  if (asked.view === "session") return new Session(asked.session, parts);
  if (asked.view === "board" && parts.about.board) return new Board(parts);
  connection.close();
  badge.tell({ state: "connecting", since: clock.now() });
  if (asked.view === "board") return { node: notice("This token shows no board", "It shows single sessions: open one by its address, ", element("code", {}, "#/s/<id>"), ".") };
  return { node: notice("Nothing is here", element("a", { class: "button", href: "#/" }, "To the board")) };
}

function notice(title, ...words) {
  return element("div", { class: "empty" }, element("h2", {}, title), element("p", {}, ...words));
}

function leave() {
  if (view?.memory) remembered = view.memory();
  view?.close?.();
  view = shown = null;
  announcer.clear();
  document.documentElement.removeAttribute("data-past");
}

function setTitle(text) {
  if (document.title !== text) document.title = text;
}

function tick() {
  if (document.hidden) return;
  badge.tick();
  view?.tick?.();
}
