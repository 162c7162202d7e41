"""`photon init` where a primary's id has other content, too: how often, how far apart, and a window."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from photon.pipeline.file import load_pipeline
from photon.profile.ids_used_again import said
from tests.unit.test_init import Rows, init, json_lines

START_MS = 1_767_607_200_000
MINUTE_MS = 60_000
NAMED = ("--primary-id", "command_id", "--foreign-key", "command_id", "--json")


def commands(boots: int, apart_ms: int) -> Rows:
    """What a device was told: it counts from 1 after each boot."""
    return [
        {"command_id": f"n{i}", "ts": START_MS + boot * apart_ms + i * 1_000, "what": f"{boot}.{i}"}
        for boot in range(boots)
        for i in range(30)
    ]


def answers(to: Rows, after_ms: int) -> Rows:
    return [
        {"answer_id": f"a{i}", "command_id": one["command_id"], "ts": one["ts"] + after_ms}
        for i, one in enumerate(to)
    ]


def write_logs(monkeypatch: pytest.MonkeyPatch, folder: Path, primaries: Rows, foreigns: Rows) -> None:
    """Write both logs below the folder, which is the current one from then on."""
    monkeypatch.chdir(folder)
    json_lines(folder / "logs/queries/a.jsonl", primaries)
    json_lines(folder / "logs/clicks/a.jsonl", foreigns)


def looked(
    monkeypatch: pytest.MonkeyPatch, folder: Path, primaries: Rows, foreigns: Rows
) -> tuple[dict, str]:  # type: ignore[type-arg]
    write_logs(monkeypatch, folder, primaries, foreigns)
    done = init(*NAMED)
    assert done.exit_code == 0, done.output
    text = init(*NAMED[:-1], "--dry-run").output
    return json.loads(done.stdout)["trial"], text


def test_a_window_below_half_of_the_time_between_two_uses_is_proposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = commands(2, 41 * MINUTE_MS)
    trial, text = looked(monkeypatch, tmp_path, sent, answers(sent, 5_000))
    assert load_pipeline("pipeline.yaml").retry.lookup_window.total_seconds() == 20 * 60  # type: ignore[union-attr]
    assert "30 of 30 primary ids are used again for other content, 41m to 41m apart" in text
    again = trial["ids_used_again"]
    assert (again["ids"], again["doubtful"], again["beyond"], trial["joined"]) == (30, 60, 0, 60)


def test_the_nearest_primary_is_in_the_row_that_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken variant: the first of an id, which is another boot's."""
    sent = commands(3, 60 * MINUTE_MS)
    trial, _ = looked(monkeypatch, tmp_path, sent, answers(sent[60:], 5_000))
    assert trial["example"]["primary_what"].startswith("2.")


def test_copies_of_one_line_are_no_other_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = commands(1, 0)
    trial, text = looked(monkeypatch, tmp_path, sent * 2, answers(sent, 5_000))
    assert trial["ids_used_again"] is None
    assert "used again" not in text
    assert "lookup_window" not in text


@pytest.mark.parametrize(("apart_ms", "after_ms"), [(10_000, 9_000), (0, 1_000)])
def test_where_no_window_tells_them_apart_the_doubtful_rows_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart_ms: int, after_ms: int
) -> None:
    sent = commands(2, apart_ms)
    trial, text = looked(monkeypatch, tmp_path, sent, answers(sent[:30], after_ms))
    assert load_pipeline("pipeline.yaml").retry.lookup_window is None
    assert "DOUBTFUL: no retry.lookup_window below half of that holds enough pairs: 30 of 30 rows" in text
    assert trial["ids_used_again"]["lookup_window"] is None


def test_a_window_is_proposed_where_one_event_of_six_is_an_orphan_beside_another_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = commands(2, 60 * MINUTE_MS)
    orphans = answers(sent[:10], 50 * MINUTE_MS)
    told = [{**each, "answer_id": f"orphan-{each['answer_id']}"} for each in orphans]
    trial, _ = looked(monkeypatch, tmp_path, sent, answers(sent, 5_000) + told)
    assert trial["ids_used_again"]["beyond"] == 10
    assert load_pipeline("pipeline.yaml").retry.lookup_window == timedelta(minutes=29)


def test_doubtful_rows_are_counted_once_however_often_they_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = commands(2, 10_000)
    trial, _ = looked(monkeypatch, tmp_path, sent, answers(sent[:30], 9_000) * 2)
    assert trial["ids_used_again"]["doubtful"] == trial["joined"] == 30


def test_a_choice_whose_ids_come_again_says_that_rows_are_doubtful(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [*commands(1, 0), *commands(2, 60 * MINUTE_MS)[30:45]]
    write_logs(monkeypatch, tmp_path, sent, answers(sent, 5_000))
    done = init()
    assert done.exit_code == 1
    assert "--primary-id command_id" in done.output
    assert "of 45, 15 records have the command_id of an earlier one and other content" in done.output
    assert "rows may name a doubtful one" in done.output


def test_ids_that_each_come_three_times_are_asked_about_with_the_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = commands(3, 60 * MINUTE_MS)
    write_logs(monkeypatch, tmp_path, sent, answers(sent, 5_000))
    done = init()
    assert done.exit_code == 1
    assert "--foreign-key command_id --primary-id command_id" in done.output
    assert "rows may name a doubtful one" in done.output


def test_a_window_is_said_in_whole_units_and_never_longer() -> None:
    assert [said(us) for us in (1_230 * 10**6, 5_400 * 10**6, 10**6, 9, 30 * 3_600 * 10**6)] == [
        "20m", "90m", "1000ms", "9us", "30h",
    ]  # fmt: skip
