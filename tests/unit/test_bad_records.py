"""Shares of bad records: of all that was ever read, of the latest window, and what people know of."""

from __future__ import annotations

import pytest

from photon.dispatcher.shift.keys import LEAST_EXPECTED
from photon.health.bad_records import (
    AMBIGUOUS,
    LEAST_RECORDS,
    PRIMARY_DEAD,
    Share,
    judge_unjoinable,
    shares_of,
)
from photon.health.memory import Memory
from photon.health.verdict import Verdict
from photon.pipeline.file import Pipeline
from photon.state.outcomes import Counts
from photon.state.window import begin_window, window_from_json, window_to_json
from tests.unit.test_health import facts, verdicts


def judged(
    pipeline: Pipeline,
    promise: str,
    foreign: int,
    before: dict[str, int] | None = None,
    known: dict[str, int] | None = None,
    left: dict[str, int] | None = None,
    **classes: int,
) -> Verdict:
    """The verdict on so many records that were ever read, in these classes."""
    state = {"counts": Counts(foreign=foreign, classes=classes), "before": before or {}, "left": left or {}}  # type: ignore[arg-type]
    return verdicts(pipeline, facts(state=state, acknowledged=known or {}))[promise]


@pytest.mark.parametrize(
    ("promise", "count", "level"),
    [
        ("dead_letters", 0, "ok"),
        ("dead_letters", 1, "warn"),
        ("dead_letters", 50, "error"),
        ("dead_letters", 1_000, "error"),
        ("unjoinable", 199, "ok"),
        ("unjoinable", 200, "warn"),
        ("unjoinable", 900, "error"),
    ],
)
def test_shares_of_all_records_that_were_ever_read_are_told(
    pipeline: Pipeline, promise: str, count: int, level: str
) -> None:
    assert judged(pipeline, promise, 1_000, **{promise: count}).level == level


@pytest.mark.parametrize(("dead", "of"), [(20, 100), (60, 100), (90, 100), (100, 100), (1_200, 2_000)])
def test_a_join_that_ran_once_is_judged_by_all_that_it_has_read(
    pipeline: Pipeline, dead: int, of: int
) -> None:
    verdict = judged(pipeline, "dead_letters", of, dead_letters=dead)
    assert verdict.level == "error"
    assert verdict.says == (
        f"east: {dead:,} of all {of:,} foreign records are dead letters ({dead / of:.2%})"
    )
    assert f"photon acknowledge {pipeline.file} east" in verdict.remedy


@pytest.mark.parametrize(("dead", "of"), [(1, 1), (2, 3), (1, 99), (99, 99)])
def test_a_share_of_few_records_is_a_warning(pipeline: Pipeline, dead: int, of: int) -> None:
    assert judged(pipeline, "dead_letters", of, dead_letters=dead).level == "warn"


def test_records_that_are_too_old_count_with_those_that_found_no_primary(pipeline: Pipeline) -> None:
    assert judged(pipeline, "unjoinable", 1_000, unjoinable=450, too_old=450).level == "error"


def test_the_latest_records_are_judged_too_and_the_worse_share_counts(pipeline: Pipeline) -> None:
    verdict = judged(pipeline, "dead_letters", 10**7, before={"foreign": 10**7 - 500}, dead_letters=400)
    assert verdict.level == "error"
    assert "400 of the latest 500 foreign records" in verdict.says
    many = judged(pipeline, "dead_letters", 11_000, before={"foreign": 1_000}, dead_letters=1_000)
    assert "1,000 of the latest 10,000" in many.says


def test_a_share_of_few_of_the_latest_records_says_nothing(pipeline: Pipeline) -> None:
    verdict = judged(pipeline, "dead_letters", 10**7, before={"foreign": 10**7 - 99}, dead_letters=99)
    assert verdict.level == "ok"


def test_what_is_mended_is_bad_no_more(pipeline: Pipeline) -> None:
    before = {"foreign": 1_000, "dead_letters": 500}
    mended = {"before": before, "left": {"dead_letters": 500}}
    assert judged(pipeline, "dead_letters", 2_000, **mended).level == "ok"  # type: ignore[arg-type]
    new = judged(pipeline, "dead_letters", 2_000, **mended, dead_letters=60)  # type: ignore[arg-type]
    assert (new.level, "60 of the latest 1,000" in new.says) == ("error", True)


def test_what_is_acknowledged_counts_no_more_and_what_comes_later_does(pipeline: Pipeline) -> None:
    known = {"foreign": 1_000, "dead_letters": 900}
    assert judged(pipeline, "dead_letters", 1_000, known=known, dead_letters=900).level == "ok"
    later = judged(pipeline, "dead_letters", 1_100, known=known, dead_letters=960)
    assert later.level == "error"
    assert "60 of all 100 foreign records are dead letters since the last acknowledgement" in later.says


def test_what_is_acknowledged_counts_no_more_in_the_window_either(pipeline: Pipeline) -> None:
    known, before = {"foreign": 1_000, "dead_letters": 900}, {"foreign": 500}
    assert judged(pipeline, "dead_letters", 1_000, before, known, dead_letters=900).level == "ok"


def test_new_ones_are_told_although_as_many_that_were_acknowledged_are_mended(pipeline: Pipeline) -> None:
    known = {"foreign": 1_000, "dead_letters": 900}
    verdict = judged(
        pipeline, "dead_letters", 1_100, known=known, left={"dead_letters": 900}, dead_letters=60
    )
    assert (verdict.level, "60 of all 100" in verdict.says) == ("error", True)


def test_rows_that_were_joined_again_count_once_among_all_rows() -> None:
    counts = Counts(foreign=1_262, ambiguous=1_194, classes={"joined": 1_194})
    again = facts(state={"counts": counts, "left": {"joined": 68, "ambiguous": 68}})
    assert shares_of(again, AMBIGUOUS)[0] == Share(1_194, 1_194, is_of_all=True)
    known = facts(state={"counts": counts}, acknowledged={"joined": 1_000, "ambiguous": 1_000})
    assert shares_of(known, AMBIGUOUS)[0] == Share(194, 194, is_of_all=True, is_since=True)


def test_primary_records_that_were_mended_count_once_among_all_of_them() -> None:
    counts = Counts(primary=1_000, primary_dead_letters=100)
    mended = facts(state={"counts": counts, "left": {"primary_dead_letters": 400}})
    assert shares_of(mended, PRIMARY_DEAD)[0] == Share(100, 1_100, is_of_all=True)


def test_primary_records_that_are_dead_letters_are_told_of_too(pipeline: Pipeline) -> None:
    counts = Counts(foreign=1_000, primary=600, primary_dead_letters=400)
    verdict = verdicts(pipeline, facts(state={"counts": counts}))["dead_letters"]
    assert verdict.level == "error"
    assert verdict.says == "east: 400 of all 1,000 primary records are dead letters (40.00%)"


def test_of_a_log_without_records_nothing_is_told(pipeline: Pipeline) -> None:
    assert judged(pipeline, "dead_letters", 0).level == "ok"


# -- wrong keys


def keys(
    pipeline: Pipeline,
    foreign: int,
    is_patient: bool = False,
    before: dict[str, int] | None = None,
    columns: tuple[str, ...] = (),
    overdue: int = 0,
    known: dict[str, int] | None = None,
    **classes: int,
) -> Verdict | None:
    """The first verdict on keys and primaries that is not well, for a person or for a watcher."""
    counts = Counts(foreign=foreign, primary=9, classes=classes)  # type: ignore[arg-type]
    state = {"counts": counts, "before": before or {}}
    found = facts(state=state, columns=columns, overdue=overdue, acknowledged=known or {})
    told = judge_unjoinable(found, Memory(is_patient=is_patient), pipeline)
    return next((one for one in told if one.level != "ok"), None)


def test_records_of_which_none_has_a_key_are_told_with_the_columns_that_they_have(pipeline: Pipeline) -> None:
    """Broken variant: a wrong foreign.key has everything skipped, and all is well."""
    verdict = keys(pipeline, 1_000, columns=("click", "query"), skipped=990, dead_letters=10)
    assert verdict is not None
    assert verdict.level == "error"
    key = ", ".join(pipeline.foreign.key)
    assert f"none of its 1,000 foreign records has the key `{key}` (foreign.key)" in verdict.says
    assert "the newest lines have click, query" in verdict.says
    assert f"mend foreign.key in {pipeline.file}: photon init --dry-run " in verdict.remedy


def test_a_few_records_without_a_key_are_told_to_a_person_and_no_watcher_alarms_for_them(
    pipeline: Pipeline,
) -> None:
    verdict = keys(pipeline, 3, skipped=3)
    assert verdict is not None
    assert verdict.level == "warn"
    assert keys(pipeline, 3, is_patient=True, skipped=3) is None


def test_one_record_with_a_key_makes_a_log_one_that_mostly_has_none(pipeline: Pipeline) -> None:
    assert keys(pipeline, 100_000, skipped=99_999, joined=1) is None


@pytest.mark.parametrize(
    ("with_a_key_before", "latest", "is_told"),
    [(5_000, 2 * LEAST_EXPECTED, True), (5_000, LEAST_EXPECTED, False), (10, 2 * LEAST_EXPECTED, False)],
    ids=["as many as were to be expected are missing", "few were to be expected", "few ever have a key"],
)
def test_a_key_that_is_gone_from_the_latest_records_is_told_where_many_were_to_be_expected(
    pipeline: Pipeline, with_a_key_before: int, latest: int, is_told: bool
) -> None:
    skipped = 10_000 - with_a_key_before
    before = {"foreign": 10_000, "skipped": skipped}
    verdict = keys(
        pipeline, 10_000 + latest, before=before, skipped=skipped + latest, joined=with_a_key_before
    )
    assert (verdict is not None) is is_told
    if verdict is not None:
        assert verdict.level == "warn"
        assert f"none of the latest {latest:,} foreign records has the key" in verdict.says


def test_a_latest_record_with_a_key_is_enough(pipeline: Pipeline) -> None:
    before = {"foreign": 10_000, "skipped": 5_000}
    assert keys(pipeline, 11_000, before=before, skipped=5_999, joined=5_001) is None


def test_keys_that_never_met_a_primary_event_are_told_in_place_of_a_share(pipeline: Pipeline) -> None:
    verdict = keys(pipeline, 500, skipped=490, unjoinable=10)
    assert verdict is not None
    assert verdict.level == "warn"
    assert "no key matches: 10 foreign events were given up; 9 primary events were read" in verdict.says
    assert "primary.id (" in verdict.remedy
    assert "all logs are read anew" in verdict.remedy


@pytest.mark.parametrize(("overdue", "is_told"), [(LEAST_RECORDS - 1, False), (LEAST_RECORDS, True)])
def test_events_that_wait_in_vain_are_a_wrong_key_where_they_are_more_than_the_first_ones_of_a_log(
    pipeline: Pipeline, overdue: int, is_told: bool
) -> None:
    assert (keys(pipeline, 500, overdue=overdue, pending=500) is not None) is is_told


def test_keys_of_which_one_has_met_its_primary_event_are_right(pipeline: Pipeline) -> None:
    assert keys(pipeline, 10_000, overdue=500, pending=9_900, unjoinable=99, filtered=1) is None


def test_what_was_given_up_and_acknowledged_is_no_wrong_key(pipeline: Pipeline) -> None:
    known = {"foreign": 500, "unjoinable": 10}
    assert keys(pipeline, 500, known=known, skipped=490, unjoinable=10) is None


def test_a_window_has_the_records_of_one_or_two_of_its_lengths() -> None:
    window = begin_window(0)
    for now_us, foreign in ((5, 0), (9, 100), (10, 200), (15, 300), (20, 400)):
        window = window.after({"foreign": foreign}, now_us, window_us=10)
    assert (window.before.at_us, window.before.counts) == (10, {"foreign": 200})
    assert window_from_json(window_to_json(window)) == window


def test_a_batch_after_a_long_silence_is_among_the_latest_records() -> None:
    window = begin_window(0).after({"foreign": 7}, 12, 10).after({"foreign": 900}, 10**9, 10)
    assert window.before.counts == {"foreign": 7}


def test_a_clock_that_is_set_back_ends_no_window_for_ever() -> None:
    window = begin_window(10**9).after({"foreign": 7}, 5, 10)
    assert window.latest.at_us == 5
