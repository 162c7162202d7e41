"""The parts of `photon bench registry`: that they measure what they say. How much is said by the command."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from click.testing import CliRunner

from bench import registry_measurement
from bench.command import _registry_lines, bench
from bench.manual_clock import ManualClock
from bench.registry_load import Distant, Rates
from bench.registry_measurement import Stores
from bench.registry_outage import TOKENS, _different, _not_theirs
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.layout import ItemKey
from photon.registry.interface import Claim
from photon.testing.memory_registry import memory_registry
from tests.simulation.faulty_acceptor import FaultyAcceptor


def test_each_request_to_a_distant_endpoint_takes_the_time_of_the_way() -> None:
    clock = ManualClock()
    distant = Distant(FaultyAcceptor(), 0.1, clock)
    distant.read([ItemKey("p", "a")])
    distant.read([ItemKey("p", "a")])
    assert clock.now_us() == 200_000
    assert distant.reads_per_request == FaultyAcceptor.reads_per_request


def test_an_id_whose_winner_is_not_told_to_a_later_token_is_counted_as_lost() -> None:
    registry = memory_registry()
    registry.commit([Claim(EventKey("a"), TOKENS["east"]), Claim(EventKey("b"), TOKENS["west"])])
    assert _not_theirs(registry.commit, {"a": "east", "b": "west"}) == 0
    assert _not_theirs(registry.commit, {"a": "west", "never": "east"}) == 2
    registry.close()


def test_an_id_that_two_endpoints_do_not_have_alike_is_counted_as_different() -> None:
    one, other = FaultyAcceptor(), FaultyAcceptor()
    registry = memory_registry(one, other, FaultyAcceptor())
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
    }
    heading, *lines = _registry_lines(found)
    assert heading.split() == ["ids", "a", "second", "commits", "far", "lookups", "far", "CPU", "us,", "each"]
    assert [line.split()[-1] for line in lines] == ["15.0", "28", "51", "0"]
