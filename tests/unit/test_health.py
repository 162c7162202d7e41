"""Verdicts on a datacenter, from looks that are made up: thresholds, patience, and what to do."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from photon.dispatcher.shift.growth import Growth, LogSize
from photon.dispatcher.shift.lease import FAILING_TRIES, NO_EXECUTOR, START_SECONDS, Lease, LeaseStatus
from photon.dispatcher.shift.people import Decisions
from photon.health.facts import Facts, PastVerification
from photon.health.facts import look as look_at
from photon.health.judge import PROMISES, WITHOUT_STATE, judge
from photon.health.memory import (
    FRESH_SECONDS,
    Memory,
    ToldVerdict,
    WatcherNotes,
    as_text,
    from_text,
    memory_beside,
)
from photon.health.verdict import Level, Verdict, level_of, passing, worst
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS
from photon.state.losses import Losses
from photon.state.outcomes import Counts
from photon.state.view import StateView
from photon.storage.foreign_commits import ForeignCommits
from tests.simulation.world import World
from tests.support.verdicts import found_in

NOW_US = 1_800_000_000 * MICROSECONDS
HOUR_US = 3_600 * MICROSECONDS
GIB = 2**30
SEEN = Lease(7, "host", "", NOW_US, idle_seen="seen")


def facts(
    seconds: float = 0.0, unread_bytes: int = 2048, lease: LeaseStatus | None = None, **more: Any
) -> Facts:
    """A look so many seconds later, at a datacenter at rest unless something else is said."""
    state = StateView(**{"epoch": "e", "counts": Counts(), **more.pop("state", {})})
    growth = Growth(LogSize(1, 10, unread_bytes), LogSize(1, 10, 0), "seen", state, more.pop("lag", None))
    now_us = NOW_US + round(seconds * MICROSECONDS)
    decided = {"on hold": {"on_hold": frozenset({"east"})}, "retired": {"retired": frozenset({"east"})}}
    decisions = more.pop("decisions", Decisions(**decided.get(more.pop("decision", ""), {})))
    return Facts("east", now_us, growth, lease or LeaseStatus(SEEN), decisions=decisions, **more)


def counts(foreign: int, lost_bytes: int = 0, **classes: int) -> dict[str, Counts]:
    return {"counts": Counts(foreign=foreign, lost_bytes=lost_bytes, classes=classes)}  # type: ignore[arg-type]


def verdicts(pipeline: Pipeline, *looks: Facts) -> dict[str, Verdict]:
    """Judge the last look, after the others."""
    memory = Memory()
    for look in looks:
        memory = memory.after(look)
    return found_in(looks[-1], memory, pipeline)


WORK = {"lease": LeaseStatus(replace(SEEN, idle_seen="other"))}


def test_a_datacenter_at_rest_keeps_every_promise(pipeline: Pipeline) -> None:
    found = verdicts(pipeline, facts(0), facts(10_000, verified=report(0)))
    assert found.keys() == PROMISES.keys()
    assert {verdict.level for verdict in found.values()} == {"ok"}


def test_a_join_that_was_refused_is_an_error_at_once_until_another_one_begins(pipeline: Pipeline) -> None:
    refused = replace(SEEN, refused="the registry is older than the lake: photon registry refill p.yaml")
    verdict = verdicts(pipeline, facts(0, lease=LeaseStatus(refused)))["works"]
    assert verdict.level == "error"
    assert "photon registry refill p.yaml" in verdict.text
    begun = facts(0, lease=LeaseStatus(refused, is_locked=True, beat_us=NOW_US))
    assert verdicts(pipeline, begun)["works"].level == "ok"


def told(pipeline: Pipeline, *looks: Facts) -> list[dict[str, Verdict]]:
    """What a watcher tells after each of these looks."""
    memory, said = Memory(), []
    for look in looks:
        found, memory = judge(look, memory, pipeline)
        said.append({promise: worst(each) for promise, each in found.items()})
    return said


def red(pipeline: Pipeline, promise: str, *looks: Facts) -> list[bool]:
    """At which of these looks a check is no more well, and that for sure."""
    said = (one[promise] for one in told(pipeline, *looks))
    return [one.level == "error" and not one.is_unsure for one in said]


def test_work_that_nobody_does_is_told_after_half_a_minute(pipeline: Pipeline) -> None:
    looks = [facts(seconds, **WORK) for seconds in (0, 29, 30)]
    assert red(pipeline, "works", *looks) == [False, False, True]
    verdict = told(pipeline, *looks)[-1]["works"]
    assert "nobody has run it for 30 s; 2.0 KiB of its logs are unread" in verdict.text
    assert "sensor" in verdict.remedy


@pytest.mark.parametrize(
    "trouble", [{"lake": ("gives no answer",)}, {"put_back": "is older"}, {"refused": "x"}]
)
def test_what_a_look_finds_of_a_lake_is_an_alarm_once_two_looks_over_half_a_minute_have_found_it(
    pipeline: Pipeline, trouble: dict[str, Any]
) -> None:
    bad, good = (lambda seconds: facts(seconds, **trouble)), facts
    assert red(pipeline, "works", bad(0), bad(10), bad(20), bad(30)) == [False, False, False, True]
    assert red(pipeline, "works", bad(0), good(10), bad(20), bad(40)) == [False] * 4
    assert red(pipeline, "works", bad(0), bad(60), good(70)) == [False, True, False]


def test_another_finding_of_the_same_check_has_to_last_too(pipeline: Pipeline) -> None:
    slow, worse = {"uncompacted": "20,000 commits"}, {"lake": ("gives no answer",)}
    looks = [facts(0, **slow), facts(60, **slow), facts(70, **slow, **worse), facts(100, **slow, **worse)]
    said = [(one["works"].level, one["works"].is_unsure) for one in told(pipeline, *looks)]
    assert said == [("warn", False), ("warn", False), ("warn", True), ("error", False)]


def test_a_clock_that_is_set_back_makes_no_alarm_wait(pipeline: Pipeline) -> None:
    looks = [facts(seconds, lake=("gives no answer",)) for seconds in (3_600, 0, 30)]
    assert red(pipeline, "works", *looks) == [False, False, True]


def test_what_comes_and_goes_is_told_and_an_old_look_counts_for_nothing(pipeline: Pipeline) -> None:
    bad, good = (lambda seconds: facts(seconds, lake=("gives no answer",))), facts
    flaps = [one(10 * nth) for nth, one in enumerate((bad, bad, bad, good, bad, bad, bad, good, bad))]
    assert sum(red(pipeline, "works", *flaps)) >= 2
    assert red(pipeline, "works", bad(0), bad(FRESH_SECONDS + 1)) == [False, False]


def test_an_endpoint_that_is_gone_is_told_while_another_one_comes_and_goes() -> None:
    memory, said = Memory(), []
    for nth in range(5):
        level: Level = "error" if nth % 2 else "warn"
        found, now_us = {"endpoints_up": (passing(level, "x"),)}, NOW_US + 10 * nth * MICROSECONDS
        memory = memory.having_found(found, now_us)
        (one,) = memory.telling(found, now_us)["endpoints_up"]
        said.append(one.level if not one.is_unsure else "")
    assert said == ["", "", "", "warn", "warn"]


def test_an_outage_whose_words_change_is_one(pipeline: Pipeline) -> None:
    looks = [facts(seconds, lake=(f"no answer within {seconds} s",)) for seconds in (0, 15, 30)]
    assert red(pipeline, "works", *looks)[-1]


@pytest.mark.parametrize(("seconds", "is_red"), [(2, False), (3, True)])
def test_a_driver_without_executors_is_an_alarm_of_one_check_soon(
    pipeline: Pipeline, seconds: float, is_red: bool
) -> None:
    waits = replace(SEEN, waits_for=f"{NO_EXECUTOR}: no worker", waits_since_us=NOW_US)
    look = facts(seconds, lease=LeaseStatus(waits, True, NOW_US + round(seconds * MICROSECONDS)))
    assert red(pipeline, "works", look) == [is_red]
    assert told(pipeline, look)[0]["waiting"].level == "ok"


@pytest.mark.parametrize(
    ("run", "told", "untold"), [("", "photon join", "sensor"), ("run-1", "sensor", "photon join")]
)
def test_a_datacenter_is_started_again_as_it_was_started(
    pipeline: Pipeline, run: str, told: str, untold: str
) -> None:
    look = facts(0, lease=LeaseStatus(replace(SEEN, run=run, idle_seen="other")))
    remedy = found_in(look, Memory.of_one_look(look), pipeline)["works"].remedy
    assert told in remedy
    assert untold not in remedy


def test_a_run_that_starts_has_its_time(pipeline: Pipeline) -> None:
    start_seconds = START_SECONDS
    looks = [facts(seconds, is_starting=True, **WORK) for seconds in (0, start_seconds - 1, start_seconds)]
    assert verdicts(pipeline, *looks[:2])["works"].level == "ok"
    assert verdicts(pipeline, *looks)["works"].level == "error"


def test_what_people_keep_from_running_is_no_alarm(pipeline: Pipeline) -> None:
    verdict = verdicts(pipeline, facts(0, decision="on hold", **WORK), facts(99, decision="on hold", **WORK))
    assert (verdict["works"].level, "on hold" in verdict["works"].says) == ("ok", True)


def test_no_advice_contradicts_a_hold(pipeline: Pipeline) -> None:
    """A hold outweighs unread logs, and whatever the datacenter's process has waited for."""
    waits = LeaseStatus(replace(SEEN, waits_for="the lake", waits_since_us=NOW_US), is_locked=True)
    looks = [facts(seconds, 20 * GIB, waits, lag=1e9, decision="on hold") for seconds in (0, 3_600)]
    found = verdicts(pipeline, *looks)
    assert {one.level for one in found.values()} == {"ok"}
    for promise in ("works", "waiting", "logs", "lag", "backlog"):
        assert "east is on hold, as people have decided" in found[promise].says
        assert found[promise].remedy == ""


def test_of_a_datacenter_that_people_have_retired_nothing_is_an_alarm(pipeline: Pipeline) -> None:
    lacking = {
        **WORK,
        "unread_bytes": 2**40,
        "unverified_because": "its lake is gone",
        "lost": Losses(records=1),
    }
    dead = verdicts(pipeline, facts(0, **lacking), facts(9_999, **lacking))
    assert {"works", "backlog", "nothing_lost"} <= {name for name, one in dead.items() if one.level != "ok"}
    assert f"photon retire {pipeline.file} east" in dead["works"].remedy
    retired = verdicts(pipeline, facts(0, **lacking), facts(9_999, decision="retired", **lacking))
    assert {one.level for one in retired.values()} == {"ok"}


@pytest.mark.parametrize("decision", ["", "on hold", "retired"])
def test_what_others_did_to_tables_is_an_alarm_whatever_people_decided(
    pipeline: Pipeline, decision: str
) -> None:
    took = ForeignCommits("joined_events", "took", 2, "DELETE", 7, 9)
    found = verdicts(pipeline, facts(0, decision=decision, foreign_commits=(took,)))["verified"]
    assert found.level == "error"
    assert "DELETE in version 9, and 1 commit of others before it" in found.says


def test_a_process_without_a_sign_of_life_is_named(pipeline: Pipeline) -> None:
    lease = LeaseStatus(replace(SEEN, process=4711), is_locked=True, beat_us=NOW_US)
    verdict = verdicts(pipeline, facts(20, lease=lease), facts(80, lease=lease))["works"]
    assert verdict.level == "error"
    assert "process 4711 on host has given no sign of life for 80 s" in verdict.says


def test_work_that_somebody_takes_up_again_is_well_at_once(pipeline: Pipeline) -> None:
    lease = LeaseStatus(SEEN, is_locked=True, beat_us=NOW_US + 100 * MICROSECONDS)
    looks = [facts(0, **WORK), facts(99, **WORK), facts(100, lease=lease)]
    assert verdicts(pipeline, *looks)["works"].level == "ok"


def waiting(seconds: float, **lease: Any) -> Facts:
    """A look at a process that has waited for so long."""
    waits = replace(SEEN, waits_for="the registry does not answer", waits_since_us=NOW_US)
    beat_us = NOW_US + round(seconds * MICROSECONDS)
    return facts(seconds, lease=LeaseStatus(waits, **{"is_locked": True, "beat_us": beat_us, **lease}))


@pytest.mark.parametrize(("seconds", "is_red"), [(29, False), (30, True)])
def test_a_process_that_waits_is_told_with_what_it_waits_for(
    pipeline: Pipeline, seconds: float, is_red: bool
) -> None:
    """It says itself since when, so one look is enough."""
    assert red(pipeline, "waiting", waiting(seconds)) == [is_red]
    found = verdicts(pipeline, waiting(60))
    assert found["works"].level == "ok"
    assert found["waiting"].says == (
        "east has waited for 60 s, and joins nothing: the registry does not answer"
    )


def test_what_a_dead_process_waited_for_is_no_wait(pipeline: Pipeline) -> None:
    assert verdicts(pipeline, waiting(99, is_locked=False))["waiting"].level == "ok"


def failing(seconds: float, tries: int = 3, is_locked: bool = True, **lease: Any) -> Facts:
    """A look at a process whose batches have failed for so long."""
    fails = replace(SEEN, failed_tries=tries, fails_since_us=NOW_US, fails_because="a worker died", **lease)
    beat_us = NOW_US + round(seconds * MICROSECONDS)
    return facts(seconds, lease=LeaseStatus(fails, is_locked, beat_us))


@pytest.mark.parametrize(("seconds", "is_red"), [(29, False), (30, True)])
def test_batches_that_fail_one_after_the_other_are_an_error(
    pipeline: Pipeline, seconds: float, is_red: bool
) -> None:
    assert red(pipeline, "works", failing(seconds)) == [is_red]
    found = verdicts(pipeline, failing(seconds))
    assert found["waiting"].level == "ok"
    measured = {one.name: one.value for one in found["works"].measures}
    assert measured["failing_seconds"] == seconds


def test_who_asks_is_told_of_failing_batches_at_once_with_the_cause_and_what_to_type(
    pipeline: Pipeline,
) -> None:
    look = failing(5, tries=1_200, host=socket.gethostname())
    verdict = worst(judge(look, Memory.of_one_look(look), pipeline)[0]["works"])
    assert (verdict.level, verdict.in_short) == ("warn", "joins nothing, for its batches fail")
    assert verdict.says == (
        "east joins nothing since 2027-01-15 08:00:00 UTC: 1,200 tries of its batches failed in a row, the "
        "last one with: a worker died"
    )
    assert verdict.remedy.endswith(f"kill 7, then photon join {pipeline.typed} -d east")


@pytest.mark.parametrize(
    ("lease", "remedy"),
    [
        ({"host": "node-3"}, "kill 7 on node-3, then photon join"),
        ({"run": "5f2c"}, "end run 5f2c of Dagster on host, and its sensor starts another one"),
    ],
)
def test_a_new_start_is_advised_where_the_failing_process_is(
    pipeline: Pipeline, lease: dict[str, str], remedy: str
) -> None:
    assert remedy in verdicts(pipeline, failing(99, **lease))["works"].remedy


def test_one_record_that_no_worker_survives_is_no_alarm(pipeline: Pipeline) -> None:
    assert verdicts(pipeline, failing(9_999, tries=FAILING_TRIES - 1))["works"].level == "ok"


def test_a_long_batch_over_a_big_backlog_is_no_alarm_of_failing_batches(pipeline: Pipeline) -> None:
    begun = LeaseStatus(SEEN, is_locked=True, beat_us=NOW_US + 9_999 * MICROSECONDS)
    assert verdicts(pipeline, facts(9_999, 9 * GIB, lease=begun))["works"].level == "ok"


def test_batches_of_a_dead_process_fail_no_more(pipeline: Pipeline) -> None:
    assert "fail" not in verdicts(pipeline, failing(99, is_locked=False))["works"].in_short


def paused(unread: tuple[int, int], pending: int, is_locked: bool = True) -> Facts:
    state = StateView(epoch="e", counts=Counts(foreign=pending, classes={"pending": pending}))
    growth = Growth(*(LogSize(1, 10, one) for one in unread), "seen", state, None)
    return Facts("east", NOW_US, growth, LeaseStatus(SEEN, is_locked, NOW_US))


def test_foreign_logs_that_are_not_read_for_too_many_records_wait_are_told(pipeline: Pipeline) -> None:
    most = pipeline.limits.pending_events
    verdict = verdicts(pipeline, paused((0, GIB), most))["lag"]
    assert (verdict.level, verdict.in_short) == ("warn", "reads no foreign logs, for too many records wait")
    assert f"limits.pending_events allows {most:,}; 1.0 GiB are unread" in verdict.says
    for well in (
        paused((0, GIB), most - 1),
        paused((1, GIB), most),  # these primaries may wake some
        paused((0, 0), most),
        paused((0, GIB), most, is_locked=False),
    ):
        assert verdicts(pipeline, well)["lag"].level == "ok"


def test_events_held_for_a_dead_datacenter_are_an_error_at_once(pipeline: Pipeline) -> None:
    state = {"held": 12, "out_of_reach": {"west": "its lake can't be read"}}
    verdict = verdicts(pipeline, facts(state=state))["works"]
    assert verdict.level == "error"
    assert "12 events are held: west is silent" in verdict.says
    assert "photon retire" in verdict.remedy


def test_events_held_for_a_datacenter_on_hold_are_free_once_it_is_resumed(pipeline: Pipeline) -> None:
    state = {"held": 12, "out_of_reach": {"west": "its lake can't be read"}}
    remedy = verdicts(pipeline, facts(state=state, decisions=Decisions(on_hold=frozenset({"west"}))))[
        "works"
    ].remedy
    assert f"photon resume {pipeline.file} west" in remedy
    assert "start datacenter west" not in remedy


@pytest.mark.parametrize("promise", ["lag", "backlog"])
def test_nobody_is_told_to_make_faster_what_does_not_join(pipeline: Pipeline, promise: str) -> None:
    seconds, joins = 3_600, LeaseStatus(SEEN, is_locked=True, beat_us=NOW_US + 3_600 * MICROSECONDS)
    waits = replace(joins, lease=replace(SEEN, waits_for="the lake", waits_since_us=NOW_US))
    looks = {lease: [facts(each, 20 * GIB, lease) for each in (0, seconds)] for lease in (joins, waits)}
    advised = [verdicts(pipeline, *looks[lease])[promise] for lease in (joins, waits)]
    assert {one.level for one in advised} == {"error"}
    assert ["faster" in one.remedy for one in advised] == [True, False]


def test_a_pattern_that_matches_no_file_is_told_with_its_key(pipeline: Pipeline) -> None:
    found = facts()
    found = replace(found, growth=replace(found.growth, foreign=LogSize(0, 0, 0)))
    verdict = verdicts(pipeline, found)["logs"]
    assert (verdict.level, verdict.says) == (
        "warn",
        f"east: no file matches foreign.files ({pipeline.foreign.files})",
    )


def test_logs_that_cannot_be_read_are_an_error(pipeline: Pipeline) -> None:
    found = facts()
    found = replace(found, growth=replace(found.growth, problems=("a.log: Permission denied", "b.log: gone")))
    verdict = verdicts(pipeline, found)["logs"]
    assert (verdict.level, verdict.says) == ("error", "east: a.log: Permission denied, and 1 more")


def test_files_that_are_passed_over_are_a_warning_that_names_three_of_them(pipeline: Pipeline) -> None:
    files = tuple(f"{name}.log: its lines end with CR alone" for name in "abcde")
    verdict = verdicts(pipeline, replace(facts(), passed_over=files))["logs"]
    assert verdict.level == "warn"
    assert "; ".join([*files[:3], "and 2 more"]) in verdict.says


def test_a_look_finds_the_file_that_is_not_read_and_no_half_line(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.events("c1")
    world.join()
    clicks = world.folder / "logs" / "east" / "clicks"
    (clicks / "half.jsonl").write_bytes(b'{"id": ')
    assert look_at(world.pipeline, "east", world.clock.now_us()).passed_over == ()
    (clicks / "old.jsonl").write_bytes(b'{"id": "c2"}\r{"id": "c3"}\r')
    (only,) = look_at(world.pipeline, "east", world.clock.now_us()).unread_files
    assert (only.path, only.reason) == (
        "clicks/old.jsonl",
        "its lines end with CR alone; expected LF or CR LF",
    )


def test_no_log_is_opened_where_the_dispatcher_knows_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.clicks(("c1", "q1"))
    world.join()
    monkeypatch.delattr("photon.health.facts.LogReader")
    assert look_at(world.pipeline, "east", world.clock.now_us()).passed_over == ()


def test_old_logs_that_are_read_for_the_first_time_are_not_years_behind(pipeline: Pipeline) -> None:
    looks = [facts(seconds, GIB // 2, lag=3e8) for seconds in (0, 59, 60)]
    assert verdicts(pipeline, *looks[:2])["lag"].level == "ok"
    verdict = verdicts(pipeline, *looks)["lag"]
    assert (verdict.level, verdict.says) == ("warn", "east is 60 s behind; 512 MiB of its logs are unread")


def test_logs_that_are_silent_are_not_behind(pipeline: Pipeline) -> None:
    assert verdicts(pipeline, facts(0, 100, lag=1e6), facts(1e6, 100, lag=2e6))["lag"].level == "ok"


@pytest.mark.parametrize(("unread_bytes", "level"), [(GIB - 1, "ok"), (GIB, "warn"), (16 * GIB, "error")])
def test_a_long_backlog_is_told_by_its_bytes(pipeline: Pipeline, unread_bytes: int, level: str) -> None:
    assert verdicts(pipeline, facts(0, unread_bytes))["backlog"].level == level


def test_ends_of_logs_that_may_be_lost_are_a_warning_until_somebody_knows(pipeline: Pipeline) -> None:
    unsure = verdicts(pipeline, facts(0, lost=Losses(may_be_lost={1: 0, 2: 0})))["nothing_lost"]
    assert unsure.level == "warn"
    said = "east: all that was seen of 2 log files truncated or gone in use was read; whether more was"
    assert unsure.says.startswith(said)
    assert "lost" not in unsure.in_short
    sure = verdicts(pipeline, facts(0, lost=Losses({1: 2048}, may_be_lost={1: 2048})))["nothing_lost"]
    assert sure.level == "error"
    assert "at least 2,048 bytes may be lost of 1 log file truncated or gone in use" in sure.says


def test_another_number_of_lost_bytes_is_told_though_the_words_are_the_same(pipeline: Pipeline) -> None:
    first, second = (
        verdicts(pipeline, facts(0, lost=Losses({1: lost})))["nothing_lost"] for lost in (2048, 4096)
    )
    assert ToldVerdict.after(None, first, NOW_US).is_news(second, NOW_US + 1, HOUR_US)
    assert not ToldVerdict.after(None, first, NOW_US).is_news(first, NOW_US + 1, HOUR_US)


def test_what_is_lost_is_an_error_until_somebody_does_something(pipeline: Pipeline) -> None:
    lost = {"state": counts(9, lost_bytes=2048), "lost": Losses({3: 2048}, records=2)}
    looks = [facts(0, state=counts(9)), *(facts(hours * 3_600, **lost) for hours in (1, 3, 1_000))]
    verdict = verdicts(pipeline, *looks)["nothing_lost"]
    assert verdict.level == "error"
    assert (
        "2,048 bytes were not read of log files that went away, and 2 waiting records are nowhere"
        in verdict.says
    )
    assert f"photon acknowledge {pipeline.file} east" in verdict.remedy


@pytest.mark.parametrize(("ahead_seconds", "level"), [(4, "ok"), (5, "warn"), (60, "error")])
def test_events_of_the_future_tell_of_clocks(pipeline: Pipeline, ahead_seconds: int, level: str) -> None:
    state = {"watermark_us": NOW_US + ahead_seconds * MICROSECONDS}
    assert verdicts(pipeline, facts(state=state))["clock"].level == level


def test_events_that_wait_for_their_time_tell_of_clocks_though_the_watermark_does_not_move(
    pipeline: Pipeline,
) -> None:
    """Broken variant: by the watermark alone no time beyond five minutes is ever told."""
    verdict = verdicts(pipeline, facts(state={"ahead": 1}))["clock"]
    assert (verdict.level, verdict.in_short) == ("warn", "has events of the future")
    assert "1 event waits for a time that is ahead" in verdict.says


def unreadable(seconds: float, **more: Any) -> Facts:
    """Return a look that could not read the state, and knows nothing of it."""
    found = facts(seconds, GIB, state={"epoch": None}, **more)
    return replace(found, growth=replace(found.growth, state_unreadable="the state x is damaged: put a copy"))


def test_where_the_state_cannot_be_read_one_check_says_so_and_nothing_is_said_of_what_it_tells(
    pipeline: Pipeline,
) -> None:
    found = verdicts(pipeline, facts(0, lost=Losses({1: 2048})), unreadable(10))
    assert found.keys() == WITHOUT_STATE - {"verified"}
    assert {name for name, one in found.items() if one.level != "ok"} == {"works"}
    assert (found["works"].level, "the state x is damaged: put a copy" in found["works"].says) == (
        "error",
        True,
    )


def test_what_is_remembered_outlives_a_state_that_cannot_be_read(pipeline: Pipeline) -> None:
    before = watched(facts(0, GIB, state=counts(9_000)))
    assert before.memory.after(unreadable(7_000)) == before.memory
    looks = [facts(0, GIB, state=counts(9_000)), unreadable(1_000), facts(3_000, GIB, lag=1e9)]
    assert "50 min behind" in verdicts(pipeline, *looks)["lag"].says


def test_of_a_datacenter_on_hold_a_state_that_cannot_be_read_is_no_alarm(pipeline: Pipeline) -> None:
    assert verdicts(pipeline, unreadable(0, decision="on hold"))["works"].level == "ok"


def report(hours_ago: float, *violations: dict[str, Any]) -> PastVerification:
    return PastVerification(
        NOW_US - round(hours_ago * 3_600 * MICROSECONDS), {"violations": list(violations)}
    )


@pytest.mark.parametrize(("hours", "level"), [(2.9, "ok"), (3, "warn"), (24, "error")])
def test_a_verification_that_is_old_proves_nothing(pipeline: Pipeline, hours: float, level: str) -> None:
    verdict = verdicts(pipeline, facts(verified=report(hours)))["verified"]
    assert verdict.level == level
    assert ("photon verify" in verdict.remedy) is (level != "ok")


def test_a_datacenter_that_was_never_verified_passes_no_check_and_is_a_warning_once_it_is_overdue(
    pipeline: Pipeline,
) -> None:
    begun = {"begun_us": NOW_US}
    assert "verified" not in verdicts(pipeline, facts(2.9 * 3_600, state=begun))
    verdict = verdicts(pipeline, facts(3 * 3_600, state=begun))["verified"]
    assert (verdict.level, verdict.in_short) == ("warn", "was never verified")
    assert f"photon verify {pipeline.file} --datacenter east" in verdict.remedy


def test_each_verdict_has_the_numbers_that_it_goes_by(pipeline: Pipeline) -> None:
    behind = {"verified": report(2)}
    looks = [facts(t, GIB, lag=1e9, state=counts(1_000, dead_letters=20), **behind) for t in (0, 300)]
    found = verdicts(pipeline, *looks)
    numbers = {name: {one.name: one.value for one in each.measures} for name, each in found.items()}
    assert numbers["lag"] == {"behind_seconds": 300.0}
    assert numbers["backlog"] == {"unread_bytes": GIB}
    assert numbers["dead_letters"] == {"foreign_share": 0.02, "primary_share": 0.0}
    assert numbers["verified"] == {"violations": 0, "age_seconds": 7_500.0}
    assert numbers.keys() == PROMISES.keys()


def test_a_verification_by_a_clock_that_is_ahead_is_of_now(pipeline: Pipeline) -> None:
    (_, age) = verdicts(pipeline, facts(verified=report(-0.3 / 3_600)))["verified"].measures
    assert (age.name, age.value) == ("age_seconds", 0)


def test_a_number_is_a_warning_and_an_error_from_its_thresholds_on(pipeline: Pipeline) -> None:
    for seconds in (59, 60, 599, 600):
        looks = [facts(0, GIB - 1), facts(seconds, GIB - 1, lag=1e9)]
        verdict = verdicts(pipeline, *looks)["lag"]
        (measure,) = verdict.measures
        assert measure.warn is not None
        assert measure.error is not None
        assert verdict.level == level_of(measure.value, measure.warn, measure.error)


def test_what_verification_found_is_told_with_its_remedy(pipeline: Pipeline) -> None:
    broken = {
        "kind": "missing",
        "count": 3,
        "says": "events are missing",
        "what_to_do": "photon recover PIPELINE",
    }
    verdict = verdicts(pipeline, facts(verified=report(1, broken)))["verified"]
    assert (verdict.level, verdict.in_short) == (
        "error",
        "breaks a promise, by its newest verification (3 missing)",
    )
    assert "3 events are missing" in verdict.says
    assert verdict.remedy.startswith(f"photon recover {pipeline.file}. Then photon verify {pipeline.file}")


def watched(*looks: Facts) -> WatcherNotes:
    """Return the notes that a watcher leaves after these looks."""
    memory = Memory()
    for look in looks:
        memory = memory.after(look)
    return WatcherNotes(looks[-1].now_us, memory, {"works": ToldVerdict("warn", NOW_US)}, is_starting=True)


def test_the_only_datacenter_is_not_to_be_retired(pipeline: Pipeline) -> None:
    only = pipeline.model_copy(update={"datacenters": {"east": pipeline.datacenters["east"]}})
    for one, is_offered in ((only, False), (pipeline, True)):
        looks = [facts(0, **WORK), facts(7_200, **WORK)]
        assert ("photon retire" in verdicts(one, *looks)["works"].remedy) is is_offered
        assert ("photon retire" in one.if_lake_is_lost("east")) is is_offered


def test_what_a_watcher_leaves_outlives_its_process(pipeline: Pipeline) -> None:
    left = {"east": watched(facts(0, GIB, state=counts(5), **WORK))}
    assert from_text(as_text(left)) == left


def test_whoever_else_judges_goes_by_what_the_watcher_has_left(pipeline: Pipeline) -> None:
    looks = [facts(0, GIB), facts(3_599, GIB, lag=1e9)]
    now = facts(3_600, GIB, lag=1e9)
    memory, why_alone = memory_beside(watched(*looks), now)
    assert (memory, why_alone) == (watched(*looks, now).memory, "")
    found = found_in(now, memory, pipeline)
    assert found["lag"].says == "east is 60 min behind; 1.0 GiB of its logs are unread"


def test_what_a_watcher_knew_long_ago_is_not_believed(pipeline: Pipeline) -> None:
    left = watched(facts(0, GIB))
    memory, why_alone = memory_beside(left, facts(FRESH_SECONDS, GIB))
    assert (memory.behind_since_us, why_alone) == (NOW_US, "")
    memory, why_alone = memory_beside(left, facts(FRESH_SECONDS + 1, GIB))
    assert memory.behind_since_us != NOW_US
    assert why_alone == "its watcher has not looked at it since 2027-01-15 08:00:00 UTC"
