"""A lake whose store does not answer is not taken for one that is gone or damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from photon.pipeline.file import Pipeline
from photon.pipeline.location import S3Folder
from photon.pipeline.sections import Registry
from photon.registry.entry import NO_HASHES
from photon.registry.register import Members, Register
from photon.registry.taken_rows import listed, put_list
from photon.storage import s3
from photon.storage.delta import LakeUnavailable
from photon.storage.tables import OutputTable
from photon.unmatched.found import HeldBack
from photon.unmatched.lakes import lakes_of
from photon.upkeep.retirable import NotRetired, table_that_counts
from tests.conftest import BUCKET
from tests.faulty_s3 import FaultyS3
from tests.registry.store_backends import first_register, pipeline_over
from tests.support.output_tables import new_table

pytestmark = pytest.mark.server


def is_read(method: str, path: str) -> bool:
    """Whether delta-rs reads the table, which a listing has found just before."""
    return method == "GET" and path.endswith(".json")


def does_not_answer(faulty: FaultyS3) -> None:
    faulty.meet("silent")


def refuses_connections(faulty: FaultyS3) -> None:
    faulty.refuse()


def is_busy(faulty: FaultyS3) -> None:
    faulty.meet("busy")


def goes_amid_a_look(faulty: FaultyS3) -> None:
    faulty.meet("cut", among=is_read)


@pytest.fixture
def pipeline(faulty: FaultyS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    """Two datacenters, the second one with its lake behind a way that may fail."""
    s3.forget_clients()
    monkeypatch.setattr(s3, "RETRIES", 0)
    made = pipeline_over(tmp_path, Registry())
    lakes = {"a": tmp_path / "a", "b": S3Folder(BUCKET, tmp_path.name, faulty.url)}
    places = {
        name: place.model_copy(update={"lake": lakes[name]}) for name, place in made.datacenters.items()
    }
    yield made.model_copy(update={"datacenters": places})
    faulty.mend()
    s3.forget_clients()


@pytest.fixture
def register(pipeline: Pipeline) -> Register:
    table_id = new_table(pipeline.datacenters["b"].lake).table_id()
    known = first_register(Members(1, ("x",)))
    return replace(known, epochs={"a": 1, "b": 1}, tables={"b": table_id})


@pytest.mark.parametrize("fails", [does_not_answer, refuses_connections, is_busy, goes_amid_a_look])
def test_a_datacenter_is_not_retired_as_if_its_lake_were_gone_while_the_store_does_not_answer(
    pipeline: Pipeline, register: Register, faulty: FaultyS3, fails: Callable[[FaultyS3], None]
) -> None:
    """Broken variant: with --lake-is-gone each of its rows would be joined again, and be there twice."""
    fails(faulty)
    for lake_is_gone in (True, False):
        with pytest.raises(NotRetired) as raised:
            table_that_counts(pipeline, "b", register, lake_is_gone)
        said = str(raised.value)
        assert "not retired, for nobody knows whether its lake is gone" in said
        assert f"Once {pipeline.datacenters['b'].lake / 'joined_events'} can be read: photon retire" in said
    others = {name: place for name, place in pipeline.datacenters.items() if name != "b"}
    without = pipeline.model_copy(update={"datacenters": others})
    assert table_that_counts(without, "b", register, lake_is_gone=True) is None, "the way out that it names"


def test_a_datacenter_whose_table_is_not_in_a_store_that_answers_may_be_retired_without_its_rows(
    pipeline: Pipeline, register: Register
) -> None:
    store = OutputTable(pipeline.datacenters["b"].lake, "joined_events").store
    store.remove(*store.sizes())
    assert table_that_counts(pipeline, "b", register, lake_is_gone=True) is None


def test_unmatched_primaries_wait_for_a_store_without_a_word_of_giving_it_up(
    pipeline: Pipeline, register: Register, faulty: FaultyS3
) -> None:
    faulty.refuse()
    with pytest.raises(HeldBack, match=r"Connection refused.*it is not lost: ask again once") as raised:
        lakes_of(pipeline, register, "b")
    assert "retire" not in str(raised.value)


def test_a_list_of_acknowledged_rows_is_not_called_missing_where_no_store_answers(
    pipeline: Pipeline, register: Register, faulty: FaultyS3
) -> None:
    digest = put_list(pipeline, ("a",), "b", NO_HASHES)
    faulty.refuse()
    with pytest.raises(LakeUnavailable, match="Connection refused") as raised:
        listed(pipeline, replace(register, taken={"b": digest}))
    assert "no lake has" not in str(raised.value)
