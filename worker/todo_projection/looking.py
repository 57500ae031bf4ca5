"""Commands that look closely: ``show``, ``stale``, ``explain`` at sessions, ``doctor`` at the server."""

import asyncio
import sys
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from todo_projection.doctor import diagnosis_view
from todo_projection.ending import NO, READING, Json, end, notes
from todo_projection.examination import examine
from todo_projection.explanation import Explainer
from todo_projection.facts import Role
from todo_projection.findings import explanation_view, stale_view
from todo_projection.flags import with_settings
from todo_projection.frames import Baseline
from todo_projection.marks import Marks, Stale
from todo_projection.output import print_json, print_view
from todo_projection.refold import NotThere, Refold
from todo_projection.row import CorruptRow
from todo_projection.rows import read_baseline
from todo_projection.settings import Settings
from todo_projection.store import Store, ask
from todo_projection.unit import mounted_units
from todo_write.events import check_session

app = typer.Typer()

Session = Annotated[str, typer.Argument(metavar="SESSION")]


@app.command(
    epilog=notes(
        "show s1",
        "show s1 --at 41 | jq .values.todos",
        codes=f"0 shown, 1 unknown session, or no such event, {READING}",
    )
)
@with_settings()
def show(
    settings: Settings,
    session: Session,
    at: Annotated[
        int | None, typer.Option(min=0, metavar="SEQ", help="As they were after this event, folded from the log.")
    ] = None,
) -> None:
    """Print the values of one session as JSON, all cut at one position of its log.

    An unknown session, or one of which nothing is projected yet, has asOfSeq -1 and no values.
    """
    check_session(session)

    async def read(store: Store) -> Baseline:
        if at is None:
            return await read_baseline(store.wire, store.keys, session)
        return await Refold(store.wire, store.keys, mounted_units()).baseline_at(session, at)

    try:
        baseline = asyncio.run(ask(settings, read))
    except (CorruptRow, NotThere) as error:
        end(NO, str(error))
    print_json(baseline, indented=True)
    if baseline.epoch is None:
        end(NO, f"session {session!r} is unknown: nobody wrote to it, or no worker has projected it yet")


@app.command(epilog=notes("stale", "stale s1 --json", codes=f"0 none is marked, 1 some are, {READING}"))
@with_settings()
def stale(
    settings: Settings,
    session: Annotated[str | None, typer.Argument(metavar="[SESSION]")] = None,
    json: Json = False,
) -> None:
    """List the values that may be wrong: because of which event, since when, and what makes them right again."""
    if session is not None:
        check_session(session)

    async def read(store: Store) -> list[Stale]:
        marks = Marks(store.wire, store.keys, mounted_units())
        if session is not None:
            return await marks.of(session)
        return [one async for page in marks.all() for one in page]

    found = asyncio.run(ask(settings, read))
    if json:
        print_json(found)
    elif found:
        print_view(Group(*(stale_view(one) for one in found)))
    else:
        print_view(Text("no value is marked"))
    if found:
        sessions = len({one.session_id for one in found})
        end(NO, f"{len(found)} values are marked, of {sessions} {'session' if sessions == 1 else 'sessions'}")


@app.command(
    epilog=notes("explain s1", "explain s1 --json", codes=f"0 explained, 1 unknown session, or broken, {READING}")
)
@with_settings()
def explain(settings: Settings, session: Session, json: Json = False) -> None:
    """Say of one session which events set its values, what waits to be projected in whose hands, what comes next."""
    check_session(session)
    found = asyncio.run(
        ask(settings, lambda store: Explainer(store.wire, store.keys, mounted_units()).explain(session))
    )
    if json:
        print_json(found)
    else:
        print_view(explanation_view(found))
    if found.tail is None and found.row is None and not found.why:
        end(NO, f"session {session!r} is unknown: nobody wrote to it")
    if found.why:
        end(NO, f"session {session!r} is broken: {found.why}")


@app.command(
    epilog=notes(
        "doctor",
        "doctor --user agents --role agent",
        "doctor --json | jq '.findings[].mend[]'",
        codes="0 nothing, warnings and notes, 1 an error found, 2 wrong usage or setting, 3 redis does not answer",
    )
)
@with_settings("beat_ms")
def doctor(
    settings: Settings,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Whose access rights; default: one's own.")] = None,
    role: Annotated[Role | None, typer.Option(help="What that user must be able to be.")] = None,
    json: Json = False,
) -> None:
    """Say what ails the server and this namespace in it: what, why, and the command that mends it, the worst first.

    Nothing is written. What a managed server keeps to itself is told as a note.
    """
    found = asyncio.run(examine(settings, user=user, role=role))
    if json:
        print_json(found, indented=True)
    else:
        print_view(diagnosis_view(found))
    if found.sick:
        sys.exit(NO)
