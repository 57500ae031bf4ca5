"""Mutants of the reader's side: the attach rule, the subscriber, slots."""

from mutants.mutant import Mutant, mutant

PACKAGE = "worker/todo_projection/"
ATTACH, SUBSCRIBER = PACKAGE + "attach.py", PACKAGE + "subscriber.py"
RULE, SUBSCRIBED, FAULTS = "test_attach.py::", "test_subscriber.py::", "test_subscriber_under_faults.py::"

MUTANTS = [
    Mutant(
        *("a baseline before the confirmation", 16, SUBSCRIBER),
        [
            ("self.views.want(_session_of(channel))", "_session_of(channel)"),
            (
                "await channels.subscribe(keys.channel(",
                "self.views.want(*(wanted.keys() - asked.keys()))\n            await channels.subscribe(keys.channel(",
            ),
        ],
        [SUBSCRIBED + "test_no_baseline_is_read_before_the_subscription_is_confirmed"],
    ),
    mutant(
        *("no baseline after a new subscription", 16, SUBSCRIBER),
        "self.views.want(_session_of(channel))",
        "if not self.views.watched[_session_of(channel)].attached:\n"
        "                        self.views.want(_session_of(channel))",
        FAULTS + "test_a_killed_subscription_is_told_and_what_it_missed_is_shown",
    ),
    mutant(
        *("frames lost while a baseline is read", 16, ATTACH),
        "            self._kept.put(frame)\n",
        "",
        RULE + "test_frames_that_come_while_the_baseline_is_read_are_applied_on_top_of_it",
    ),
    mutant(
        *("frames applied, then an older baseline", 16, ATTACH),
        "if self.reading or not self.attached:",
        "if not self.attached:",
        RULE + "test_frames_that_come_while_the_baseline_is_read_are_applied_on_top_of_it",
        RULE + "test_a_frame_of_a_cleared_list_then_an_older_snapshot_stays_cleared",
    ),
    mutant(
        *("a poll for newer only", 17, ATTACH),
        "return not asked.order < stored.order < self._whole.order",
        "return stored.order > self._whole.order",
        RULE + "test_a_row_that_is_not_equal_differs_be_it_older_newer_or_a_twin",
    ),
    mutant(
        *("no poll", 17, SUBSCRIBER),
        '            "rows": (self._poll, always),\n',
        "",
        FAULTS + "test_with_every_frame_dropped_it_shows_the_newest_within_five_seconds",
    ),
    mutant(
        *("a poll that reads every baseline", 17, SUBSCRIBER),
        "self.views.compare(session, asked, *_identity(row))",
        "self.views.doubt(session)",
        SUBSCRIBED + "test_events_that_change_no_plan_cost_no_baseline",
    ),
    mutant(
        *("a number as identity", 17, ATTACH),
        "if any(arrived.order == known.order and arrived.rev != known.rev for known in (held, whole)):",
        "if False:",
        RULE + "test_frames_of_two_commits_with_one_n_leave_doubt_whatever_their_keys",
    ),
    mutant(
        *("frames in any order", 16, ATTACH),
        "if arrived.order <= held.order:",
        "if arrived.order == held.order:",
        RULE + "test_a_frame_applies_when_it_is_newer_than_what_its_key_holds",
    ),
    mutant(
        *("a slow reader is buffered for", 18, PACKAGE + "subscription.py"),
        "self.frames[update.key] = update",
        'self.frames[f"{update.key} {update.rev}"] = update',
        SUBSCRIBED + "test_a_slow_reader_skips_to_the_newest",
    ),
]
