"""Affinity: each feed has one reader, shares change hands in order, and what stands still is read by somebody."""

from todo_projection.affinity import UNMOVED_S, Affinity, owner

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


def test_what_does_not_move_is_a_stray_and_what_only_is_old_is_not() -> None:
    one = affinity("a")
    one.meet({"a", "b"}, now=0)
    assert one.strays({1: b"5-0", 2: b"5-0", 3: None}, now=0) == []
    assert one.strays({1: b"5-0", 2: b"6-0", 3: b"7-0"}, now=UNMOVED_S) == [1]
    assert one.strays({1: None, 2: b"7-0", 3: b"7-0"}, now=2 * UNMOVED_S) == [3]
    assert one.strays({1: b"9-0", 2: b"7-0", 3: b"7-0"}, now=3 * UNMOVED_S) == [2, 3]
