"""Commands about what is kept: ``retention``, and ``units``, the word on which units rows are to hold."""

import asyncio
import re
import sys
from typing import Annotated, Any

import typer

from todo_projection.ending import NO, READING, USAGE, Json, Yes, agreed, end, notes, say
from todo_projection.flags import with_settings
from todo_projection.mandate import InvalidMandate, parse_mandate, read_mandate, set_mandate
from todo_projection.output import print_json
from todo_projection.retention import Cut, Idle, Retention
from todo_projection.settings import Settings
from todo_projection.store import Store, ask, publish_command
from todo_projection.unit import mounted_units

UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
DROPS_PER_TRIP = 50

app = typer.Typer()
units = typer.Typer(help="Which units rows are to hold: the operator's word, for a roll-back.", no_args_is_help=True)
app.add_typer(units, name="units")


def _ms(text: str) -> int:
    """Milliseconds out of ``30d``, ``12h``, ``90m``, ``45s``."""
    match = re.fullmatch(r"([1-9][0-9]{0,8})([smhd])", text)
    if match is None:
        raise typer.BadParameter(f"{text!r}: a number and s, m, h or d is allowed, such as 30d")
    return int(match[1]) * UNITS_MS[match[2]]


@app.command(
    epilog=notes(
        "retention --idle 30d --dry-run",
        "retention --keep-events 1000 --yes",
        codes=f"0 done, or shown, 1 some sessions stayed because they are not in order, {READING}",
    )
)
@with_settings()
def retention(
    settings: Settings,
    idle: Annotated[
        int | None,
        typer.Option(parser=_ms, metavar="TIME", help="Drop sessions without an event for so long, such as 30d."),
    ] = None,
    keep_events: Annotated[
        int | None,
        typer.Option(min=1, metavar="NUMBER", help="Trim logs to their last events: so many, and what units need."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and change nothing.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Drop sessions that have been idle for long, or trim logs to what every unit still needs.

    Nothing of the kind happens by itself. The last event of a log always stays. A trimmed log can't be folded from its
    start any more: later `rebuild`s fold what is left, and a unit that misses something says so by a mark.
    """
    if (idle is None) == (keep_events is None):
        end(USAGE, "say --idle TIME or --keep-events NUMBER: one of the two")
    if not dry_run:
        what = "delete idle sessions, log and values?" if idle is not None else "take old events out of logs for good?"
        if not agreed(what, yes=yes):
            end(NO, "nothing was changed")

    async def run(store: Store) -> dict[str, Any]:
        found = Retention(store.wire, store.keys, mounted_units())
        if idle is not None:
            return await _drop(found, idle, "" if dry_run else await publish_command(settings))
        return await _trim(found, keep_events or 1, dry_run=dry_run)

    told = asyncio.run(ask(settings, run))
    if json:
        print_json(told)
    else:
        for session, why in told["stayed"].items():
            say(f"session {session!r} stays: {why}")
        counts = ", ".join(f"{count} {name}" for name, count in told.items() if name != "stayed")
        say(f"{counts}; nothing was changed" if dry_run else counts)
    if told["stayed"] and not dry_run:
        sys.exit(NO)


async def _drop(found: Retention, idle_ms: int, publish: str) -> dict[str, Any]:
    """Drop idle sessions, or count them where no command to publish is given."""
    told: dict[str, Any] = {"idle": 0, "dropped": 0, "stayed": dict[str, str]()}
    async for page in found.idle(idle_ms):
        told["idle"] += len(page)
        told["stayed"].update((one.session, one.why) for one in page if one.why)
        due: list[Idle] = [one for one in page if not one.why]
        for start in range(0, len(due) if publish else 0, DROPS_PER_TRIP):
            part = due[start : start + DROPS_PER_TRIP]
            told["dropped"] += sum(await found.drop(part, publish))
    return told


async def _trim(found: Retention, keep_events: int, *, dry_run: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"sessions": 0, "events": 0, "whole": 0, "stayed": dict[str, str]()}
    async for page in found.cuts(keep_events):
        cut: Cut
        for cut in page:
            removed = cut.removed if dry_run or cut.why else await found.trim(cut)
            if removed is None:
                told["stayed"][cut.session] = "it changed meanwhile"
            elif cut.why:
                told["stayed"][cut.session] = cut.why
            else:
                told["whole" if cut.first is None else "sessions"] += 1
                told["events"] += removed
    return told


@units.command("set", epilog=notes("units set board:1,todos:2", codes=f"0 said, {READING}"))
@with_settings()
def set_(settings: Settings, versions: Annotated[str, typer.Argument(metavar="KEY:VERSION,...")]) -> None:
    """Say which units rows are to hold from now on, so that workers with just these take over from newer ones.

    Say it when a roll-out is taken back: those that stepped down come back, once no newer one has beaten for a minute.
    """
    try:
        wanted = parse_mandate(versions)
    except InvalidMandate as error:
        end(USAGE, str(error))
    asyncio.run(ask(settings, lambda store: set_mandate(store.wire, store.keys, wanted)))


@units.command("clear", epilog=notes("units clear", codes=f"0 taken back, {READING}"))
@with_settings()
def clear(settings: Settings) -> None:
    """Take the word of `units set` back."""
    asyncio.run(ask(settings, lambda store: set_mandate(store.wire, store.keys, None)))


@units.command("show", epilog=notes("units show", codes=f"0 shown, {READING}"))
@with_settings()
def show(settings: Settings) -> None:
    """Print as JSON which units are mounted here, and what `units set` said last."""
    try:
        said = asyncio.run(ask(settings, lambda store: read_mandate(store.wire, store.keys)))
    except InvalidMandate as error:
        end(NO, str(error))
    print_json({"mounted": {unit.key: unit.state_version for unit in mounted_units()}, "set": said}, indented=True)
