"""The small register: read by everybody, changed by one at a time, never backwards."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from photon.ledger.errors import RegistryUnavailable, RetiredDatacenter
from photon.ledger.stores.decisions import ballot
from photon.pipeline.sections import Registry
from photon.registry.consensus.acceptor import Accept, Prepare
from photon.registry.consensus.layout import REGISTER_KEY, fenced_epoch
from photon.registry.consensus.register import (
    EPOCHS_KEPT,
    EpochRecord,
    EpochState,
    Members,
    Register,
    ShardConfig,
    decode_register,
    encode_register,
    retired_datacenters,
    with_boundary,
    with_datacenter_given_up,
    with_epoch,
    with_epoch_state,
    with_hold,
    with_horizon,
    with_refill_begun,
)
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock
from photon.testing.memory_registry import memory_registry

DAY_US = 86_400_000_000
SETTINGS = Registry(total_timeout=timedelta(seconds=5), horizon_step=timedelta(days=1))
REGISTER = Register(
    pipeline="p",
    settings_hash="s",
    shard_hash="h",
    members=Members(1, ("first",)),
    configs=(ShardConfig(16, None, 5), ShardConfig(32, 5, None)),
    horizon_us=10,
    boundary_us=-3,
    epochs={"e1": EpochRecord("east", "live", "table", 4)},
)


TIMES_US = st.none() | st.integers(-(2**63), 2**63 - 1)
SLOTS = st.lists(st.integers(0, 4), unique=True).map(tuple)
NAMES = st.text(min_size=1)
REGISTERS = st.builds(
    Register,
    pipeline=NAMES,
    settings_hash=NAMES,
    shard_hash=NAMES,
    members=st.builds(Members, st.integers(1), st.lists(NAMES, min_size=1).map(tuple), SLOTS, SLOTS),
    configs=st.lists(st.builds(ShardConfig, st.integers(1), TIMES_US, TIMES_US)).map(tuple),
    horizon_us=TIMES_US,
    boundary_us=TIMES_US,
    epochs=st.dictionaries(
        NAMES,
        st.builds(EpochRecord, NAMES, st.sampled_from(("live", "revoked", "retired")), NAMES, st.integers(0)),
    ),
)


@given(REGISTERS)
def test_a_register_is_read_as_it_was_written(register: Register) -> None:
    assert decode_register(encode_register(register)) == register


@given(REGISTERS, st.integers(0, 2**62), st.integers(1, 2**60))
def test_horizon_and_boundary_never_go_back(register: Register, now_us: int, step_us: int) -> None:
    moved = with_boundary(with_horizon(register, now_us, step_us), now_us)
    assert moved.has_boundary_of(register)
    assert (moved.horizon_us is None) == (register.horizon_us is None)
    assert moved.horizon_us is None or moved.horizon_us >= (register.horizon_us or moved.horizon_us)
    assert moved.members == register.members


def test_an_epoch_is_revoked_then_retired_and_never_live_again() -> None:
    retired = with_epoch_state(with_epoch_state(REGISTER, "e1", "revoked", 7), "e1", "retired", 8)
    assert retired.epochs["e1"] == EpochRecord("east", "retired", "table", 8)
    assert with_epoch_state(retired, "e1", "revoked", 9) == retired


def test_an_epoch_or_datacenter_that_the_register_lacks_by_now_is_decided_on_anew() -> None:
    """A copy of the registry was put back since it was read."""
    with pytest.raises(RegistryUnavailable, match=r"knew epoch e9 a moment ago.* was put back"):
        with_epoch_state(REGISTER, "e9", "revoked", 7)
    for is_lake_gone in (False, True):
        with pytest.raises(RegistryUnavailable, match="knew datacenter north a moment ago"):
            with_datacenter_given_up(REGISTER, "north", is_lake_gone, 7)


def register_with(revoked: int, datacenter: str = "east") -> Register:
    """One whose datacenter has begun an epoch so often, and has revoked the one before each time."""
    register = replace(REGISTER, epochs={})
    for number in range(revoked + 1):
        name = f"{datacenter}{number}"
        register = with_epoch(register, name, EpochRecord(datacenter, "live", "table", number))
        if number < revoked:
            register = with_epoch_state(register, name, "revoked", number)
    return register


def test_of_revoked_epochs_the_latest_are_kept() -> None:
    register = register_with(revoked=100)
    assert list(register.epochs) == [f"east{number}" for number in range(100 - EPOCHS_KEPT, 101)]
    # Beside the five hundred configs at most, and the rest of the register.
    assert len(encode_register(register)) < len(encode_register(replace(REGISTER, epochs={}))) + 2_500


def test_no_other_epoch_is_pruned() -> None:
    revoked = register_with(revoked=100, datacenter="west").epochs
    retired = {f"r{number}": EpochRecord("north", "retired", "table", number) for number in range(100)}
    live = {f"l{number}": EpochRecord("east", "live", "table", number) for number in range(100)}
    register = replace(REGISTER, epochs={**revoked, **retired, **live})
    for datacenter in ("north", "east"):
        new = {"new": EpochRecord(datacenter, "live", "table", 1_000)}
        assert with_epoch(register, "new", new["new"]).epochs == {**register.epochs, **new}


@given(REGISTERS, st.text(), st.sampled_from(("live", "revoked", "retired")))
def test_only_a_live_epoch_lets_tokens_in(register: Register, epoch: str, state: EpochState) -> None:
    register = replace(register, epochs={**register.epochs, "e1": EpochRecord("east", state, "table", 1)})
    assert fenced_epoch("east:e1:1#p:1:0", register) == (None if state == "live" else "e1")
    if epoch not in register.epochs and ":" not in epoch:
        assert fenced_epoch(f"east:{epoch}:1#p:1:0", register) == epoch


def test_a_datacenter_that_never_began_an_epoch_is_not_refused() -> None:
    """Nothing of it can be pruned. Those who only try a registry need not begin one."""
    assert fenced_epoch("west:e9:1#p:1:0", REGISTER) is None


def test_a_datacenter_with_a_retired_epoch_was_given_up() -> None:
    states: dict[str, EpochState] = {"east": "live", "west": "revoked", "north": "retired"}
    epochs = {name: EpochRecord(name, state, "table", 1) for name, state in states.items()}
    assert retired_datacenters(epochs) == {"north"}


def test_the_horizon_moves_in_steps_and_never_back() -> None:
    ahead = with_horizon(REGISTER, now_us=100, step_us=50)
    assert ahead.horizon_us == 200
    assert with_horizon(ahead, now_us=140, step_us=50) == ahead
    assert with_horizon(ahead, now_us=10, step_us=50) == ahead


def test_without_times_in_ids_there_is_no_horizon_to_move() -> None:
    timeless = replace(REGISTER, horizon_us=None)
    assert with_horizon(timeless, now_us=100, step_us=50) == timeless


def test_changes_of_many_clients_at_once_are_all_kept() -> None:
    acceptor = FaultyStore(ManualClock())
    memory_registry(acceptor, clock=ManualClock(), settings=SETTINGS)

    def add(number: int) -> None:
        patient = Registry(total_timeout=timedelta(seconds=60))  # all eight outbid one another
        registry = memory_registry(acceptor.another_way_in(), settings=patient)
        registry.register.add_epoch(f"e{number}", "east", f"table-{number}", now_us=number)
        registry.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(24)))
    register = memory_registry(acceptor, clock=ManualClock()).register.read()
    assert set(register.epochs) == {f"e{number}" for number in range(24)}


def test_an_epoch_is_added_once_however_often_it_is_said() -> None:
    store = memory_registry(clock=ManualClock()).register
    first = store.add_epoch("e1", "east", "table", now_us=1)
    assert store.add_epoch("e1", "east", "table", now_us=2) == first


def test_an_epoch_does_not_change_its_datacenter_or_table() -> None:
    store = memory_registry(clock=ManualClock()).register
    store.add_epoch("e1", "east", "table", now_us=1)
    with pytest.raises(ValueError, match="already that of datacenter east"):
        store.add_epoch("e1", "west", "table", now_us=2)


@pytest.mark.parametrize("fault", ["lost_request", "lost_answer"])
@pytest.mark.parametrize("batches", [1, 2, 3])
def test_a_change_whose_answer_got_lost_is_made_once_it_is_known(fault: str, batches: int) -> None:
    acceptor = FaultyStore(ManualClock())
    store = memory_registry(acceptor, clock=ManualClock(), settings=SETTINGS).register
    acceptor.fail(fault, batches)  # type: ignore[arg-type]
    store.add_epoch("e1", "east", "table", now_us=1)
    assert store.read().epochs["e1"] == EpochRecord("east", "live", "table", 1)


def test_a_register_that_does_not_answer_is_unavailable() -> None:
    acceptor = FaultyStore(ManualClock())
    store = memory_registry(acceptor, clock=ManualClock(), settings=SETTINGS).register
    acceptor.fail("down")
    with pytest.raises(RegistryUnavailable, match="connection refused"):
        store.read()
    with pytest.raises(RegistryUnavailable, match="connection refused"):
        store.revoke_epoch("e1", now_us=1)


def test_revoking_and_retiring_are_recorded_with_their_time() -> None:
    store = memory_registry(clock=ManualClock()).register
    store.add_epoch("e1", "east", "table", now_us=1)
    store.revoke_epoch("e1", now_us=2)
    assert store.read().epochs["e1"] == EpochRecord("east", "revoked", "table", 2)
    store.change(lambda register: with_epoch_state(register, "e1", "retired", now_us=3))
    assert store.read().epochs["e1"] == EpochRecord("east", "retired", "table", 3)


def test_clients_keep_the_horizon_ahead_of_their_clock() -> None:
    clock = ManualClock(0)
    store = memory_registry(clock=clock, settings=SETTINGS, horizon_us=DAY_US).register
    assert store.advance_horizon(clock.now_us()).horizon_us == DAY_US
    clock.advance(1)
    assert store.advance_horizon(clock.now_us()).horizon_us == clock.now_us() + 2 * DAY_US


# -- what people decide on datacenters


def test_a_register_without_decisions_is_read_by_an_older_photon_and_one_with_them_is_not() -> None:
    assert json.loads(encode_register(REGISTER))["format"] == 2
    assert "on_hold" not in encode_register(REGISTER)
    on_hold = with_hold(REGISTER, "east", True)
    assert json.loads(encode_register(on_hold))["format"] == 4
    assert decode_register(encode_register(on_hold)) == on_hold
    refilling = with_refill_begun(REGISTER, {}, 7)
    assert decode_register(encode_register(refilling)) == refilling
    assert with_hold(on_hold, "east", False) == REGISTER


def test_a_datacenter_that_was_given_up_has_no_live_epoch_and_begins_none() -> None:
    record = EpochRecord("east", "live", "table", 0)
    for is_lake_gone, state in ((False, "revoked"), (True, "retired")):
        given_up = with_datacenter_given_up(REGISTER, "east", is_lake_gone, 7)
        assert given_up.epochs["e1"].state == state
        assert decode_register(encode_register(given_up)) == given_up
        with pytest.raises(RetiredDatacenter):
            with_epoch(given_up, "e2", record)
        assert "e3" in with_epoch(given_up, "e3", EpochRecord("west", "live", "table", 0)).epochs


def test_a_datacenter_that_was_given_up_is_neither_put_on_hold_nor_resumed() -> None:
    on_hold = with_hold(REGISTER, "east", True)
    for is_lake_gone in (False, True):
        given_up = with_datacenter_given_up(on_hold, "east", is_lake_gone, 7)
        assert given_up.on_hold == ()
        for is_held in (True, False):
            with pytest.raises(RetiredDatacenter, match=r"east is retired.*a new name"):
                with_hold(given_up, "east", is_held)


def test_a_first_register_that_only_a_silent_store_has_half_written_is_made_by_the_next_client() -> None:
    stores = [FaultyStore(ManualClock()) for _ in range(3)]
    left, members = ballot(1, "f" * 16), Members(1, ("memory-0", "memory-1", "memory-2"))
    half_written = encode_register(replace(REGISTER, members=members))
    stores[0].prepare([Prepare(REGISTER_KEY, left)])
    stores[0].accept([Accept(REGISTER_KEY, left, half_written)])  # and then its client died
    stores[0].on_request = lambda kind, batch: stores[0].fail("lost_request") if kind != "read" else None
    made = memory_registry(*stores, clock=ManualClock(), settings=SETTINGS).register.read()
    assert made.pipeline == "memory"
