"""A loss calls for somebody until it is repaired or acknowledged; a later loss calls anew."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from examples.demo.traffic import Traffic
from photon.health.metrics.families import families
from photon.health.status import status_of
from photon.logs.files import LogFile, TrackedFile
from photon.pipeline.file import Pipeline, load_pipeline
from photon.process.clock import SystemClock
from photon.registry.opening import close_registries
from photon.state.database import STATE_FILE
from photon.state.dispatcher_state import DispatcherState
from photon.state.losses import ACKNOWLEDGED_FILE, Losses, acknowledge, open_losses
from photon.state.outcomes import Counts
from photon.state.view import StateView
from tests.support.commands import photon

FIRST = TrackedFile(
    LogFile(1, "foreign", "clicks/a.log", 7, False, b"", 0, 20, b"h"), 40, b"", False, 100, 5, None
)
GONE = replace(FIRST, state="gone")
LATER = replace(GONE, file=replace(FIRST.file, number=2, path="clicks/b.log"), size_bytes=90)


def view(*files: TrackedFile, lost_bytes: int = 0, lost: int = 0, epoch: str = "e") -> StateView:
    """A state with these files."""
    counts = Counts(lost_bytes=lost_bytes, classes={"lost": lost})
    return StateView(epoch, counts=counts, files={one.file.number: one for one in files})


def test_nothing_is_lost_while_all_files_are_there(tmp_path: Path) -> None:
    assert not open_losses(tmp_path, view(FIRST))


def test_files_that_went_ranges_that_went_and_waiting_records_are_lost(tmp_path: Path) -> None:
    assert open_losses(tmp_path, view(GONE, lost_bytes=75, lost=2)) == Losses({1: 60}, 15, 2)


def test_the_end_of_a_file_that_nobody_saw_may_be_lost_until_a_person_knows_of_it(tmp_path: Path) -> None:
    cut = replace(FIRST, end_unknown=True)
    other = replace(cut, file=replace(FIRST.file, number=2, path="clicks/b.log"))
    assert open_losses(tmp_path, view(cut)) == Losses(may_be_lost={1: 0})
    assert not open_losses(tmp_path, view(cut)).is_certain
    acknowledge(tmp_path, view(cut))
    assert not open_losses(tmp_path, view(cut))
    assert open_losses(tmp_path, view(cut, other)) == Losses(may_be_lost={2: 0})


def test_what_was_not_read_of_a_file_that_went_in_use_is_the_least_that_is_lost_of_it(tmp_path: Path) -> None:
    went, seen = replace(GONE, end_unknown=True), view(replace(GONE, end_unknown=True), lost_bytes=60)
    losses = open_losses(tmp_path, seen)
    assert losses == Losses({1: 60}, may_be_lost={1: 60})
    assert (losses.bytes, losses.may_be_lost_bytes) == (60, 60)
    acknowledge(tmp_path, seen)
    assert not open_losses(tmp_path, seen)
    more = open_losses(tmp_path, view(replace(went, size_bytes=120), lost_bytes=80))
    assert more.may_be_lost_bytes == 80, "more of it is lost than anybody knew"


CUT = replace(LATER, state="open", offset_bytes=90, end_unknown=True)  # copytruncate: its copy is read
IN_USE = replace(GONE, end_unknown=True)


@pytest.mark.parametrize(
    ("files", "lost_bytes", "least_bytes"),
    [([CUT], 60, 0), ([IN_USE], 60, 60), ([IN_USE, CUT], 60, 60), ([IN_USE, LATER], 110, 60)],
    ids=["truncated", "went in use", "both", "one of them went at rest"],
)
def test_every_light_tells_the_same_bytes_that_may_be_lost_until_they_are_acknowledged(
    pipeline: Pipeline, files: list[TrackedFile], lost_bytes: int, least_bytes: int
) -> None:
    with closing(DispatcherState(pipeline.datacenters["east"].state)) as state:
        state.put_files(files, lost_bytes - 60)  # the fixture's 60 are counted already
    status, told, metrics = lights(pipeline)
    unknown = sum(one.end_unknown for one in files)
    said = f"at least {least_bytes:,} bytes may be lost of {unknown} log file"
    if not least_bytes:
        said = f"all that was seen of {unknown} log file"
    assert said in status
    assert said in told["checks"]["nothing_lost"]["says"]
    assert told["lost"]["may_be_lost_bytes"] == metrics["photon_may_be_lost_bytes"] == least_bytes
    assert len(told["lost"]["may_be_lost"]) == metrics["photon_may_be_lost_files"] == unknown
    assert told["lost"]["bytes"] == metrics["photon_open_loss_bytes"] == lost_bytes
    assert status.count("nobody knows") == unknown + 1, "each file is named once, and their sum"
    assert photon("acknowledge", pipeline.file, "east").exit_code == 0
    status, told, metrics = lights(pipeline)
    assert "nobody knows" not in status
    assert told["checks"]["nothing_lost"]["level"] == "ok"
    assert told["lost"]["may_be_lost_bytes"] == metrics["photon_may_be_lost_bytes"] == 0


def lights(pipeline: Pipeline) -> tuple[str, dict[str, Any], dict[str, float]]:
    """The text of `photon status`, its JSON, and the metrics, of east."""
    text = photon("status", pipeline.file).stdout
    told = json.loads(photon("status", pipeline.file, "--json").stdout)
    metrics = families({"east": status_of(pipeline, "east", SystemClock())})
    return text, told["east"], {one.name: one.value for metric in metrics for one in metric.samples}


def test_what_is_lost_later_is_an_open_loss(tmp_path: Path) -> None:
    acknowledge(tmp_path, view(GONE, lost_bytes=75, lost=2))
    later = view(GONE, LATER, lost_bytes=130, lost=3)
    assert open_losses(tmp_path, later) == Losses({2: 50}, 5, 1)


def test_a_file_that_came_back_after_it_was_acknowledged_hides_no_other_one(tmp_path: Path) -> None:
    acknowledge(tmp_path, view(GONE, lost_bytes=60))
    assert open_losses(tmp_path, view(FIRST, LATER, lost_bytes=50)) == Losses({2: 50})


def test_what_was_said_of_another_epoch_does_not_count(tmp_path: Path) -> None:
    acknowledge(tmp_path, view(GONE, lost_bytes=60))
    assert open_losses(tmp_path, view(GONE, lost_bytes=60, epoch="f"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"format": 1}',
        '{"format": 2, "epoch": "e"}',
        '{"format": 2, "epoch": "e", "file_bytes": {}, "other_bytes": "a", "records": 0}',
        '{"format": 2, "epoch": "e", "file_bytes": {}, "other_bytes": 0, "records": null}',
        '{"format": 2, "epoch": "e", "file_bytes": {"1": "60"}, "other_bytes": 0, "records": 0}',
    ],
)
def test_a_note_that_cannot_be_read_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / ACKNOWLEDGED_FILE).write_text(text)
    assert open_losses(tmp_path, view(GONE, lost_bytes=60)) == Losses({1: 60})


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    """Make a pipeline whose datacenter east has lost a file, and has an empty folder of logs."""
    pipeline = load_pipeline(Traffic(1, ("east",)).write_pipeline(tmp_path))
    (tmp_path / "logs" / "east" / "clicks").mkdir(parents=True)
    with closing(DispatcherState(pipeline.datacenters["east"].state)) as state:
        state.begin_epoch("clicks", "east", "e", 1, follows=False)
        state.put_files([GONE], lost_bytes=60)
    yield pipeline
    close_registries()


def problems(pipeline: Pipeline) -> list[str]:
    """Return the losses that `photon status` names as problems."""
    return [one for one in status_of(pipeline, "east", SystemClock()).problems if ": gone, and" in one]


def test_the_command_names_what_is_lost_and_ends_its_alarm(pipeline: Pipeline) -> None:
    assert problems(pipeline) == ["clicks/a.log: gone, and 60 bytes were not read"]
    done = photon("acknowledge", pipeline.file, "east")
    said = "acknowledged:\neast: clicks/a.log: gone, and 60 bytes were not read\n"
    assert (done.exit_code, done.stdout) == (0, said)
    assert problems(pipeline) == []
    again = photon("acknowledge", pipeline.file, "east")
    assert again.stdout == "east: there is nothing that is not acknowledged yet\n"


def test_a_lost_file_is_named_by_what_its_name_is_and_not_by_what_a_terminal_makes_of_it(
    pipeline: Pipeline,
) -> None:
    odd = replace(GONE, file=replace(GONE.file, number=2, path="clicks/a\x1b[7m\n.log"))
    with closing(DispatcherState(pipeline.datacenters["east"].state)) as state:
        state.put_files([odd], lost_bytes=60)
    assert "clicks/a\\x1b[7m\\n.log: gone, and 60 bytes were not read" in problems(pipeline)
    done = photon("acknowledge", pipeline.file, "east", "--dry-run")
    assert "east: clicks/a\\x1b[7m\\n.log: gone, and 60 bytes were not read\n" in done.stdout


def test_a_dry_run_ends_no_alarm(pipeline: Pipeline) -> None:
    done = photon("acknowledge", pipeline.file, "east", "--dry-run")
    assert done.stdout.startswith("dry run, nothing was changed:\nwould be acknowledged:\neast: clicks/a.log")
    assert problems(pipeline) != []


@pytest.mark.parametrize("dry_run", [True, False])
def test_the_object_says_whether_it_was_a_dry_run(pipeline: Pipeline, dry_run: bool) -> None:
    options = ["--dry-run"] if dry_run else []
    told = json.loads(photon("acknowledge", pipeline.file, "east", "--json", *options).stdout)
    assert told == {
        "dry_run": dry_run,
        "topics": [],
        "file_bytes": {"1": 60},
        "other_bytes": 0,
        "records": 0,
        "may_be_lost": {},
        "bytes": 60,
        "may_be_lost_bytes": 0,
        "unread": [],
        "counts": {},
    }


def test_where_there_is_no_state_nobody_is_told_that_nothing_is_lost(pipeline: Pipeline) -> None:
    state = pipeline.datacenters["east"].state
    state.rename(state.with_name("of another machine"))
    done = photon("acknowledge", pipeline.file, "east")
    assert (done.exit_code, done.stdout) == (3, "")
    assert f"photon: {state}: there is no state" in done.stderr
    assert "run it on the machine that has the datacenter's state folder" in done.stderr


def test_a_damaged_state_is_told_with_its_remedy(pipeline: Pipeline) -> None:
    (pipeline.datacenters["east"].state / STATE_FILE).write_bytes(b"this is no database, " * 100)
    done = photon("acknowledge", pipeline.file, "east")
    assert (done.exit_code, "is damaged" in done.stderr) == (3, True)
