"""Affinity: each feed has one reader, shares change hands in order, and what stands still is read by somebody."""

from todo_projection.affinity import UNMOVED_AT_WORK_S, UNMOVED_S, Affinity, owner

PARTITIONS = 64
HANDOVER_S = 1.5


def affinity(name: str) -> Affinity:
    return Affinity(name, PARTITIONS, handover_s=HANDOVER_S)


def test_each_feed_has_one_reader_and_nobody_is_left_out() -> None:
    names = {"a", "b", "c", "d"}
    shares: list[list[int]] = []
    for name in sorted(names):
        one = affinity(name)
        one.meet(names, now=0)
        shares.append(one.own(now=HANDOVER_S))
        assert sorted([*shares[-1], *one.others(now=HANDOVER_S)]) == list(range(PARTITIONS))
    assert sorted(partition for share in shares for partition in share) == list(range(PARTITIONS))
    assert min(map(len, shares)) > 0


def test_whoever_is_alone_reads_everything_at_once() -> None:
    one = affinity("a")
    one.meet({"a"}, now=0)
    assert one.own(now=0) == list(range(PARTITIONS))


def test_one_that_comes_begins_when_the_others_must_know_of_it() -> None:
    late = affinity("b")
    late.meet({"a", "b"}, now=10)
    assert late.own(now=10 + HANDOVER_S - 0.1) == []
    assert late.others(now=10 + HANDOVER_S - 0.1) == list(range(PARTITIONS))  # nothing is nobody's meanwhile
    assert late.own(now=10 + HANDOVER_S) == [p for p in range(PARTITIONS) if owner(p, "ab") == "b"]


def test_one_that_goes_leaves_its_share_to_be_read_at_once_and_nothing_else_moves() -> None:
    one = affinity("a")
    one.meet({"a", "b", "c"}, now=0)
    before = set(one.own(now=5))
    one.meet({"a", "c"}, now=5)
    after = set(one.own(now=5))
    assert before < after
    assert {owner(p, "abc") for p in after - before} == {"b"}


def test_a_share_that_goes_to_another_is_dropped_at_once() -> None:
    one = affinity("a")
    one.meet({"a"}, now=0)
    one.meet({"a", "b"}, now=1)
    assert {owner(p, "ab") for p in one.own(now=1)} == {"a"}


def of_another(one: Affinity, other: str) -> list[int]:
    return [p for p in one.others(now=0) if owner(p, "abc") == other]


def test_what_does_not_move_is_a_stray_and_what_only_is_old_is_not() -> None:
    one = affinity("a")
    one.meet(set("abc"), now=0)
    (still, *_), (old, empty, *_) = of_another(one, "b"), of_another(one, "c")
    assert one.strays({still: b"5-0", old: b"5-0", empty: None}, now=0) == []
    assert one.strays({still: b"5-0", old: b"6-0", empty: b"7-0"}, now=UNMOVED_S) == [still]
    assert one.strays({still: None, old: b"7-0", empty: b"7-0"}, now=2 * UNMOVED_S) == []
    assert one.strays({still: b"9-0", old: b"7-0", empty: b"7-0"}, now=3 * UNMOVED_S) == [old, empty]
    assert one.strays({still: b"9-0", old: b"7-0", empty: b"7-0"}, now=4 * UNMOVED_S) == [still, old, empty]


def test_the_feeds_of_one_at_work_are_left_to_it_for_longer_and_not_for_ever() -> None:
    one = affinity("a")
    one.meet(set("abc"), now=0)
    moves, waits, *_ = of_another(one, "b")
    looks = [round * UNMOVED_S / 2 for round in range(40)]
    found = [now for now in looks if waits in one.strays({moves: b"%d-0" % (now * 2), waits: b"0-0"}, now)]
    assert found[0] == UNMOVED_AT_WORK_S
    assert one.strays({moves: b"39-0", waits: b"0-0"}, looks[-1] + UNMOVED_S) == [moves, waits]


def test_a_feed_that_moves_says_nothing_of_another_owner() -> None:
    one = affinity("a")
    one.meet(set("abc"), now=0)
    (moves, *_), (waits, *_) = of_another(one, "b"), of_another(one, "c")
    one.strays({moves: b"1-0", waits: b"1-0"}, now=0)
    assert one.strays({moves: b"2-0", waits: b"1-0"}, now=UNMOVED_S) == [waits]
