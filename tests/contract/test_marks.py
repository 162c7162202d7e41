"""Marks of epochs on the stores that a registry may have (protocol A16)."""

from __future__ import annotations

from photon.registry.consensus.marks import NO_MARK, Mark
from tests.contract.registry_backends import Backend


def test_what_one_client_publishes_another_one_reads(backend: Backend) -> None:
    writer, reader = backend.client(), backend.client()
    assert reader.marks.read(["e"]) == {"e": NO_MARK}
    for batch in (1, 2, 40):
        writer.marks.publish("e", Mark(batch, batch))
        assert reader.marks.read(["e", "f"]) == {"e": Mark(batch, batch), "f": NO_MARK}


def test_a_next_process_of_an_epoch_goes_on_above_the_one_before(backend: Backend) -> None:
    backend.client().marks.publish("e", Mark(3))
    after = backend.client()
    after.marks.publish("e", Mark(4))
    assert backend.client().marks.read(["e"]) == {"e": Mark(4)}


def test_a_lost_answer_is_published_all_the_same(backend: Backend) -> None:
    client, faults = backend.faulty_client()
    client.marks.publish("e", Mark(1))
    faults.fail("lost_answer")
    client.marks.publish("e", Mark(2))
    assert backend.client().marks.read(["e"]) == {"e": Mark(2)}
