"""The paper's Figure 11 again: bytes of old and new shards, through a threefold upshard and gc.

The registry's own code on days that pass as fast as they can: only the clock is not the machine's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from photon.clock import MICROSECONDS
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.acceptor import Acceptor, NoReply
from photon.registry.consensus.layout import shards_by_config
from photon.registry.consensus.register import Register, with_shards
from photon.registry.dynamodb.answers import item_bytes
from photon.registry.interface import Claim, Won
from photon.registry.operations.gc import gc_pass, raise_boundary
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.manual_clock import ManualClock
from photon.tokens import Occurrence, PlanKey

DAY_SECONDS = 86_400
DAY_US = DAY_SECONDS * MICROSECONDS
PAGE_ITEMS = 1_000


@dataclass(frozen=True)
class Story:
    """What happens: ids all the time, another number of shards once, gc each day."""

    days: int = 14
    reshard_on_day: int = 4
    shards: int = 12
    keep_days: int = 3
    looks_a_day: int = 4
    ids_of_a_look: int = 500


@dataclass(frozen=True)
class Sizes:
    """What there is at one time: in the shards from before the resharding, and in the new ones."""

    day: float
    old_shards: int
    new_shards: int
    old_bytes: int
    new_bytes: int

    def as_dict(self) -> dict[str, float]:
        """For tables: also what one shard has on average."""
        return {
            **asdict(self),
            "bytes_of_an_old_shard": round(self.old_bytes / self.old_shards, 1),
            "bytes_of_a_new_shard": round(self.new_bytes / self.new_shards, 1) if self.new_shards else 0.0,
        }


def sizes_over_time(registry: QuorumRegistry, clock: ManualClock, story: Story) -> Iterator[Sizes]:
    """The sizes after each look, from the first day on. `registry` goes by `clock`, and is empty."""
    plan = PlanKey("east", "0" * 16, 1, "0" * 16)
    first_us = clock.now_us()
    number = 0
    for look in range(story.days * story.looks_a_day):
        day, part = divmod(look, story.looks_a_day)
        if (day, part) == (story.reshard_on_day, 0):
            registry.register.change(lambda register: with_shards(register, story.shards))
        if part == 0:
            _run_gc(registry, clock, story)
        claims = [
            Claim(EventKey(f"id-{n}", clock.now_us()), plan.token(Occurrence(1, n)))
            for n in range(number, number + story.ids_of_a_look)
        ]
        number += len(claims)
        outcomes = registry.commit(claims)
        assert all(isinstance(outcome, Won) for outcome in outcomes), "a new id was not won"
        clock.advance(DAY_SECONDS / story.looks_a_day)
        yield _look(registry, (clock.now_us() - first_us) / DAY_US)


def _run_gc(registry: QuorumRegistry, clock: ManualClock, story: Story) -> None:
    register = raise_boundary(registry, clock.now_us() - story.keep_days * DAY_US)
    for one in gc_pass(registry, register):
        assert not one.problem, one.problem


def _look(registry: QuorumRegistry, day: float) -> Sizes:
    register: Register = registry.register.read()
    acceptor = registry.endpoints.acceptors[0]
    old, *newer = shards_by_config(register)[: len(register.configs)]
    new = [shard for config in newer for shard in config]
    return Sizes(day, len(old), len(new), _bytes_in(acceptor, old), _bytes_in(acceptor, new))


def _bytes_in(acceptor: Acceptor, shards: Sequence[str]) -> int:
    total = 0
    for shard in shards:
        after = None
        while True:
            page = acceptor.scan_shard(shard, "", after, PAGE_ITEMS)
            if isinstance(page, NoReply):
                raise RuntimeError(f"the store does not answer: {page.reason}")
            total += sum(map(item_bytes, page.items))
            if page.last is None:
                break
            after = page.last
    return total


def draw(points: Sequence[Sizes], story: Story, store: str) -> Any:
    """The figure: kilobytes of old and new shards, all together and of one on average."""
    from matplotlib.figure import Figure

    days = [point.day for point in points]
    figure = Figure((6.4, 5.0), layout="constrained")
    together, single = figure.subplots(2, 1, sharex=True)
    together.plot(
        days, [point.old_bytes / 1_000 for point in points], label=f"{points[0].old_shards} old shards"
    )
    together.plot(days, [point.new_bytes / 1_000 for point in points], label=f"{story.shards} new shards")
    single.plot(days, [point.as_dict()["bytes_of_an_old_shard"] / 1_000 for point in points])
    single.plot(days, [point.as_dict()["bytes_of_a_new_shard"] / 1_000 for point in points])
    together.set_ylabel("kB, together")
    single.set_ylabel("kB, of one shard")
    single.set_xlabel("days")
    for axes in (together, single):
        axes.axvline(story.reshard_on_day, color="#999999", linestyle=":", linewidth=1)
        axes.grid(alpha=0.3)
    together.legend(frameon=False)
    title = f"Resharding on day {story.reshard_on_day}, ids kept for {story.keep_days} days, {store}"
    together.set_title(title, fontsize=10)
    return figure
