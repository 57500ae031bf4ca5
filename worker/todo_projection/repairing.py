"""Commands of repair: ``verify``, ``rebuild``."""

import asyncio
import sys
from typing import Annotated

import typer

from todo_projection.checking import Check
from todo_projection.ending import NO, READING, USAGE, Json, Yes, agreed, end, notes, say
from todo_projection.findings import finding_view
from todo_projection.flags import with_settings
from todo_projection.output import print_json, print_view
from todo_projection.progress import session_bar
from todo_projection.rebuilding import Goal, Report, rebuild_all, rebuild_one
from todo_projection.settings import Settings
from todo_projection.store import Store, ask, publish_command
from todo_projection.unit import mounted_units
from todo_projection.verify import Finding
from todo_write.events import check_session

SHOWN_MAX = 20

app = typer.Typer()

All = Annotated[bool, typer.Option("--all", help="Every session that has a log.")]


@app.command(
    epilog=notes(
        "verify s1",
        "verify --sample 1000",
        "verify --all --repair",
        codes=f"0 everything agrees, also after a repair, 1 something does not, or is unknown, {READING}",
    )
)
@with_settings("beat_ms")
def verify(
    settings: Settings,
    sessions: Annotated[list[str] | None, typer.Argument(metavar="[SESSION]...")] = None,
    all_: All = False,
    sample: Annotated[int | None, typer.Option(min=1, metavar="NUMBER", help="So many, chosen by chance.")] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Have workers fold again what differs, and wait for it.")
    ] = False,
    remove_orphans: Annotated[
        bool, typer.Option("--remove-orphans", help="Remove rows without a log; needs --all.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Fold logs again and compare with what is stored, values, states, marks and indexes; nothing is written.

    With --all it finds rows without a log too.
    """
    if sum((bool(sessions), all_, sample is not None)) != 1:
        end(USAGE, "name sessions, or say --all or --sample NUMBER: one of the three")
    if remove_orphans and not all_:
        end(USAGE, "--remove-orphans needs --all")
    named = [check_session(session) for session in sessions or ()]

    async def run(store: Store) -> tuple[Check, dict[str, int]]:
        with session_bar("verifying") as tell:
            check = Check(store, mounted_units(), _silent if json else _show_finding, tell)
            await (check.all() if all_ else check.named(named) if sample is None else check.sample(sample))
            counts = {"checked": check.checked, "unsound": len(check.unsound)}
            if repair and not await check.repair(beat_ms=settings.beat_ms):
                say("no worker is beating: what was asked for is done when one starts")
        if remove_orphans and check.orphans and agreed(f"remove {len(check.orphans)} rows without a log?", yes=yes):
            counts["removed"] = await check.remove_orphans(await publish_command(settings))
        return check, {**counts, "left": len(check.unsound)}

    check, counts = asyncio.run(ask(settings, run))
    if json:
        print_json({**counts, "findings": [finding.told() for finding in check.unsound.values()]})
    else:
        say(", ".join(f"{count} {name}" for name, count in counts.items()))
    if check.unsound:
        sys.exit(NO)


@app.command(
    epilog=notes(
        "rebuild --session s1",
        "rebuild --all --unit board --rate 500",
        codes=f"0 all are folded again, 1 not all are, {READING}",
    )
)
@with_settings("beat_ms")
def rebuild(
    settings: Settings,
    session: Annotated[str | None, typer.Option(metavar="SESSION", help="This session alone.")] = None,
    all_: All = False,
    unit: Annotated[str | None, typer.Option(metavar="KEY", help="This unit alone; all of them otherwise.")] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="With --session: take the log as it stands, with what it lacks.")
    ] = False,
    rate: Annotated[float, typer.Option(min=0.1, metavar="NUMBER", help="At most so many sessions a second.")] = 200.0,
    restart: Annotated[
        bool, typer.Option("--restart", help="From the beginning, not where an earlier one was cut.")
    ] = False,
    json: Json = False,
) -> None:
    """Have workers fold sessions again from the start of their logs; readers hear of what that changes, and no more.

    Cut short, it goes on where it was; what it has asked for is done all the same. Needed after code was mended.
    """
    mounted = {one.key: one.state_version for one in mounted_units()}
    if (session is None) == (not all_):
        end(USAGE, "say --session SESSION or --all: one of the two")
    if unit is not None and unit not in mounted:
        end(USAGE, f"unit {unit!r} is not mounted here; allowed: {', '.join(mounted)}")
    if partial and session is None:
        end(USAGE, "--partial adopts one log with its holes: it needs --session")
    goal = Goal([unit] if unit else list(mounted), mounted, settings.beat_ms, rate, restart)

    async def run(store: Store) -> Report:
        if session is not None:
            return await rebuild_one(store, goal, check_session(session), partial=partial)
        with session_bar("rebuilding") as tell:
            return await rebuild_all(store, goal, tell, say)

    report = asyncio.run(ask(settings, run))
    if json:
        print_json(report)
    else:
        _show_report(report)
    if not report.fine:
        sys.exit(NO)


def _show_report(report: Report) -> None:
    for session, why in list(report.failed.items())[:SHOWN_MAX]:
        say(f"session {session!r}: {why}")
    if len(report.failed) > SHOWN_MAX:
        say(f"and {len(report.failed) - SHOWN_MAX} more; --json prints all of them")
    if report.partial:
        say(f"{report.partial} of them have logs with holes: folded from what is left, not from the start")
    if report.waiting:
        say(f"no worker is beating: {report.waiting} sessions are folded again when one starts")
    counts = f"{report.asked} asked for, {report.folded} folded again, {report.waiting} waiting"
    say(f"{counts}, {len(report.failed)} refused")


def _show_finding(finding: Finding) -> None:
    print_view(finding_view(finding))


def _silent(_finding: Finding) -> None:
    """With --json all findings are printed at the end."""
