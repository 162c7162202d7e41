from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from photon.dispatcher.shift.deletable_files import LookedForUnmatched, deletable, files_of
from photon.dispatcher.shift.growth import Growth, LogSize
from photon.dispatcher.shift.lease import Lease, LeaseStatus
from photon.dispatcher.shift.people import Decisions
from photon.health.facts import Facts
from photon.health.headline import headline, sentences
from photon.health.judge import PROMISES
from photon.health.stages import Orders, PlannedWork, Stages
from photon.health.status import DatacenterStatus, LogStatus
from photon.health.verdict import Verdict
from photon.logs.files import ByteRange, LogFile, Side, TrackedFile
from photon.process.clock import MICROSECONDS
from photon.process.pace import size
from photon.state.completeness.estimate import Completeness
from photon.state.losses import Losses
from photon.state.outcomes import Counts
from photon.state.plan import PlanContent
from photon.state.view import StateView
from photon.state.waiting.reasons import REASONS, WHY

NOW_US = 1_700_000_000 * MICROSECONDS
START = "photon join p.yaml -d east"


def status(
    *,
    is_run: bool = True,
    silent_seconds: float = 0,
    waits_for: str = "",
    failed_tries: int = 0,
    unread: tuple[int, int] = (0, 0),  # bytes in the primary and the foreign log
    state: dict[str, Any] | None = None,
    broken: Iterable[Verdict] = (),
    facts: dict[str, Any] | None = None,
    **details: Any,
) -> DatacenterStatus:
    """Return east's status: by default it runs and has read everything; a wait has lasted 3 minutes."""
    lease = Lease(7, "host", "", NOW_US, waits_for=waits_for, waits_since_us=NOW_US - 180 * MICROSECONDS)
    lease = replace(lease, failed_tries=failed_tries)
    beat_us = NOW_US - round(silent_seconds * MICROSECONDS)
    logs = [LogSize(1, 100, unread_bytes) for unread_bytes in unread]
    view = StateView(**{"epoch": "e", "completed": 1, "counts": Counts(), **(state or {})})
    growth = Growth(*logs, "seen", view, 0.0)
    found = Facts("east", NOW_US, growth, LeaseStatus(lease, is_run, beat_us), **(facts or {}))
    sizes = {"primary": LogStatus(1, 0, 100, 0), "foreign": LogStatus(1, 0, 100, 0)}
    well = {promise: (Verdict("ok", f"east: {promise}"),) for promise in PROMISES}
    verdicts = {**well, "broken": tuple(broken)} if broken else well
    return DatacenterStatus(found, verdicts, **(sizes | details))


ON_HOLD = {"decisions": Decisions(on_hold=frozenset({"east"}))}
RETIRED = {"decisions": Decisions(retired=frozenset({"east"}))}
GIBS = 3 * 2**30


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "east is live, and nothing waits"),
        ({"waiting": {"primary": 1_200, "home": 3}}, "east is live; 1,203 events wait"),
        ({"unread": (GIBS, 0)}, "east is catching up: 3.0 GiB of primary and 0 bytes of foreign logs wait"),
        ({"is_run": False}, "east is at rest: all that is in its logs was read, and nothing waits"),
        (
            {"is_run": False, "unread": (0, GIBS)},
            f"east is NOT RUNNING, and 3.0 GiB of its logs wait: start it with {START}",
        ),
        ({"state": {"epoch": None}, "is_run": False}, f"east has never run: start it with {START}"),
        (
            {"silent_seconds": 90},
            "east is SILENT: no sign of life for 90 s; look at its log",
        ),
        (
            {"silent_seconds": 31},
            "east is SILENT: no sign of life for 31 s; look at its log",
        ),
        (
            {"waits_for": "lake: no space"},
            "east WAITS for 3 min: lake: no space; mend that, and it goes on by itself",
        ),
        (
            {"waits_for": "lake: no space; make it writable, it is tried again"},
            "east WAITS for 3 min: lake: no space; make it writable, it is tried again",
        ),
        (
            {"failed_tries": 3},
            "east FAILS: batch after batch, so it joins nothing; NEEDS YOU below says what to do",
        ),
        (
            {"facts": ON_HOLD, "is_run": False, "unread": (0, GIBS)},
            "east is ON HOLD; 3.0 GiB of its logs wait; resume it with photon resume p.yaml east",
        ),
        (
            {"facts": ON_HOLD},
            "east is ON HOLD; its process ends within seconds; resume it with photon resume p.yaml east",
        ),
        (
            {"facts": RETIRED, "is_run": False, "state": {"epoch": None}},
            "east is RETIRED: it was given up as lost, and never runs again",
        ),
    ],
)
def test_one_sentence_says_how_a_datacenter_stands(changes: dict[str, Any], said: str):
    assert headline(status(**changes), "p.yaml") == said


def test_what_waits_is_told_with_its_reason_and_its_age():
    one = status(waiting={"held": 2}, waiting_by_age={"within a minute": 1, "within an hour": 1})
    assert sentences(one) == [
        "2 events wait until the datacenter that holds them has closed its batch",
        "they were first seen: 1 within a minute, 1 within an hour",
    ]


def test_each_reason_has_the_age_of_its_oldest_event():
    stages = Stages(oldest_waiting_seconds={"primary": 7_300.0})
    (said, _) = sentences(status(waiting={"primary": 3}, stages=stages))
    assert (
        said == "3 events wait for a primary event that is in no log yet; the oldest was first seen 2 h ago"
    )


def test_what_is_planned_and_ordered_is_told_stage_by_stage():
    stages = Stages(
        uncommitted=PlannedWork(1, 2**20, 2**21, 5, batch=17, attempt=2),
        requeued=PlannedWork(3, 0, 0, 1_200),
        orders=Orders(2, 150.0),
    )
    assert sentences(status(stages=stages)) == [
        "batch 17 is planned and not committed, attempt 2: 1.0 MiB of primary logs, 2.0 MiB of foreign logs, "
        "5 records that waited",
        "3 plans are taken up again before anything new: 0 bytes of primary logs, 0 bytes of foreign logs, "
        "1,200 records that waited",
        "2 work orders wait until it has finished its batch, the oldest for 2 min",
    ]
    said = sentences(status(stages=stages, is_run=False))
    assert "2 work orders wait until it runs again, the oldest for 2 min" in said


def test_log_files_that_need_not_be_kept_are_told_with_their_size():
    log = LogStatus(2, 0, 100, 0, ("a.log",), 2**30)
    (said,) = sentences(status(foreign=log))
    assert said == "1 log file (1.0 GiB) may be deleted: see --safe-to-delete"


def test_copies_of_logs_that_were_deleted_unread_are_told_with_their_size():
    (said,) = sentences(status(kept_log_bytes=2**20))
    assert said == "1.0 MiB of logs that were deleted unread are kept for a week"


def test_each_reason_to_wait_has_its_words():
    assert WHY.keys() == {"requeued", *(reason.name for reason in REASONS)}


def test_the_headline_is_not_said_twice():
    broken = Verdict("error", "east: nobody has run it", "start it", "is not running", is_in_headline=True)
    one = status(broken=[broken])
    assert (sentences(one), one.problems) == ([], ["east: nobody has run it. What to do: start it"])


def test_what_needs_somebody_comes_last():
    lost = {"state": {"counts": Counts(lost_bytes=2048)}, "facts": {"lost": Losses(other_bytes=2048)}}
    unread = Verdict("warn", "east: a.log can't be read, and 1 more", "mend it", names=("a.log", "b.log"))
    assert sentences(status(**lost, broken=[unread])) == [
        "2.0 KiB of logs went away before they were read",
        "NEEDS YOU: a.log can't be read, and 1 more. What to do: mend it",
        "  b.log",
    ]


def test_a_loss_that_people_know_of_is_still_said():
    (said,) = sentences(status(state={"counts": Counts(lost_bytes=2048)}))
    assert said == "2.0 KiB of logs went away before they were read, which people know of"


@pytest.mark.parametrize(
    ("count_bytes", "said"),
    [
        (0, "0 bytes"),
        (1023, "1,023 bytes"),
        (1536, "1.5 KiB"),
        (150 * 2**20, "150 MiB"),
        (2**51, "2,048 TiB"),
    ],
)
def test_a_number_of_bytes_for_people(count_bytes: int, said: str):
    assert size(count_bytes) == said


# -- log files that nobody needs any more


def file(number: int = 1, side: Side = "foreign", **changes: object) -> TrackedFile:
    log_file = LogFile(number, side, f"{number}.log", number, False, b"", 0, 1, b"h")
    values: dict[str, object] = {
        "offset_bytes": 100,
        "tail_hash": b"",
        "inside_oversized": False,
        "size_bytes": 100,
        "grown_us": NOW_US - 10,
        "max_time_us": 50,
    }
    return TrackedFile(log_file, **(values | changes))  # type: ignore[arg-type]


def complete(up_to_us: int | None, read_us: int | None = None, waiting: int = 1) -> Completeness:
    return Completeness("e", 1, NOW_US, read_us or up_to_us, up_to_us, up_to_us, 0.999, waiting, 9, 0)


COMPLETE = complete(NOW_US)


def is_deletable(
    tracked: TrackedFile,
    needed: tuple[int, ...] = (),
    said: Completeness | None = COMPLETE,
    looked: LookedForUnmatched | None = None,
) -> bool:
    return bool(deletable([tracked], needed, said, NOW_US, idle_us=10, looked=looked))


def test_a_file_that_was_read_and_has_not_grown_may_go():
    assert is_deletable(file())
    assert is_deletable(file(side="primary"))


@pytest.mark.parametrize(
    "changes",
    [
        {"offset_bytes": 99},
        {"grown_us": NOW_US - 9},
        {"grown_us": NOW_US + 9},
        {"modified_ns": (NOW_US - 9) * 1_000},
        {"state": "gone"},
    ],
)
def test_a_file_stays_that_has_unread_bytes_or_grew_or_is_gone(changes: dict[str, object]):
    assert not is_deletable(file(**changes))


def test_a_file_of_a_plan_stays():
    content = PlanContent(foreign=(ByteRange(1, 0, 10, 0, 1),))
    assert not is_deletable(file(), needed=tuple(files_of([content])))


@pytest.mark.parametrize("side", ["primary", "foreign"])
@pytest.mark.parametrize(
    ("said", "may_go"),
    [
        (None, False),
        (complete(None), False),
        (complete(51), True),
        (complete(50), False),  # an event of its latest moment may wait
        (complete(50, waiting=0), True),  # nothing does
        (complete(49, waiting=0), False),
    ],
)
def test_a_file_stays_until_rows_are_complete_up_to_its_latest_event(
    side: Side, said: Completeness | None, may_go: bool
):
    assert is_deletable(file(side=side), said=said) is may_go


@pytest.mark.parametrize(
    ("looked", "may_go"),
    [
        (None, True),  # nobody looks
        (LookedForUnmatched(), False),
        (LookedForUnmatched(50, None, NOW_US), False),  # an event of its latest moment is not due
        (LookedForUnmatched(51, None, NOW_US), True),  # another datacenter has looked at its copy
        (LookedForUnmatched(51, None, NOW_US - 1), False),  # of before the copy can be there for certain
        (LookedForUnmatched(51), False),
        (LookedForUnmatched(51, {}), False),
        (LookedForUnmatched(51, {1: 99}), False),
        (LookedForUnmatched(51, {1: 100}), True),
        (LookedForUnmatched(50, {1: 100}), False),
    ],
)
def test_a_primary_file_stays_until_its_unmatched_events_are_written(
    looked: LookedForUnmatched | None, may_go: bool
):
    assert is_deletable(file(side="primary"), looked=looked) is may_go
    assert is_deletable(file(side="foreign"), looked=looked)


def test_a_wild_time_does_not_keep_a_file_for_ever():
    assert is_deletable(file(max_time_us=NOW_US * 9))


def test_a_file_without_a_time_holds_nobody_back():
    assert is_deletable(file(max_time_us=None), said=complete(1))
