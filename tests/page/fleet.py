"""A fleet as a day leaves it: agents at work, stuck, silent, done, with subagents; for pictures and tasks."""

import time
from typing import Any, NamedTuple

from playwright.async_api import Page, expect

from page.stage import Stage
from todo_write.log import SessionLog

DONE, WORKING, PENDING = "completed", "in_progress", "pending"
MINUTE_MS = 60_000

Given = tuple[str, Any, int]


class People(NamedTuple):
    """Sessions that tests ask for by what they are."""

    busy: str
    stuck: str
    lead: str


def plan(title: str, done: int, working: int, *steps: str) -> tuple[str, list[dict[str, str]]]:
    """A title, and a list of which so many are completed, then so many in progress."""
    statuses = [DONE] * done + [WORKING] * working + [PENDING] * (len(steps) - done - working)
    return title, [{"content": step, "status": status} for step, status in zip(steps, statuses, strict=True)]


API = (
    "Read the gateway's middleware chain",
    "Choose limits per plan with the numbers of last month",
    "Add a token bucket in front of the router",
    "Answer 429 with Retry-After",
    "Cover bursts and clock skew with tests",
    "Document the limits in the API guide",
)
BILLING = (
    "Check dependencies for wheels",
    "Replace the modules that were removed",
    "Run the suite under the new interpreter",
    "Fix new deprecation warnings",
    "Build and scan the image",
    "Roll out to one instance",
    "Roll out everywhere",
)
SEARCH = (
    "List queries that use removed options",
    "Build the new index beside the old one",
    "Write to both indexes",
    "Compare results for the top 500 queries",
    "Switch reads over",
    "Delete the old index after a week",
)
CHECKOUT = (
    "Reproduce it with the sandbox card",
    "Follow the redirect through the payment service",
    "Keep the order id across the redirect",
    "Add a regression test",
)
EXPORT = ("Profile one run on staging", "Replace the per-row lookups by one join", "Measure again", "Set an alert")
RELEASE = ("Merge the translations", "Freeze the branch", "Run the full test matrix", "Tag and build", "Publish")

# label, parent, minutes since its item began, minutes of silence, title and list
FLEET: tuple[tuple[str, str | None, int, int, tuple[str, list[dict[str, str]]]], ...] = (
    ("billing", None, 47, 3, plan("Upgrade the billing service to Python 3.13", 2, 1, *BILLING)),
    ("billing/tester", "billing", 2, 1, plan("Slow suite", 1, 1, "Set up a clean environment", "Run the slow suite")),
    ("checkout", None, 22, 14, plan("Checkout fails for cards with 3-D Secure", 1, 1, *CHECKOUT)),
    ("export", None, 12, 12, plan("Nightly export takes four hours", 2, 1, *EXPORT)),
    ("api-limits", None, 4, 0, plan("Rate limiting for the public API", 2, 2, *API)),
    ("search", None, 6, 1, plan("Move the search index to version 8", 3, 1, *SEARCH)),
    ("search/research", "search", 1, 0, plan("What others ran into", 0, 1, "Search the tracker", "Summarise")),
    ("search/review", "search", 0, 5, plan("Review of the change", 2, 0, "Read the diff", "Write up the findings")),
    ("release", None, 8, 2, plan("Release 4.2", 3, 1, *RELEASE)),
    ("flaky-sync", None, 3, 0, plan("Flaky test in the sync module", 1, 1, "Run it 200 times", "Log the order", "Fix")),
    ("invoices", None, 0, 9, plan("Invoice numbers with gaps", 3, 0, "Find the loss", "Mend it", "Backfill")),
    ("onboarding", None, 0, 6, plan("Onboarding guide for new engineers", 2, 0, "Follow the guide", "Rewrite it")),
    (
        "dark-mode",
        None,
        2,
        0,
        plan("Dark mode for the settings pages", 4, 1, "a1", "a2", "a3", "a4", "Take screenshots"),
    ),
)


async def populate(stage: Stage) -> People:
    """Write the fleet with its times, and wait for the last of it."""
    now = time.time_ns() // 1_000_000
    keys = await stage.client.keys()
    for session, parent, began, silent, (title, todos) in FLEET:
        since = now - began * MINUTE_MS
        events: list[Given] = [
            (
                "session/start",
                {"label": session.rpartition("/")[2]} | ({"parentSession": parent} if parent else {}),
                since - 90 * MINUTE_MS,
            ),
            ("session/title", {"title": title}, since - 90 * MINUTE_MS),
            ("turn/start", {"turn": 1}, since - 89 * MINUTE_MS),
        ]
        events += [write(todos, n, since - (len(todos) - n) * 9 * MINUTE_MS) for n in range(count(todos, DONE))]
        events.append(
            ("assistant/message", {"content": "That explains what we saw in the logs."}, since - MINUTE_MS // 2)
        )
        events.append(("todo/write", {"todos": todos}, since))
        position = (await SessionLog(stage.client, session).append_all(events))[-1]
        await stage.projected(session, position.seq)
        await stage.client.redis.zadd(keys.recent(keys.partition(session)), {session: now - silent * MINUTE_MS})
    return People("api-limits", "billing", "search")


def count(todos: list[dict[str, str]], status: str) -> int:
    return sum(todo["status"] == status for todo in todos)


def write(todos: list[dict[str, str]], done: int, time_ms: int) -> Given:
    """The list as it was when so many were completed."""
    before = [
        {"content": todo["content"], "status": DONE if n < done else WORKING if n == done else PENDING}
        for n, todo in enumerate(todos[:-1] if done < 2 and len(todos) > 4 else todos)
    ]
    return "todo/write", {"todos": before}, time_ms


async def settle(page: Page, name: str) -> None:
    """Return when the view is drawn."""
    shown = {"board": ".rows .row .name", "session": ".last", "past": ".past", "nothing": ".nothing h2"}[name]
    await expect(page.locator(shown).first).to_be_visible()
    await page.evaluate("document.fonts.ready")
