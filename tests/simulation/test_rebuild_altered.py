"""A row whose own columns were altered is right after what the text names: a rebuild, and a recovery."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from photon.registry.errors import RegistryUnavailable
from photon.upkeep.backfill.removed_rows import removed_rows
from photon.verification.days import utc_day
from tests.simulation.rebuilding import DAY, rebuild
from tests.simulation.test_rebuild import by_id, joined_world, table
from tests.simulation.verifying import recover_all
from tests.simulation.world import World

OTHER_DAY = datetime(2031, 1, 1, 12, tzinfo=UTC)


def alter(world: World, event_id: str, column: str, value: str | None) -> None:
    """Write a value, as SQL has it, into a column of an event's row."""
    table(world).update({column: value or "NULL"}, predicate=f"_event_id = '{event_id}'")


def test_rows_whose_own_records_can_be_found_are_as_they_were(tmp_path: Path) -> None:
    altered = [
        ("_primary_occurrence", "'1:7'"),  # within another record
        ("_primary_occurrence", "'9:0'"),  # in no file
        ("_primary_occurrence", "'nowhere'"),
        ("_primary_occurrence", None),
        ("_occurrence", "'2:0'"),  # the place of another record
        ("_occurrence", "'9:0'"),
        ("_occurrence", "'nowhere'"),
    ]
    world = joined_world(tmp_path)
    before = by_id(world)
    for number, (column, value) in enumerate(altered, start=1):
        alter(world, f"c{number}", column, value)
    assert all(by_id(world)[f"c{number}"] != before[f"c{number}"] for number in range(1, len(altered) + 1))
    done = rebuild(world)
    assert (done.tally.replaced, done.tally.kept) == (len(altered), {})
    assert by_id(world) == before


@pytest.mark.parametrize("moment", [OTHER_DAY, None])
def test_a_row_with_another_time_is_as_it_was_after_a_rebuild_of_the_day_that_it_names(
    tmp_path: Path, moment: datetime | None
) -> None:
    world = joined_world(tmp_path)
    before = by_id(world)
    value = None if moment is None else f"CAST('{moment:%Y-%m-%d %H:%M:%S}' AS TIMESTAMP)"
    alter(world, "c2", "_event_time", value)
    assert by_id(world)["c2"]["_event_time"] == moment
    assert rebuild(world, window=DAY if moment is None else utc_day(moment.date())).tally.replaced == 1
    assert by_id(world) == before


@pytest.mark.parametrize("repairs", [(rebuild, recover_all), (recover_all, rebuild, recover_all)])
def test_a_row_with_another_id_goes_and_its_event_is_joined_again(
    tmp_path: Path, repairs: tuple[Callable[[World], object], ...]
) -> None:
    world = joined_world(tmp_path)
    before = by_id(world)
    alter(world, "c2", "_event_id", "'forged'")
    for repair in repairs:
        repair(world)
        world.join()
        by_id(world)
    after = by_id(world)
    assert after.keys() == before.keys()
    assert after["c2"]["primary_text"] == before["c2"]["primary_text"]
    removed = removed_rows(world.pipeline.datacenters["east"].lake, "forged")
    assert removed.select(["why", "_event_id"]).to_pylist() == [{"why": "altered id", "_event_id": "forged"}]


def test_a_row_with_the_id_of_another_event_leaves_that_one_its_own(tmp_path: Path) -> None:
    world = joined_world(tmp_path)
    before = by_id(world)
    alter(world, "c2", "_event_id", "'c5'")
    rebuild(world)
    recover_all(world)
    world.join()
    after = by_id(world)
    assert after.keys() == before.keys()
    assert after["c5"] == before["c5"]


# -- where nobody can tell, a row stays


@pytest.mark.parametrize("other", ["c6", "c7"])
def test_a_row_stays_where_the_log_was_altered_and_not_the_row(tmp_path: Path, other: str) -> None:
    world = joined_world(tmp_path)
    before = by_id(world)
    path = world.folder / "logs/east/clicks/a.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"c5"', f'"{other}"'.encode()))
    assert rebuild(world).tally.kept == {"foreign record gone": 1}
    assert by_id(world) == before


def test_a_row_stays_while_the_registry_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = joined_world(tmp_path)
    alter(world, "c2", "_event_id", "'forged'")

    def silent() -> None:
        raise RegistryUnavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(world, "reader", silent)
        assert rebuild(world).tally.kept == {"foreign record gone": 1}
    assert rebuild(world).tally.dropped == {"altered id": 1}


def test_a_row_whose_primary_is_in_no_log_stays(tmp_path: Path) -> None:
    world = joined_world(tmp_path)
    before = by_id(world)
    (world.folder / "logs/east/queries/a.jsonl").unlink()
    assert rebuild(world).tally.kept == {"primary record gone": 8}
    assert by_id(world) == before
