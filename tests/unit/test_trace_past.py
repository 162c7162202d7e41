"""The story of an event whose row went and was made again, as far as the stores still show it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import write_deltalake

from photon.cli.trace import trace_text
from photon.page.event import told
from photon.storage.table_log import checkpoint, clean
from photon.tracing.past import Past
from photon.tracing.past_search import gone_rows
from photon.tracing.report import Trace
from photon.verification.report import VerificationReport
from photon.verification.stored_reports import append
from tests.simulation import failing_adapter
from tests.simulation.rebuilding import rebuild
from tests.simulation.recovery_stories import a_row_is_removed
from tests.simulation.verifying import recover_all, verify
from tests.simulation.world import World

FAR_US = 2**60  # any checkpoint is older


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two events are joined, in files and commits of their own."""
    made = World(tmp_path, ("east", "west"))
    for event_id in ("c1", "c2"):
        made.events(event_id)
        made.join("east")
    return made


def a_verification_is_stored(world: World) -> int:
    """Verify, and store the reports; when."""
    world.clock.advance(60)
    at_us = world.clock.now_us()
    append(world.pipeline, VerificationReport(verify(world), len(world.rows())), at_us, "run", 1.0)
    return at_us


def recovered(world: World) -> int:
    """Lose the row of c1, verify, recover; when the verification was."""
    a_row_is_removed(world)
    at_us = a_verification_is_stored(world)
    recover_all(world)
    world.join("east")
    return at_us


def past_of(found: Trace, datacenter: str = "east") -> Past:
    return found.datacenters[datacenter].past


def moments(found: Trace) -> list[tuple[str, str]]:
    """East's moments on the page, in their order: kind and words."""
    (lane,) = (one for one in told(found)["lanes"] if one["name"] == "east")
    return [(one["kind"], one["says"]) for one in lane["moments"]]


def test_a_recovered_event_tells_its_first_row_the_loss_and_the_recovery(world: World) -> None:
    (first,) = world.trace("c1").datacenters["east"].rows
    verified_us = recovered(world)
    found = world.trace("c1")
    (row,) = found.datacenters["east"].rows
    past = past_of(found)
    (gone,) = past.gone
    assert (gone.epoch, gone.batch, gone.plan) == (first["_epoch"], first["_batch"], first["_plan"])
    assert gone.file == first["file"]
    assert gone.removed_by == "DELETE"
    assert gone.version is not None
    assert gone.version < gone.removed_version
    assert [(one.kind, one.first_us, one.last_us) for one in past.told] == [
        ("missing", verified_us, verified_us)
    ]
    order = past.order_behind(row)
    assert order is not None
    assert gone.batch < row["_batch"]
    assert found.verdict.startswith(f"Joined by datacenter east in batch {row['_batch']} of epoch 1")
    assert f"A row of batch {gone.batch} of epoch 1, joined at 20" in found.verdict
    assert f": DELETE in version {gone.removed_version} of the table. A verification" in found.verdict
    assert f"A work order had it looked at again after batch {order.batch}." in found.verdict
    assert past_of(found, "west") == Past()


def test_text_and_json_tell_the_same_past(world: World) -> None:
    recovered(world)
    found = world.trace("c1")
    shown = trace_text(found)
    for line in (
        "row gone     batch 1 of epoch 1, joined at 2023-11-14 ",
        "; taken out by DELETE in version ",
        "verified     among records that should be joined and are in no table, at ",
        "taken up     1:0 by a work order, after batch 2",
    ):
        assert line in shown
    past = json.loads(json.dumps(found.as_dict(), default=str))["datacenters"]["east"]["past"]
    assert past["gone"][0]["removed_by"] == "DELETE"
    assert past["told"][0]["kind"] == "missing"
    assert past["taken_up"] == [{"epoch": "1", "occurrence": "1:0", "batch": 2}]


def test_the_page_tells_it_as_moments(world: World) -> None:
    recovered(world)
    found = moments(world.trace("c1"))
    assert ("joined", "a row of batch 1 of epoch 1, gone since") in found
    missing = "a verification found it among records that should be joined and are in no table"
    assert ("verified", missing) in found
    (removed,) = [says for kind, says in found if kind == "row gone"]
    assert removed.startswith("taken out by DELETE in version ")
    (again,) = [says for kind, says in found if kind == "recovered"]
    assert again.endswith("of epoch 1, by a work order that was taken up after batch 2")


def test_a_row_that_is_gone_says_so_before_anybody_verifies(world: World) -> None:
    a_row_is_removed(world)
    found = world.trace("c1")
    assert "Not joined." in found.verdict
    assert [row.removed_by for row in past_of(found).gone] == ["DELETE"]
    assert "of the table." in found.verdict


def test_commits_in_the_archive_of_the_log_are_known(world: World) -> None:
    recovered(world)
    checkpoint(world.table().folder)
    assert clean(world.table().folder, FAR_US)
    (gone,) = past_of(world.trace("c1")).gone
    assert gone.version is not None


def test_a_row_that_vacuum_took_is_not_known_any_more(world: World) -> None:
    (first,) = world.trace("c1").datacenters["east"].rows
    recovered(world)
    Path(first["file"]).unlink()
    found = world.trace("c1")
    assert past_of(found).gone == []
    assert "Whether and when a row of it went is not known any more: what leaves a table is" in found.verdict
    assert "row gone     Whether and when" in trace_text(found)
    assert [kind for kind, _ in moments(found)].count("row gone") == 1


def test_rows_that_a_commit_only_moves_are_not_gone(world: World) -> None:
    """The delete of c1 writes c2 into another file, when both lie in one."""
    handle = world.table().load()
    write_deltalake(handle, handle.to_pyarrow_table(), mode="overwrite")
    a_row_is_removed(world)
    assert len(gone_rows(world.table(), "c1", [])) == 1
    assert gone_rows(world.table(), "c2", []) == []


def test_a_row_that_a_rebuild_took_out_is_told_by_its_record_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, ("east",), f"adapter: {failing_adapter.NAME}:join")
    world.events("c1")
    world.join()
    monkeypatch.setattr(failing_adapter, "drops", ["c1"])
    rebuild(world)
    found = world.trace("c1")
    assert found.datacenters["east"].removed
    assert past_of(found) == Past()


def test_a_row_that_was_put_back_is_not_gone(world: World) -> None:
    version = world.table().load().version()
    a_row_is_removed(world)
    a_verification_is_stored(world)
    world.table().load().restore(version)
    found = world.trace("c1")
    assert past_of(found).gone == []
    assert past_of(found).was_missing


def test_an_event_that_nothing_happened_to_has_no_past(world: World) -> None:
    a_verification_is_stored(world)
    rebuild(world)
    assert past_of(world.trace("c1")) == Past()
    assert past_of(world.trace("nobody")) == Past()


def test_verifications_that_name_it_again_are_told_once_with_the_last(world: World) -> None:
    a_row_is_removed(world)
    first_us, last_us = a_verification_is_stored(world), a_verification_is_stored(world)
    ((one,),) = (past_of(world.trace("c1")).told,)
    assert (one.first_us, one.last_us) == (first_us, last_us)
    assert ", last at " in trace_text(world.trace("c1"))
