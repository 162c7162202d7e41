"""Random histories of landed objects, and what leaves out a rule, which a history notices each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from photon.dispatcher import landed_logs
from photon.landing.objects import known, lander
from photon.landing.objects.contents import write_lines
from photon.landing.objects.known import Known
from photon.landing.objects.lander import ObjectsLander
from photon.landing.objects.names import digest_of
from photon.landing.objects.source import ObjectSource
from photon.process.clock import MICROSECONDS
from photon.storage.s3 import StoredObject
from photon.storage.store_errors import StoreUnavailable
from photon.storage.sync import make_folder, write_synced
from tests.landing.histories import is_noticed, run
from tests.landing.objects_histories import ObjectsHistory

SEEDS = range(6)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_history_of_objects_loses_one_or_calls_its_log_read_too_early(seed: int) -> None:
    run(ObjectsHistory, seed)


def _early(real: Callable[..., bool]) -> Callable[..., bool]:
    """K8, K9: an object is known before it has its file."""

    def land(self: ObjectsLander, one: StoredObject) -> bool:
        self._known.land(digest_of(one.name, one.etag), one.size_bytes, self._clock.now_us())
        self._known.commit()
        return real(self, one)

    return land


def _in_place(self: ObjectsLander, one: StoredObject, path: Path) -> None:
    """K8: the file has its name before it is whole."""
    copy = self._aside / "copy"
    with copy.open("wb") as sink:
        self._source.copy(one, sink)
    make_folder(path.parent)
    write_synced(path, lambda sink: write_lines(copy, self._ending, {}, sink))


def _marked_first(real: Callable[..., None]) -> Callable[..., None]:
    """K10: the marker says that nothing waits before the files are there."""

    def say(self: ObjectsLander, **changed: object) -> None:
        real(self, **changed | {"waiting": 0})

    return say


def _of_one_number(real: Callable[..., None]) -> Callable[..., None]:
    """K10: markers before and behind new files look alike."""
    return lambda self, **changed: real(self, **changed | {"look": "1"})


def _cut(real: Callable[..., Iterator[StoredObject]]) -> Callable[..., Iterator[StoredObject]]:
    """K9: a listing that an error ends counts as whole."""

    def listed(self: ObjectSource) -> Iterator[StoredObject]:
        with suppress(StoreUnavailable):
            yield from real(self)

    return listed


def _forgetful(real: Callable[..., None]) -> Callable[..., None]:
    """K9: an object is forgotten while the source lists it."""

    def forget(self: Known, now_us: int) -> None:
        real(self, now_us + (known.FORGOTTEN_AFTER_DAYS + 1) * 24 * 3_600 * MICROSECONDS)

    return forget


def _of_its_word(_: object) -> Callable[..., bool]:
    """K10: a marker counts however old it is."""
    return lambda before, after, *_: (
        bool(before and after.at_end and before.look == after.look)
        and not (before.waiting or after.waiting or after.failed_count)
    )


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        pytest.param(ObjectsLander, "_land", _early, id="known_before_the_rename"),
        pytest.param(ObjectsLander, "_write", lambda _: _in_place, id="a_file_written_in_place"),
        pytest.param(lander, "sync", lambda _: lambda _: None, id="a_name_that_is_not_on_disk"),
        pytest.param(ObjectsLander, "_say", _marked_first, id="a_marker_before_its_files"),
        pytest.param(ObjectsLander, "_say", _of_one_number, id="markers_that_look_alike"),
        pytest.param(ObjectSource, "listed", _cut, id="a_cut_listing"),
        pytest.param(Known, "forget", _forgetful, id="forgotten_too_early"),
        pytest.param(Known, "keep", lambda _: lambda *_: None, id="failures_that_a_lost_list_has_not"),
        pytest.param(ObjectsLander, "_compare_missed", lambda _: lambda *_: None, id="losses_not_told"),
        pytest.param(landed_logs, "_is_all_landed", _of_its_word, id="an_old_marker_taken_as_true"),
    ],
)
def test_landing_of_objects_that_leaves_out_a_rule_is_noticed(
    owner: object, name: str, broken: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, broken(getattr(owner, name)))
    assert is_noticed(ObjectsHistory)
