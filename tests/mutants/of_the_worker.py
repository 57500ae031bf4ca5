"""Mutants of the worker's side: commit, feeds, recovery, fold, repair."""

from mutants.mutant import Mutant, mutant

PACKAGE = "worker/todo_projection/"
COMMIT, FEED, WORKER = PACKAGE + "commit.lua", PACKAGE + "feed.py", PACKAGE + "worker.py"
ADVANCE, CHANGE, FOLD = PACKAGE + "advance.py", PACKAGE + "change.py", PACKAGE + "fold.py"
FORKS, AUDITS = "test_forks.py::", "test_audit.py::"
COMMITS, FEEDS, WORKERS = "test_commit.py::", "test_feed.py::", "test_worker.py::"
PROJECTOR, TROUBLE = "test_projector.py::", "test_projector_in_trouble.py::"
XCLAIMS = """
        loud = [(p, id) for p, (_, ids, _) in replies.items() for id in ids]
        await self._commands.pipeline([("XCLAIM", self._feeds[p], GROUP, self.consumer, 0, id) for p, id in loud])"""

COMMIT_MUTANTS = [
    mutant(
        *("no compare of the etag", 6, COMMIT),
        "if (stored[1] or '') ~= etag then return 'conflict' end",
        "",
        COMMITS + "test_conflict_when_the_row_is_not_the_one_that_was_read",
    ),
    mutant(
        *("no look for the pointer", 6, COMMIT),
        "if not pointer_stands(ARGV[4], ARGV[5], ARGV[6], ARGV[7]) then return { 'rewound' } end",
        "",
        COMMITS + "test_rewound_when_the_highest_pointer_is_gone",
    ),
    mutant(
        *("pointer without its op", 6, COMMIT),
        "and field.i == i and field.o == o",
        "and field.i == i",
        COMMITS + "test_rewound_when_another_pointer_stands_under_its_id",
    ),
    mutant(
        *("nothing is acknowledged", 7, COMMIT),
        "if last_done >= first_done then in_chunks(",
        "if false then in_chunks(",
        COMMITS + "test_ok_writes_row_and_indexes_publishes_and_acknowledges",
    ),
    mutant(
        *("acknowledged in spite of a conflict", 7, COMMIT),
        "~= etag then return 'conflict' end",
        "~= etag then acknowledge(n) return 'conflict' end",
        COMMITS + "test_conflict_when_the_row_is_not_the_one_that_was_read",
    ),
    mutant(
        *("old pointers acknowledged unseen", 7, COMMIT),
        "if (stored[1] or '') ~= etag then",
        "if (stored[1] or '') ~= etag and ARGV[starts[n] + SETS] ~= '0' then",
        COMMITS + "test_an_old_pointer_is_not_acknowledged_over_a_row_that_went_back",
    ),
    mutant(
        *("trimmed beyond the lowest pending", 8, COMMIT),
        "redis.call('XTRIM', feed, 'MINID', '=', pending[2])",
        "redis.call('XTRIM', feed, 'MINID', '=', pending[3])",
        COMMITS + "test_the_feed_is_trimmed_below_the_oldest_pending_pointer",
    ),
    mutant(
        *("trimmed by what was acknowledged last", 8, COMMIT),
        "string.match(field['last-delivered-id'], ",
        "string.match(ARGV[4], ",
        COMMITS + "test_nothing_unread_is_trimmed_after_the_group_was_lost_and_made_again",
    ),
    mutant(
        *("one session breaks the batch", 11, COMMIT),
        "if fine then fine, word = pcall(write, n, tombstones[n]) end",
        "if fine then fine, word = true, write(n, tombstones[n]) end",
        COMMITS + "test_a_session_that_may_not_be_written_stays_pending_and_its_neighbours_are_committed",
    ),
    mutant(
        *("one look at a row breaks the batch", 11, COMMIT),
        "local fine, word, is_tombstone = pcall(refusal, n, looked and new)",
        "local fine, word, is_tombstone = true, refusal(n, looked and new)",
        COMMITS + "test_a_row_that_can_not_even_be_marked_holds_up_no_other",
    ),
    mutant(
        *("one index entry breaks the batch", 11, COMMIT),
        "if not indexed then fine, word = pcall(index, { n }) end",
        "",
        COMMITS + "test_what_one_session_can_not_have_in_an_index_holds_up_no_other",
    ),
    mutant(
        *("a row is taken for new unseen", 6, COMMIT),
        "if new or redis.call('EXISTS', row) == 0 then return nil, false end",
        "if true then return nil, false end",
        COMMITS + "test_a_row_that_must_be_new_is_written_only_where_no_key_is",
    ),
    mutant(
        *("types are not checked first", 11, COMMIT),
        "if wrong then return redis.error_reply(wrong) end",
        "",
        COMMITS + "test_a_key_of_the_partition_of_another_type_is_refused_before_the_first_write",
    ),
    mutant(
        *("all arguments at once", 11, COMMIT),
        "local CHUNK = 500",
        "local CHUNK = 50000",
        COMMITS + "test_twenty_thousand_pointers_of_one_session_in_one_commit",
    ),
    mutant(
        *("a key that was not given", 20, COMMIT),
        "find_changes()\ncommit_all()",
        "redis.call('EXISTS', feed .. 's')\nfind_changes()\ncommit_all()",
        COMMITS + "test_only_the_declared_keys_and_channels_are_touched",
    ),
]

FEED_MUTANTS = [
    mutant(
        *("ids without an entry stay pending", 7, FEED),
        "await self._release([pair for pair, entries",
        "await self._release([pair for pair, entries in () for pair, entries",
        FEEDS + "test_ids_whose_entry_is_gone_leave_the_pending_list",
    ),
    mutant(
        *("own pending is not first", 9, WORKER),
        "self._recovering, self._sweep, self._sweep_at = True, None, 0.0",
        "self._recovering, self._sweep, self._sweep_at = False, None, 0.0",
        WORKERS + "test_what_was_delivered_and_never_arrived_is_taken_up_at_once",
        WORKERS + "test_what_is_left_of_a_batch_whose_end_was_lost_is_taken_up_at_once",
    ),
    mutant(
        *("own pending read from 0", 9, FEED),
        'pending = await self._each("XPENDING", GROUP, "-"',
        'await self._reads.command("XREADGROUP", "GROUP", GROUP, self.consumer, "STREAMS", *self._feeds, '
        '*(["0"] * len(self._feeds)))\n        pending = await self._each("XPENDING", GROUP, "-"',
        FEEDS + "test_own_pending_looked_at_ten_times_is_no_delivery_and_no_activity",
    ),
    mutant(
        *("being taken over counts as a death", 10, FEED),
        "replies = dict(zip(cursors, settled(await self._commands.pipeline(claims)), strict=True))",
        "replies = dict(zip(cursors, settled(await self._commands.pipeline(claims)), strict=True))" + XCLAIMS,
        FEEDS + "test_what_another_holds_for_long_is_taken_over_without_counting_as_delivered",
    ),
    mutant(
        *("deaths are not counted", 10, FEED),
        "if owner.decode() not in alive",
        "if owner.decode() in ()",
        "test_killers.py::test_its_workers_die_until_it_is_skipped_and_the_others_are_projected",
    ),
    mutant(
        *("many that may kill in hand at once", 10, FEED),
        "likely = await self._of_one_session(suspects)",
        "likely = [(p, id) for _, p, id in suspects]",
        FEEDS + "test_of_the_sessions_that_may_kill_one_is_in_hand_at_a_time",
    ),
    mutant(
        *("a killer is tried for ever", 10, PACKAGE + "killers.py"),
        "return self.deaths >= DEATHS_SKIPPED",
        "return False",
        "test_killers.py::test_the_least_likely_is_tried_first_and_the_surest_not_at_all",
    ),
    mutant(
        *("what a slow worker holds is never claimed", 9, WORKER),
        "self._sweep, idle_ms_min=2 * self._settings.claim_idle_ms)",
        "self._sweep, idle_ms_min=10**9)",
        WORKERS + "test_what_a_worker_holds_that_beats_on_is_taken_over_without_a_death",
    ),
]

FOLD_MUTANTS = [
    mutant(
        *("an older worker goes on", 12, ADVANCE),
        "        if ahead:\n",
        "        if False:\n",
        TROUBLE + "test_a_row_of_a_newer_worker_is_not_touched",
        WORKERS + "test_an_older_worker_steps_down_and_leaves_what_it_read_to_a_newer_one",
    ),
    mutant(
        *("stepped down, it goes on reading", 12, WORKER),
        "            if self._stepped_down:\n",
        "            if False:\n",
        "test_mandate.py::test_an_older_worker_steps_down_reads_nothing_and_comes_back_when_told",
    ),
    mutant(
        *("it comes back without a word", 12, WORKER),
        "if await read_mandate(self._commands, parts.keys) == parts.projector.versions:",
        "if True:",
        "test_mandate.py::test_no_word_brings_it_back_while_a_newer_worker_beats_or_when_it_asks_for_others",
    ),
    mutant(
        *("a lacking unit is not folded", 12, ADVANCE),
        "if row.versions.get(key) != version)",
        "if row.versions.get(key) is ...)",
        TROUBLE + "test_a_unit_a_row_lacks_is_folded_from_the_start_and_nothing_is_told_of_it",
    ),
    mutant(
        *("poison stops the session", 13, FOLD),
        "except Exception as error:  # noqa: BLE001 - whatever a unit raises, the event is poison to it",
        "except ZeroDivisionError as error:",
        "test_units.py::test_a_broken_write_keeps_the_last_good_value_and_marks_it_until_the_next_good_one",
    ),
    mutant(
        *("a mark is left out", 13, FOLD),
        "self._mark, self.changed, self.time = marked(self._mark, seq, reason, time), True, time",
        "self.changed, self.time = False, time",
        TROUBLE + "test_poison_is_marked_in_the_commit_that_meets_it_and_healed_by_the_next_good_write",
    ),
    mutant(
        *("a new log goes on with the old state", 14, ADVANCE),
        "cells = row.cells if row.position is not None and row.position.epoch == epoch else dict[str, Cell]()",
        "cells = row.cells",
        PROJECTOR + "test_a_log_of_a_greater_epoch_starts_every_unit_anew",
    ),
    mutant(
        *("a change without a new rev", 15, CHANGE),
        "if told or not row.exists:",
        "if not row.exists:",
        PROJECTOR + "test_each_change_is_told_once_with_a_rev_that_rises_by_one",
    ),
    mutant(
        *("a mark is no news", 15, CHANGE),
        "if (cell.value, cell.mark) != (value, mark):",
        "if cell.value != value:",
        TROUBLE + "test_a_log_with_a_gap_is_marked_once_and_not_folded",
        TROUBLE + "test_poison_is_marked_in_the_commit_that_meets_it_and_healed_by_the_next_good_write",
    ),
    Mutant(
        *("a refold to the same is told", 15, CHANGE),
        [
            ('if value == b"null" or cell.at is None or cell.at == at:', "if False:"),
            ("return row.position is None or cell.at > row.position", "return True"),
        ],
        [TROUBLE + "test_a_lower_version_is_folded_again_and_only_a_changed_value_is_told"],
    ),
    mutant(
        *("words of a plan in the log", 21, FOLD),
        "can't read what is stored ({type(error).__name__})",
        "can't read what is stored ({error}, {error.__cause__})",
        TROUBLE + "test_a_value_its_unit_can_not_read_is_folded_again",
        PROJECTOR + "test_no_text_of_a_plan_gets_into_the_log",
    ),
    mutant(
        *("the audit finds nothing", 8, PACKAGE + "audit.py"),
        "lost = await self._suspects.judge()",
        "lost: list[Look] = []",
        "test_audit.py::test_after_a_feed_was_deleted_its_rows_get_where_their_logs_are",
    ),
    mutant(
        *("the audit points at what waits", 8, PACKAGE + "suspects.py"),
        "return ms is None or ms > first.seen_ms",
        "return True",
        "test_audit.py::test_a_row_behind_only_because_its_pointer_waits_is_not_pointed_at_twice",
    ),
    mutant(
        *("the audit takes two histories for one", 8, PACKAGE + "suspects.py"),
        "_op_of(entries) == first.op",
        "True",
        AUDITS + "test_nor_one_whose_log_lost_its_tail_and_grew_again_between_two_looks",
    ),
]

REWIND_MUTANTS = [
    mutant(
        *("another event where the row stands is passed over", 22, ADVANCE),
        "if _is_forked(row, span):",
        "if False:",
        FORKS + "test_a_worker_that_is_pointed_at_another_event_where_the_row_stands_folds_it_again",
    ),
    mutant(
        *("a fork is taken for the same log", 22, PACKAGE + "look.py"),
        "and folded and op and folded != op:",
        "and False:",
        FORKS + "test_without_a_pointer_the_audit_finds_it",
    ),
    mutant(
        *("a mark outlives its gap", 13, FOLD),
        "if self._mark is not None and self._mark.seq > after:",
        "if False:",
        FORKS + "test_a_mark_goes_when_what_was_missing_is_there_again",
    ),
    mutant(
        *("the last events are taken for enough", 13, FOLD),
        "        if told is None and is_part:\n            return False\n",
        "",
        "test_folding.py::test_all_are_read_where_the_last_do_not_tell_since_when_an_item_is_in_progress",
    ),
    mutant(
        *("poison is taken for what replaces a plan", 13, "tool/todo_write/unit.py"),
        "                    sound_todos(events[n])\n",
        "",
        "test_units.py::test_a_unit_keeps_the_laws",
    ),
    mutant(
        *("an item is taken for newly begun", 13, PACKAGE + "board.py"),
        "if event.type == TURN_START or lasting == frozenset():",
        "if event.type == TURN_START or lasting is not None:",
        "test_folding.py::test_all_are_read_where_the_last_do_not_tell_since_when_an_item_is_in_progress",
    ),
    mutant(
        *("a refold that was asked for is forgotten", 8, PACKAGE + "look.py"),
        "if self.standing is Standing.EVEN and self.is_asked:",
        "if False:",
        AUDITS + "test_a_refold_that_was_asked_for_is_done_though_its_pointer_was_lost",
    ),
]

MUTANTS: list[Mutant] = [*COMMIT_MUTANTS, *FEED_MUTANTS, *FOLD_MUTANTS, *REWIND_MUTANTS]
