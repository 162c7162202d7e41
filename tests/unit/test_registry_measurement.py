"""The parts of `photon bench registry`: that they measure what they say. How much is said by the command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import pytest
from click.testing import CliRunner

from bench import registry_measurement
from bench.command import _registry_lines, bench
from bench.distant_clients import CHANGES, IDS_PER_CALL, NEAREST_SECONDS, Calls, DistantClients
from bench.registry_load import Distant, Rates
from bench.registry_measurement import Stores
from bench.registry_outage import TOKENS, _different, _not_theirs
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.layout import REGISTER_KEY, ItemKey
from photon.registry.consensus.register import Register, decode_register
from photon.registry.interface import Claim, Unknown, Won
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock
from photon.testing.memory_registry import memory_registry


def test_each_request_to_a_distant_endpoint_takes_the_time_of_the_way() -> None:
    clock = ManualClock()
    distant = Distant(FaultyStore(), 0.1, clock)
    distant.read([ItemKey("p", "a")])
    distant.read([ItemKey("p", "a")])
    assert clock.now_us() == 200_000
    assert distant.reads_per_request == FaultyStore.reads_per_request


def test_an_id_whose_winner_is_not_told_to_a_later_token_is_counted_as_lost() -> None:
    registry = memory_registry()
    registry.commit([Claim(EventKey("a"), TOKENS["east"]), Claim(EventKey("b"), TOKENS["west"])])
    assert _not_theirs(registry.commit, {"a": "east", "b": "west"}) == 0
    assert _not_theirs(registry.commit, {"a": "west", "never": "east"}) == 2
    registry.close()


def test_an_id_that_two_endpoints_do_not_have_alike_is_counted_as_different() -> None:
    one, other = FaultyStore(), FaultyStore()
    registry = memory_registry(one, other, FaultyStore())
    registry.commit([Claim(EventKey("a"), TOKENS["east"]), Claim(EventKey("b"), TOKENS["east"])])
    assert _different([one, other]) == 0
    missing = next(key for key in other.items if key.s == "ia")
    del other.items[missing]
    assert _different([one, other]) == 1
    registry.close()


OUTAGE = {"ids": 9, "calls": 3, "longest_pause_seconds": 1.5, "won_twice": 0, "lost": 0, "different": 0}


@pytest.mark.parametrize(
    ("wrong", "status"), [({}, 0), ({"lost": 1}, 1), ({"won_twice": 1}, 1), ({"different": 1}, 1)]
)
def test_the_command_ends_with_1_if_an_outage_has_done_harm(
    monkeypatch: pytest.MonkeyPatch, wrong: dict[str, int], status: int
) -> None:
    monkeypatch.setattr(registry_measurement, "outages", lambda *_: {"one_of_three": OUTAGE | wrong})
    done = CliRunner().invoke(bench, ["registry", "--only", "outages", "--json"])
    assert done.exit_code == status


def test_the_table_has_a_line_for_each_measurement() -> None:
    rates = asdict(Rates(1_000.0, 2_000.0, commit_cpu_us=10.0, lookup_cpu_us=15.0))
    found = {
        "rates": [{"stores": str(Stores("dynoxide", 3, 1)), "near": rates, "far": rates}],
        "bytes": {"fast": {"before_clearing": 95.0, "after_clearing": 28.0}},
        "memory": {"ids": 10, "resident_bytes": [50_000_000, 51_000_000]},
        "outages": {"one_of_three": OUTAGE},
        "distance": {
            "clients": 40,
            "endpoints": 3,
            "while_changing": {"horizon": asdict(Calls(10, 1.0, 0.9, 2.0, 1.5, 3.0, 0.25))},
        },
    }
    heading, *lines = _registry_lines(found)
    assert heading.split() == ["ids", "a", "second", "commits", "far", "lookups", "far", "CPU", "us,", "each"]
    assert [line.split()[-1] for line in lines] == ["15.0", "28", "51", "0", "unknown", "25.00%"]


def register_of(clients: DistantClients) -> Register:
    stored = [store.items[REGISTER_KEY] for store in clients._stores.values()]
    return decode_register(max(stored, key=lambda one: one.accepted).value or "")


@pytest.mark.parametrize("change", CHANGES)
def test_while_distant_clients_commit_the_register_changes_as_it_is_said(change: str) -> None:
    clients = DistantClients(change, seconds=25.0, clients=4)
    calls = clients.measure()
    register = register_of(clients)
    first_us = 2_000_000 * int(clients._settings.horizon_step.total_seconds())
    changed = {
        "horizon": (register.horizon_us or 0) > first_us,
        "boundary": register.boundary_us is not None,
        "members": register.members.version > 1,
    }
    assert [name for name, is_so in changed.items() if is_so] == [change][change == "calm" :]
    assert calls.calls > 4
    assert calls.p50_seconds > 4 * NEAREST_SECONDS  # a round and its check, there and back
    assert calls.p50_round_trips < 4


def test_what_ends_unknown_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(self: QuorumRegistry, claims: Sequence[Claim]) -> list[object]:
        return [Unknown("broken"), *[Won()] * (len(claims) - 1)]

    monkeypatch.setattr(QuorumRegistry, "commit", unknown)
    assert DistantClients("calm", seconds=5.0, clients=2).measure().unknown_share == 1 / IDS_PER_CALL


@pytest.mark.slow
def test_clients_far_apart_do_not_hold_each_other_up_when_horizon_or_boundary_move() -> None:
    calm, *others = (DistantClients(change, 30.0).measure() for change in ("calm", "horizon", "boundary"))
    for calls in (calm, *others):
        assert calls.unknown_share == 0
        assert calls.p99_seconds < 2 * calm.p99_seconds
