"""Several pipelines have their registries at the same stores, and know nothing of each other's ids (B9)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from photon.clock import SystemClock
from photon.ledger.opening import close_registries, find_registry, init_registry, open_registry
from photon.ledger.servers.local_server import local_server
from photon.pipeline.event_key import EventKey
from photon.pipeline.file import load_pipeline
from photon.registry.consensus.marks import Mark
from photon.registry.interface import Claim, Fenced, Free, Holder, Joined, Won
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.traffic import Traffic

pytestmark = pytest.mark.server

# Each begins as another one does, or differs in a sign alone.
NAMES = ("c", "clicks", "clicks-more", "clicks_more", "clicks-0123456789abcdef")
IDS = [EventKey(f"c{n}") for n in range(60)]
EPOCH = "epoch"  # of each pipeline: nothing but the table tells them apart


@pytest.fixture(scope="module")
def registries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, QuorumRegistry]]:
    """One registry a pipeline, all at one store: their files lie in one folder."""
    folder = tmp_path_factory.mktemp("pipelines")
    made: dict[str, QuorumRegistry] = {}
    with local_server(folder / "state" / "registry"):
        for name in NAMES:
            file = Path(Traffic(1, ("east",)).write_pipeline(folder, name)).rename(folder / f"{name}.yaml")
            init_registry(load_pipeline(file), SystemClock())
            made[name] = open_registry(find_registry(load_pipeline(file)))
            made[name].register.add_epoch(EPOCH, "east", f"table of {name}", 0)
        yield made
        close_registries()


def claims(name: str, batch: int = 1) -> list[Claim]:
    plan = f"plan-of-{name.replace('-', '').replace('_', '')}"
    return [Claim(key, f"east:{EPOCH}:{batch}#{plan}:1:{n}") for n, key in enumerate(IDS)]


def test_each_pipeline_wins_the_same_ids_once(registries: dict[str, QuorumRegistry]) -> None:
    for name, registry in registries.items():
        assert registry.lookup(IDS) == [Free()] * len(IDS), f"{name} knows ids of another pipeline"
        assert registry.commit(claims(name)) == [Won()] * len(IDS)
    for name, registry in registries.items():
        own = [Joined(Holder("east", claim.token)) for claim in claims(name)]
        assert registry.lookup(IDS) == own


def test_what_one_pipeline_does_to_its_ids_epochs_and_marks_is_its_own(
    registries: dict[str, QuorumRegistry],
) -> None:
    one, other = registries["clicks"], registries["clicks-more"]
    before = other.lookup(IDS[:2]), other.register.read()
    one.marks.publish(EPOCH, Mark(7))
    one.release(claims("clicks")[:1])
    one.clear(claims("clicks")[1:2])
    one.register.revoke_epoch(EPOCH, 1)
    assert one.commit(claims("clicks", 8)[:1]) == [Fenced(EPOCH)]
    assert (other.lookup(IDS[:2]), other.register.read()) == before
    assert other.marks.read([EPOCH]) == {EPOCH: Mark(0)}
