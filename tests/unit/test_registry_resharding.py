"""Other numbers of shards from the horizon on: nothing below it ever changes, and nobody waits (C3)."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from photon.clock import MICROSECONDS, SystemClock
from photon.ledger.stores.copies import NoReply
from photon.pipeline.event_key import EventKey, event_key
from photon.pipeline.sections import MOST_SHARDS, ForeignLog, Registry
from photon.registry.consensus.acceptor import Accept, AcceptReply
from photon.registry.consensus.layout import REGISTER_KEY, item_key, shards_of
from photon.registry.consensus.register import (
    MOST_CONFIGS,
    Members,
    Register,
    ReshardingRefused,
    ShardConfig,
    decode_register,
    encode_register,
    with_boundary,
    with_shards,
)
from photon.registry.interface import BeyondHorizon, Claim, Lost, Won
from photon.registry.operations import resharding
from photon.registry.operations.resharding import (
    RANGE_WRITES_PER_SECOND,
    SHARD_LIMITS,
    SKIPPED_SECONDS,
    WINDOW_SECONDS,
    Load,
    Resharded,
    advise,
    proposed_shards,
    put_in_force,
)
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock
from photon.testing.memory_registry import memory_registry

REGISTER = Register("p", "s", "h", Members(1, ("first",)), (ShardConfig(4),), horizon_us=1_000)
DAY_US = 86_400 * MICROSECONDS


# -- configs


MORE = (ShardConfig(4, None, 1_000), ShardConfig(9, 1_000, None))


@pytest.mark.parametrize(
    ("asked", "configs"),
    [
        ([9], MORE),
        ([1], (ShardConfig(4, None, 1_000), ShardConfig(1, 1_000, None))),
        ([4], REGISTER.configs),
        ([9, 9], MORE),
        # Before the horizon has moved another number takes the place of the first, or takes it back.
        ([9, 6], (ShardConfig(4, None, 1_000), ShardConfig(6, 1_000, None))),
        ([9, 4], REGISTER.configs),
    ],
)
def test_the_number_asked_for_last_begins_where_the_horizon_is(
    asked: list[int], configs: tuple[ShardConfig, ...]
) -> None:
    register = REGISTER
    for shards in asked:
        register = with_shards(register, shards)
    assert register.configs == configs


def test_once_the_horizon_has_moved_a_change_stays() -> None:
    passed = replace(with_shards(REGISTER, 9), horizon_us=1_001)
    assert with_shards(passed, 4).configs == (
        ShardConfig(4, None, 1_000),
        ShardConfig(9, 1_000, 1_001),
        ShardConfig(4, 1_001, None),
    )


changes = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 500)), max_size=12)


@given(changes, st.lists(st.integers(-3_000, 9_000), min_size=1))
def test_whatever_is_asked_no_event_below_the_horizon_moves(
    asked: list[tuple[int, int]], times_us: list[int]
) -> None:
    register = REGISTER
    for shards, on_us in asked:
        before, below = register, [t for t in times_us if t < (register.horizon_us or 0)]
        register = with_shards(register, shards)
        for time_us in below:
            key = EventKey("a", time_us)
            assert item_key(key, register.configs) == item_key(key, before.configs)
        register = replace(register, horizon_us=(register.horizon_us or 0) + on_us)


@given(changes)
def test_configs_leave_no_gap_and_no_overlap(asked: list[tuple[int, int]]) -> None:
    register = REGISTER
    for shards, on_us in asked:
        register = with_shards(register, shards)
        register = replace(register, horizon_us=(register.horizon_us or 0) + on_us)
    starts = [config.start_us for config in register.configs]
    ends = [config.end_us for config in register.configs]
    assert starts == [None, *ends[:-1]]
    assert ends[-1] is None
    assert ends[:-1] == sorted(set(ends[:-1]), key=int)  # type: ignore[arg-type]


def test_ids_without_a_time_keep_their_shards() -> None:
    with pytest.raises(ReshardingRefused, match="carry no time"):
        with_shards(replace(REGISTER, configs=(), horizon_us=None), 9)


def test_the_register_does_not_grow_without_end() -> None:
    register = REGISTER
    for number in range(1, MOST_CONFIGS):
        register = with_shards(replace(register, horizon_us=2_000 + number), 5 + number % 2)
    assert len(register.configs) == MOST_CONFIGS
    with pytest.raises(ReshardingRefused, match=str(MOST_CONFIGS)):
        with_shards(replace(register, horizon_us=9_000), 7)


# -- the boundary


def test_the_boundary_moves_on_and_never_back() -> None:
    register = with_boundary(REGISTER, 10)
    assert with_boundary(register, 5) == register
    assert with_boundary(register, 20).boundary_us == 20


def test_the_register_is_as_short_with_65536_shards_as_with_one() -> None:
    many = with_boundary(replace(REGISTER, configs=(ShardConfig(MOST_SHARDS),)), 10)
    one = with_boundary(replace(REGISTER, configs=(ShardConfig(1),)), 10)
    assert len(encode_register(many)) - len(encode_register(one)) == len(str(MOST_SHARDS)) - 1


def test_a_register_of_version_0_1_is_read_with_its_empty_list_of_boundaries_by_shard() -> None:
    register = with_boundary(REGISTER, 10)
    text = encode_register(register).replace('"boundary_us"', '"boundaries_us":{},"boundary_us"')
    assert "boundaries_us" in text
    assert decode_register(text) == register


@pytest.mark.parametrize(
    ("own_us", "other_us", "is_so"),
    [
        (None, None, True),
        (10, None, True),
        (10, 10, True),
        (30, 10, True),
        (10, 30, False),
        (None, 0, False),
    ],
)
def test_a_register_is_behind_another_one_if_its_boundary_is(
    own_us: int | None, other_us: int | None, is_so: bool
) -> None:
    own, other = replace(REGISTER, boundary_us=own_us), replace(REGISTER, boundary_us=other_us)
    assert own.has_boundary_of(other) == is_so


# -- with clients


def registry_of(
    clock: ManualClock, *acceptors: FaultyStore, step: timedelta = timedelta(days=1)
) -> QuorumRegistry:
    settings = Registry(shards=4, horizon_step=step)
    return memory_registry(*acceptors, clock=clock, settings=settings, horizon_us=2 * DAY_US)


def test_a_client_that_knows_nothing_of_the_change_does_no_harm() -> None:
    clock, acceptor = ManualClock(), FaultyStore()
    unaware, other = registry_of(clock, acceptor), registry_of(clock, acceptor)
    key = EventKey("a", 2 * DAY_US - 1)
    unaware.lookup([key])  # knows the register as it was
    assert put_in_force(other, 9).begins_us == 2 * DAY_US
    assert unaware.commit([Claim(key, "east:e:1#p:1:0")]) == [Won()]
    assert isinstance(other.commit([Claim(key, "west:e:1#p:1:0")])[0], Lost)
    assert unaware.commit([Claim(EventKey("a", 2 * DAY_US), "east:e:1#p:1:0")]) == [BeyondHorizon()]


def test_an_event_beyond_the_boundary_of_two_configs_is_committed_once_the_horizon_is() -> None:
    clock, acceptor = ManualClock(), FaultyStore()
    registry = registry_of(clock, acceptor)
    put_in_force(registry, 9)
    clock.advance(86_400 + 1)
    keys = [EventKey("a", 2 * DAY_US + offset_us) for offset_us in (-1, 0)]
    assert registry.commit([Claim(key, "east:e:1#p:1:0") for key in keys]) == [Won(), Won()]
    shards = sorted(item.p.split("-")[0] for item in acceptor.items if item != REGISTER_KEY)
    assert shards == ["0", "1"]


def test_a_change_whose_first_answer_was_lost_still_tells_the_number_of_before() -> None:
    clock, acceptor = ManualClock(), FaultyStore()
    registry = registry_of(clock, acceptor)
    accept = acceptor.accept
    calls: list[list[AcceptReply]] = []

    def accept_and_lose_the_first_answer(accepts: Sequence[Accept]) -> list[AcceptReply]:
        replies = accept(accepts)
        calls.append(replies)
        return [NoReply("time-out", "unreachable")] * len(replies) if len(calls) == 1 else replies

    acceptor.accept = accept_and_lose_the_first_answer  # type: ignore[method-assign]
    assert put_in_force(registry, 9) == Resharded(before=4, shards=9, begins_us=2 * DAY_US)
    assert len(calls) == 1, "its change is found made, and not made again"


@pytest.mark.parametrize("endpoints", [1, 3])
def test_under_load_shards_come_and_go_and_every_id_has_one_winner(endpoints: int) -> None:
    seed = 11
    print(f"seed {seed}")
    acceptors = [FaultyStore() for _ in range(endpoints)]
    step = timedelta(milliseconds=50)
    settings = Registry(shards=4, horizon_step=step, total_timeout=timedelta(seconds=60))
    done, wins, losses = threading.Event(), Counter[EventKey](), Counter[EventKey]()
    lock = threading.Lock()

    def client() -> QuorumRegistry:
        ways_in = [acceptor.another_way_in() for acceptor in acceptors]
        now_us = SystemClock().now_us()
        return memory_registry(*ways_in, settings=settings, horizon_us=now_us + 100_000)

    def commit_on(number: int) -> None:
        registry, chance, calls = client(), random.Random(seed + number), 0
        while not (done.is_set() and calls >= 20):
            # All threads name the same ids at the same times: now, as ids that carry their time do.
            now_us = SystemClock().now_us() // 20_000 * 20_000
            keys = [EventKey(f"id-{i}", now_us) for i in range(8)]
            chance.shuffle(keys)
            token = f"dc{number}:e:1#p:{calls}:0"
            outcomes = registry.commit([Claim(key, token) for key in keys])
            calls += 1
            with lock:
                assert {type(outcome) for outcome in outcomes} <= {Won, Lost}  # nobody waits for anything
                wins.update(k for k, outcome in zip(keys, outcomes, strict=True) if outcome == Won())
                losses.update(k for k, outcome in zip(keys, outcomes, strict=True) if outcome != Won())
        registry.close()

    admin = client()
    with ThreadPoolExecutor(4) as pool:
        committing = [pool.submit(commit_on, number) for number in range(4)]
        for shards in (12, 3, 6, 1, 9):
            put_in_force(admin, shards)
            begin_us = admin.register.read().horizon_us or 0
            while (admin.register.read().horizon_us or 0) <= begin_us:  # as the clients' clocks go on
                threading.Event().wait(0.01)
        done.set()
        for one in committing:
            one.result()
    assert set(wins.values()) == {1}
    assert set(losses) <= set(wins)
    configs = admin.register.read().configs
    assert [config.shards for config in configs] == [4, 12, 3, 6, 1, 9]
    used = {int(item.p.split("-")[0]) for item in acceptors[0].items if item != REGISTER_KEY}
    assert len(used) >= 4
    for key in wins:
        item = item_key(key, configs)
        assert all(item in acceptor.items for acceptor in acceptors)


# -- one id, two times


def foreign_log(**settings: object) -> ForeignLog:
    return ForeignLog.model_validate(
        {"files": "*.csv", "format": "csv", "id": "id", "time": "at", "key": "key", **settings}
    )


@pytest.mark.parametrize(
    ("log", "event_id", "events"),
    [
        (foreign_log(id_codec="server_process_timestamp"), "server:7:999", 1),
        (foreign_log(), "click-1", 1),
        (foreign_log(time_in_id=True), "click-1", 2),  # there (time, id) is the identity
    ],
    ids=["the id carries its time", "no time in the id", "time and id"],
)
def test_records_of_one_id_on_both_sides_of_a_change_are_as_many_events_as_it_identifies(
    log: ForeignLog, event_id: str, events: int
) -> None:
    registry = registry_of(ManualClock(10_000 * DAY_US))
    registry.register.change(
        lambda now: replace(with_shards(replace(now, horizon_us=1_000), 9), horizon_us=2_000)
    )
    keys = [event_key(event_id, time_us, log) for time_us in (999, 1_000)]
    outcomes = [registry.commit([Claim(key, f"east:e:1#p:{n}:0")])[0] for n, key in enumerate(keys)]
    assert outcomes.count(Won()) == events


# -- the policy


LIMITS = Load(ids=100, bytes=10_000, commits_per_second=10)


@pytest.mark.parametrize(
    ("load", "proposed"),
    [
        (Load(ids=400, bytes=0, commits_per_second=1), None),
        (Load(ids=401, bytes=0, commits_per_second=1), 8),
        (Load(ids=0, bytes=40_001, commits_per_second=1), 8),
        (Load(ids=0, bytes=0, commits_per_second=161), 32),
        (Load(ids=101, bytes=0, commits_per_second=1), None),  # two would be filled to more than half
        (Load(ids=100, bytes=0, commits_per_second=1), 2),
        (Load(ids=1, bytes=1, commits_per_second=1), 1),
        (Load(ids=1, bytes=1, commits_per_second=0), None),  # it stands still
    ],
)
def test_the_fullest_limit_decides_between_four_shards_and_another_number(
    load: Load, proposed: int | None
) -> None:
    assert proposed_shards(4, load, LIMITS) == proposed


@pytest.mark.parametrize(("least", "proposed"), [(1, 1), (2, 2), (3, None), (4, None), (128, None)])
def test_a_registry_never_shrinks_below_what_the_pipeline_file_says(least: int, proposed: int | None) -> None:
    assert proposed_shards(4, Load(ids=1, bytes=1, commits_per_second=1), LIMITS, least) == proposed


@given(st.integers(1, 2**20), st.integers(0, 10**6), st.floats(0.1, 1e5))
def test_what_was_proposed_is_left_alone_afterwards(shards: int, ids: int, per_second: float) -> None:
    load = Load(ids, 0, per_second)
    proposed = proposed_shards(min(shards, MOST_SHARDS), load, LIMITS)
    if proposed is not None:
        assert proposed_shards(proposed, load, LIMITS) is None


def test_the_policy_measures_what_is_committed_of_late() -> None:
    clock = ManualClock(DAY_US)
    registry = registry_of(clock)
    begin_us = DAY_US - (WINDOW_SECONDS + SKIPPED_SECONDS) * MICROSECONDS
    times = [begin_us + second * MICROSECONDS for second in range(-50, WINDOW_SECONDS + 50)]
    registry.commit([Claim(EventKey(f"id-{t}", t), "east:e:1#p:1:0") for t in times])
    advice = advise(registry, replace(LIMITS, ids=10_000))
    assert advice is not None
    assert advice.load.commits_per_second == pytest.approx(1.0)
    assert advice.load.ids == len(times) + 1  # and the register
    assert advice.proposed == 8  # for their bytes


def test_a_sample_that_is_full_tells_the_rate_of_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resharding, "SAMPLED_ITEMS", 500)
    clock = ManualClock(DAY_US)
    registry = registry_of(clock)
    begin_us = DAY_US - (WINDOW_SECONDS + SKIPPED_SECONDS) * MICROSECONDS
    times = [begin_us + tenth * MICROSECONDS // 10 for tenth in range(WINDOW_SECONDS * 10)]
    registry.commit([Claim(EventKey(f"id-{t}", t), "east:e:1#p:1:0") for t in times])
    advice = advise(registry, LIMITS)
    assert advice is not None
    assert advice.load.commits_per_second == pytest.approx(10.0, rel=0.1)


def test_a_new_registry_bears_a_billion_ids_a_day_with_peaks_of_five_times_that() -> None:
    peak = 5 * 10**9 / 86_400
    load = Load(ids=10**9, bytes=10**9 * 110, commits_per_second=peak)
    assert proposed_shards(Registry().shards, load, SHARD_LIMITS) is None
    assert peak / Registry().shards < RANGE_WRITES_PER_SECOND / 2


def test_while_a_change_is_awaited_the_policy_proposes_nothing() -> None:
    clock = ManualClock(DAY_US)
    registry = registry_of(clock)
    put_in_force(registry, 9)
    advice = advise(registry, LIMITS)
    assert advice is not None
    assert (advice.shards, advice.proposed, advice.awaits_us) == (9, None, 2 * DAY_US)


def test_where_ids_carry_no_time_there_is_nothing_to_propose() -> None:
    assert advise(memory_registry(), LIMITS) is None


def test_shards_are_named_by_their_config() -> None:
    assert shards_of(3, ShardConfig(2)) == ["3-00000", "3-00001"]
