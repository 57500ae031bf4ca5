"""What commands of looking and repair show to people: findings, marks, explanations."""

from datetime import UTC, datetime

from rich.console import Group
from rich.text import Text

from todo_projection.explanation import Cause, Commit, Explanation, Waiting
from todo_projection.marks import Stale
from todo_projection.plain import cut, plain
from todo_projection.state import age
from todo_projection.verify import Finding

VALUE_CELLS = 400


def finding_view(finding: Finding) -> Text:
    """A session that is not as its log says, with what is stored and what should be, one below the other."""
    view = Text(plain(finding.session), "bold").append(f"  {plain(finding.why)}", "not bold")
    for name, difference in finding.differences.items():
        view.append(f"\n  {name}\n    stored  {cut(difference.stored, VALUE_CELLS)}", "not bold")
        view.append(f"\n    folded  {cut(difference.folded, VALUE_CELLS)}", "not bold")
    return view


def stale_view(stale: Stale) -> Text:
    """A mark, its event, and what heals it."""
    view = Text(plain(stale.session_id), "bold")
    if stale.unit:
        event = f"event {stale.seq}" if stale.type is None else f"event {stale.seq}, {stale.type}"
        view.append(f"  {stale.unit}: {plain(event)}, since {_time(stale.since)}", "not bold")
    view.append(f"\n  why    {plain(stale.reason)}\n  heals  {plain(stale.heals)}", "not bold")
    return view


def explanation_view(found: Explanation) -> Group:
    """An explanation as lines."""
    lines = [
        Text(plain(found.session_id), "bold").append(f"  {found.standing}{_why(found)}", "not bold"),
        Text(f"  log    ends with {found.tail or 'nothing'}" + ("; adopted with its holes" if found.partial else "")),
        Text(f"  row    folded up to {found.row or 'nothing'}, rev {found.rev or 'none'}"),
    ]
    for key, value in found.values.items():
        lines.append(Text(f"  {key}  set by {_cause(value.cause)}{_commit(value.committed)}{_anew(value.version)}"))
    lines += [Text("  stale  ", "magenta").append(f"{one.unit}: {plain(one.reason)}") for one in found.stale]
    lines.append(Text(_waiting_text(found)))
    lines += [Text(f"    {_pointer(one, found.now)}") for one in found.waiting]
    more = f", {len(found.next)} of them shown" if found.next_count > len(found.next) else ""
    count = "1 event" if found.next_count == 1 else f"{found.next_count} events"
    lines.append(Text(f"  next   {count}{more}" if found.next_count else "  next   nothing"))
    for one in found.next:
        units = ", ".join(one.units)
        lines.append(
            Text(f"    {one.seq} {plain(one.type)}, " + (f"for {units}" if units else "only its position counts"))
        )
    return Group(*lines)


def _why(found: Explanation) -> str:
    told = "; ".join(plain(text) for text in (found.why, found.foreign) if text)
    return f": {told}" if told else ""


def _cause(cause: Cause | None) -> str:
    if cause is None:
        return "no event: the value of an empty log"
    if cause.type is None:
        return f"{cause.position}, which is not in the log any more"
    return (
        f"{plain(cause.type)} at {cause.position}, appended {_time(cause.time)} by its writer's clock (op {cause.op})"
    )


def _commit(commit: Commit | None) -> str:
    return "" if commit is None else f", committed {_time(commit.time)} by {plain(commit.worker)}"


def _anew(version: int) -> str:
    return "" if version else "; to be folded anew"


def _waiting_text(found: Explanation) -> str:
    if found.waiting_count is None:
        return "  feed   too long to be looked through whole; of its first pointers:"
    if found.waiting_count == 1:
        return "  feed   1 pointer waits"
    return f"  feed   {found.waiting_count} pointers wait" if found.waiting_count else "  feed   nothing waits"


def _pointer(one: Waiting, now: int) -> str:
    since = f"{one.position} since {age(now - one.since)}"
    if one.consumer is None:
        return f"{since}, not read yet"
    times = "once" if one.delivered == 1 else f"{one.delivered} times"
    return f"{since}, delivered {times}, for {age(one.idle_ms)} in the hands of {plain(one.consumer)}"


def _time(ms: int | None) -> str:
    return "unknown" if ms is None else datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
