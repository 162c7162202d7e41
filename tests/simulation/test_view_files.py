"""Files of a view's holds, which tasks read: whatever becomes of them, the ledgers have all that they say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from photon.join.messages import BatchTasks, TaskOutcome
from photon.join.tasks import LocalRunner
from photon.registry import id_registry
from photon.registry.errors import RegistryMismatch
from photon.registry.opening import runs_of
from photon.registry.segments import SUFFIX
from tests.simulation.world import World, assert_counts

Harm = Callable[[Path], None]


def is_removed(file: Path) -> None:
    file.unlink()


def is_emptied(file: Path) -> None:
    file.rename(file.with_suffix(".before"))  # a reader that has mapped the file goes on with it
    file.write_bytes(b"")


def is_of_another_view(file: Path) -> None:
    file.rename(file.with_suffix(".before"))
    file.write_bytes(b"PhotonHo" + bytes(60))


@pytest.fixture
def joined(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world with some rows, in which each batch saves the view before its tasks run."""
    monkeypatch.setattr(id_registry, "MOST_INLINE", 0)
    world.queries(*(f"q{number}" for number in range(6)))
    world.clicks(*((f"c{number}", f"q{number}") for number in range(4)))
    world.join()
    return world


def files_of_the_view(world: World) -> list[Path]:
    folder = runs_of(world.pipeline.datacenters["east"])
    assert isinstance(folder, Path)
    return sorted(folder.glob(f"*{SUFFIX}"))


@pytest.mark.parametrize("harm", [is_removed, is_emptied, is_of_another_view])
def test_a_file_that_is_spoilt_between_two_joins_costs_nothing_but_reading(joined: World, harm: Harm) -> None:
    for file in files_of_the_view(joined):
        harm(file)
    joined.clicks(("c1", "q1"), ("c4", "q4"))
    counts = joined.join().counts
    assert joined.joined_ids() == ["c0", "c1", "c2", "c3", "c4"]
    assert_counts(counts, joined=5, duplicates=1, pending=0)


@pytest.mark.parametrize("harm", [is_removed, is_emptied, is_of_another_view])
def test_a_file_that_is_spoilt_before_the_tasks_open_it_ends_no_batch(
    joined: World, harm: Harm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes with copies of one state spoil files like this, or a person who tidies up."""
    spoilt: list[Path] = []
    taken = id_registry.IdRegistry.snapshot

    def snapshot_and_harm(self: id_registry.IdRegistry, *args: object) -> object:
        snapshot = taken(self, *args)  # type: ignore[arg-type]
        if not spoilt:
            spoilt.extend(files_of_the_view(joined))
            for file in spoilt:
                harm(file)
        return snapshot

    monkeypatch.setattr(id_registry.IdRegistry, "snapshot", snapshot_and_harm)
    joined.clicks(("c1", "q1"), ("c4", "q4"))
    counts = joined.join().counts
    assert spoilt
    assert joined.joined_ids() == ["c0", "c1", "c2", "c3", "c4"]
    assert_counts(counts, joined=5, duplicates=1, dead_letters=0)


def test_a_registry_that_is_put_back_with_the_files_under_a_batch_is_refused(joined: World) -> None:
    copy = joined.ledgers.copy()
    joined.clicks(("c4", "q4"))
    joined.join()

    class PutsBack(LocalRunner):
        def run(self, batch: BatchTasks) -> list[TaskOutcome]:
            for file in files_of_the_view(joined):
                file.unlink()
            joined.ledgers.put_back(copy)
            return super().run(batch)

    joined.clicks(("c4", "q4"), ("c5", "q5"))
    with pytest.raises(RegistryMismatch, match="a copy was put back"):
        joined.join(runner=PutsBack(joined.clock))
    assert joined.joined_ids() == ["c0", "c1", "c2", "c3", "c4"]
