"""Mutants of the write side: append, delete, and what a writer makes of their answers."""

from mutants.mutant import mutant

APPEND, DELETE = "tool/todo_write/append.lua", "tool/todo_write/delete.lua"
CALL = "tool/todo_write/append.py"
SCRIPT, FAULTS, DELETED = "test_append_script.py::", "test_log_under_faults.py::", "test_delete_script.py::"

MUTANTS = [
    mutant(
        *("tail by position alone", 1, APPEND),
        " and op_of(tail) == expected_op then",
        " then",
        SCRIPT + "test_trace_1_an_event_lost_by_a_fail_over_is_told_though_another_took_its_position",
        SCRIPT + "test_rewound_is_told_when_another_op_stands_at_the_tail_one_expects",
    ),
    mutant(
        *("overtaken place by position alone", 1, APPEND),
        "if op_of(before) ~= expected_op then return answer('rewound') end",
        "",
        SCRIPT + "test_rewound_is_told_when_another_op_stands_where_one_expects_and_the_log_went_on",
    ),
    mutant(
        *("own op taken for another's", 2, APPEND),
        "if op_of(wanted) == op then",
        "if false then",
        SCRIPT + "test_landed_is_told_to_a_repeat_whose_earlier_try_got_there",
        FAULTS + "TestRepeats::test_an_answer_that_is_lost_is_found_again",
    ),
    mutant(
        *("another op each try", 2, CALL),
        "self.tail.op, self.op, *self._fields]",
        "self.tail.op, token(), *self._fields]",
        FAULTS + "TestRepeats::test_an_answer_that_is_lost_is_found_again",
    ),
    mutant(
        *("half a call counts as landed", 2, APPEND),
        "return #entries == count",
        "return true",
        SCRIPT + "test_rewound_is_told_when_only_a_part_of_the_call_stands",
    ),
    mutant(
        *("unknown answered as moved", 3, APPEND),
        "if not wanted then return answer('unknown') end",
        "if not wanted then return answer('moved') end",
        SCRIPT + "test_trace_3_a_log_trimmed_between_try_and_repeat_is_not_taken_for_moved",
    ),
    mutant(
        *("unknown read as moved", 3, CALL),
        'if word == b"moved":',
        'if word in (b"moved", b"unknown"):',
        FAULTS + "TestLoss::test_a_trimmed_log_is_told_as_unknown_never_as_moved",
    ),
    mutant(
        *("a call goes on in another epoch", 3, APPEND),
        "if tail and tail[1] == expected and",
        "if tail and select(2, parse(tail[1])) == seq and",
        SCRIPT + "test_trace_2_a_call_does_not_move_into_another_history",
        SCRIPT + "test_rewound_is_told_when_the_log_is_of_another_epoch",
    ),
    mutant(
        *("a call moves into another epoch", 3, APPEND),
        "if epoch ~= tail_epoch or tail_seq <= seq then",
        "if tail_seq <= seq then",
        SCRIPT + "test_rewound_is_told_when_the_log_is_of_another_epoch",
    ),
    mutant(
        *("a loss is told again and again", 3, CALL),
        "expected, self.tail = self.tail, _tail_from(",
        "expected, _ = self.tail, _tail_from(",
        FAULTS + "TestLoss::test_it_is_told_once_and_then_the_servers_tail_is_taken",
    ),
    mutant(
        *("no epoch floor from the row", 4, APPEND),
        "if folded then epoch = math.max(epoch, folded + 1) end",
        "",
        SCRIPT + "test_trace_4_a_log_begun_again_under_a_slower_clock_is_above_the_surviving_row",
        SCRIPT + "test_the_epoch_is_above_the_one_the_row_remembers",
    ),
    mutant(
        *("no epoch floor from an emptied log", 4, APPEND),
        "then epoch = math.max(epoch, parse(info[n + 1]) + 1) end",
        "then epoch = epoch end",
        SCRIPT + "test_the_epoch_is_above_the_one_of_an_emptied_log",
    ),
    mutant(
        *("a late try begins a deleted log again", 4, APPEND),
        "expected ~= 'new' or begun_before()",
        "expected ~= 'new'",
        DELETED + "test_a_late_try_of_the_call_that_began_a_deleted_log_begins_no_other",
    ),
    mutant(
        *("a late try moves into the log after a deleted one", 4, APPEND),
        "if expected == 'new' and begun_before() then",
        "if false then",
        DELETED + "test_a_late_try_of_the_call_that_began_a_deleted_log_does_not_move_into_the_next",
    ),
    mutant(
        *("a tombstone without the position", 4, DELETE),
        "redis.call('HSET', row, 'pos', pos, 'etag'",
        "redis.call('HSET', row, 'pos', '0-0', 'etag'",
        DELETED + "test_back_to_back_pairs_of_delete_and_create_always_rise",
        DELETED + "test_log_values_index_and_marks_go_and_a_tombstone_stays_for_a_week",
    ),
    mutant(
        *("an entry without a pointer", 5, APPEND),
        "redis.call('XADD', feed, '*', 's', session, 'i', id, 'o', op, 't', type)",
        "",
        SCRIPT + "test_ok_appends_behind_the_expected_event_and_points_to_each_event",
    ),
    mutant(
        *("a password in messages", 21, "tool/todo_write/settings.py"),
        'return _PASSWORD.sub(lambda found: f"{found[1] or found[2]}***", url)',
        "return url",
        "test_settings_tool.py",
    ),
    mutant(
        *("the pure core imports redis", 19, "tool/todo_write/unit.py"),
        "\nimport msgspec\n",
        "\nimport msgspec\nimport redis as redis\n",
        "test_house.py::test_a_pure_module_imports_msgspec_the_standard_library_and_pure_ones_only",
    ),
]
