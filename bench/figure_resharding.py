"""The paper's Figure 11 again: bytes of old and new ledgers, through a threefold upshard and collection.

The product's own code on days that pass as fast as they can: times are those of the events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from matplotlib.figure import Figure

from bench.ledger_rates import all_have_rows, claims_of, new_hashes
from bench.plots import panels
from photon.process.clock import MICROSECONDS
from photon.registry.closing import Closing
from photon.registry.entry import Claimant, Epoch, LedgerId
from photon.registry.generations import drop, raise_boundary, roll
from photon.registry.id_registry import IdRegistry
from photon.registry.positions import Positions

DAY_SECONDS = 86_400
DAY_US = DAY_SECONDS * MICROSECONDS
FIRST_DAY_US = 1_767_571_200_000_000  # 2026-01-05
EPOCH = Epoch("east", 1)


@dataclass(frozen=True)
class Story:
    """The events of some days: ids all the time, another number of ledgers once, collection each day.

    A generation is rolled each `roll_days`, as `photon registry gc` does by size.
    """

    days: int = 14
    reshard_on_day: int = 4
    before: int = 4
    after: int = 12
    keep_days: int = 3
    roll_days: int = 2
    looks_a_day: int = 4
    ids_of_a_look: int = 500


@dataclass(frozen=True)
class Sizes:
    """The sizes at one time, of ledgers from before the resharding and of later ones."""

    day: float
    old_ledgers: int
    new_ledgers: int
    old_bytes: int
    new_bytes: int

    @property
    def bytes_of_an_old_ledger(self) -> float:
        """How many bytes one has on average."""
        return self.old_bytes / max(1, self.old_ledgers)

    @property
    def bytes_of_a_new_ledger(self) -> float:
        """How many bytes one has on average."""
        return self.new_bytes / max(1, self.new_ledgers)


def sizes_over_time(registry: IdRegistry, story: Story) -> Iterator[Sizes]:
    """The sizes after each look, from the first day on. `registry` is empty, with any number of ledgers."""
    view, positions = registry.view, registry.positions
    first_old, first_new, closes = roll(view, positions, story.before), None, None
    for look in range(story.days * story.looks_a_day):
        day, part = divmod(look, story.looks_a_day)
        now_us = FIRST_DAY_US + look * DAY_US // story.looks_a_day
        if (day, part) == (story.reshard_on_day, 0):
            first_new = roll(view, positions, story.after)
        elif part == 0 and day % story.roll_days == 0 and day:
            roll(view, positions, story.before if first_new is None else story.after)
        if part == 0:
            raise_boundary(view, positions, now_us - story.keep_days * DAY_US)
            drop(view, positions)
        hashes = new_hashes(story.ids_of_a_look, look + 1)
        claims = claims_of(Claimant(EPOCH, look + 1, f"plan-{look}"), hashes, now_us)
        assert registry.claim(claims, closes).are_of(claims.claimant).all(), "a new id was not won"
        closes = Closing(EPOCH, look + 1, all_have_rows)
        yield _look(registry, (look + 1) / story.looks_a_day, first_old, first_new)


def _look(registry: IdRegistry, day: float, first_old: int, first_new: int | None) -> Sizes:
    live = [ledger for ledger in registry.view.states if ledger.generation >= first_old]
    old = [one for one in live if first_new is None or one.generation < first_new]
    new = [one for one in live if one not in old]
    return Sizes(
        day, len(old), len(new), _bytes_in(registry.positions, old), _bytes_in(registry.positions, new)
    )


def _bytes_in(positions: Positions, ledgers: Sequence[LedgerId]) -> int:
    """Read from the stores: the values of all positions."""
    total = 0
    left = dict.fromkeys(ledgers, 0)
    while left:
        tails = positions.attempt().read(left)
        total += sum(len(value) for tail in tails.values() for value in tail.values)
        left = {
            ledger: left[ledger] + len(tail.values)
            for ledger, tail in tails.items()
            if tail.ending == "more" and tail.values
        }
    return total


def numbers_of(points: Sequence[Sizes], story: Story) -> dict[str, float]:
    """The sizes on both sides of the resharding, and how long the old ledgers stay."""
    before = [point for point in points if point.day <= story.reshard_on_day]
    gone = [point.day for point in points[len(before) :] if not point.old_ledgers]
    return {
        **asdict(story),
        "most_kb_of_an_old_ledger": round(max(one.bytes_of_an_old_ledger for one in before) / 1_000, 1),
        "most_kb_of_a_new_ledger": round(max(one.bytes_of_a_new_ledger for one in points) / 1_000, 1),
        "old_ledgers_gone_after_days": round(gone[0] - story.reshard_on_day, 2),
    }


def draw(points: Sequence[Sizes], story: Story, store: str) -> Figure:
    """The figure: kilobytes of old and new ledgers, all together and of one on average."""
    days = [point.day for point in points]
    figure, (together, single) = panels(6.4, 5.0, rows=2)
    together.plot(days, [point.old_bytes / 1_000 for point in points], label=f"generations of {story.before}")
    together.plot(days, [point.new_bytes / 1_000 for point in points], label=f"generations of {story.after}")
    single.plot(days, [point.bytes_of_an_old_ledger / 1_000 for point in points])
    single.plot(days, [point.bytes_of_a_new_ledger / 1_000 for point in points])
    together.set(ylabel="kB, together")
    single.set(ylabel="kB, of one ledger", xlabel="days")
    for axes in (together, single):
        axes.axvline(story.reshard_on_day, color="#999999", linestyle=":", linewidth=1)
        axes.grid(alpha=0.3)
    together.legend(frameon=False)
    title = f"Resharding on day {story.reshard_on_day}, ids kept for {story.keep_days} days, {store}"
    together.set_title(title, fontsize=10)
    return figure
