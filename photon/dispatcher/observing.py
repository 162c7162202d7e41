"""Follow completed batches: measure them, tell how complete rows are, see who joins its home half."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from photon.dispatcher.completion import Results
from photon.dispatcher.landed_logs import HOLDING
from photon.dispatcher.recovery.orders import waiting_orders
from photon.dispatcher.retrying import BatchReport
from photon.logs.files import TrackedFile
from photon.logs.unread_files import UnreadFile
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, Clock, microseconds
from photon.process.measures import Meter
from photon.process.quantiles import Sample, merge
from photon.registry.view import View
from photon.releases.making import closed_places
from photon.state.completeness.estimate import Completeness, read_up_to_us
from photon.state.completeness.publishing import Publisher
from photon.state.database import StateReader
from photon.state.timeline import Timeline
from photon.state.waiting.segments import WaitingDamaged

# A datacenter that was not seen to claim anything for this long is not waited for: as long as one may be
# silent before it counts as dead (`recovery.silent_after`).
QUIET_AFTER_US = 30 * MICROSECONDS
SILENCE_SAID_US = 60 * MICROSECONDS  # a silent log is read so much further when that is said: a write
# Nor is one that left so many of its events in a row to the others: one or two may be late, twenty are not.
QUIET_AFTER_EVENTS = 20


@dataclass
class HomeWatch:
    """Knows when each datacenter last claimed, and how many of its events were joined here since."""

    claimed_us: dict[str, int]  # nothing is known at the start: its time
    taken_over: Counter[str] = field(default_factory=Counter)  # events, since it was last seen to claim
    # Whether the last batch with fresh events found them free: others may have them after an outage.
    nobody_had_fresh: bool = False

    @classmethod
    def begin(cls, datacenters: Iterable[str], now_us: int) -> HomeWatch:
        return cls(dict.fromkeys(datacenters, now_us))

    def note(self, claimed: Iterable[str], taken_over: Mapping[str, int], now_us: int) -> None:
        """Take note of one batch: who was seen to hold ids, and whose events were joined here instead."""
        self.taken_over.update(taken_over)
        for name in claimed:
            self.claimed_us[name] = now_us
            self.taken_over.pop(name, None)

    def note_fresh(self, were_free: Iterable[bool | None]) -> None:
        """Take note of whether the fresh events of each task of a batch were free; None: it had none."""
        news = [each for each in were_free if each is not None]
        if news:
            self.nobody_had_fresh = all(news)

    def unresponsive(self, now_us: int) -> frozenset[str]:
        """The datacenters whose events are taken up at once.

        They claimed nothing for a while, or left so many events in a row to the others.
        """
        return frozenset(
            name
            for name, at_us in self.claimed_us.items()
            if now_us - at_us >= QUIET_AFTER_US or self.taken_over[name] >= QUIET_AFTER_EVENTS
        )


class CompletenessWatch:
    """Follows one datacenter's batches, and has the completeness of its rows published now and then."""

    def __init__(self, pipeline: Pipeline, datacenter: str, state: StateReader) -> None:
        self._state = state
        self._idle_after_us = microseconds(pipeline.tailing.idle_after)
        self._was_held = False  # by what is not landed yet
        self._publisher = Publisher(
            pipeline.datacenters[datacenter].lake, state.epoch or "", pipeline.availability.of_events
        )

    @property
    def said(self) -> Completeness | None:
        """The last statement of this epoch; None before the first."""
        return self._publisher.said

    def completed(self, results: Results) -> None:
        """Take in what a completed batch has read for the first time."""
        self._publisher.came(sum((Counter(result.came) for result in results.join), Counter[int]()))

    def tend(
        self,
        foreign: Collection[TrackedFile],
        now_us: int,
        no_more_comes: bool,
        view: View,
        settled: Callable[[int | None, int | None], int | None],
        ends: bool = False,
        unread: Sequence[UnreadFile] = (),
    ) -> Completeness | None:
        """Publish if there are news and it is time to, or the process `ends`; the statement.

        `settled` says how far the log is read, from how far its known files are, and what was said before.

        While files of either log are `unread`, no time goes on, and an end that was said is taken back.

        Nothing is said while work is to be taken up again: what is in it is neither waiting nor decided.
        """
        if no_more_comes and ends and not (unread or self._publisher.said_final):
            self._publisher.has_news = True
        self._publisher.note_unread(unread)
        is_held = any(one is HOLDING for one in foreign)
        if self._was_held and not is_held:  # what was landed meanwhile was read before its marker said so
            self._publisher.has_news = True
        self._was_held = is_held
        idle_after_us = 0 if no_more_comes else self._idle_after_us
        said_us = self._publisher.read_up_to_us
        found_us = read_up_to_us(foreign, now_us, idle_after_us, said_us)
        # A landed log that is silent is read ever further, and no batch tells it.
        further_us = 0 if said_us is None or found_us is None else found_us - said_us
        if further_us >= SILENCE_SAID_US and not unread:
            self._publisher.has_news = True
        if not (self._publisher.is_due(now_us) or (ends and self._publisher.has_news)):
            return None
        if self._state.has_open_plan or self._state.count_requeued() or waiting_orders(self._state.folder):
            return None
        try:
            waiting_us = self._state.waiting.event_times_us()
        except (WaitingDamaged, OSError):
            return None  # the next batch that needs these records has them mended
        read_us = settled(found_us, said_us)
        completed, seen = self._state.completed, closed_places(view)
        has_all = not unread and not len(waiting_us) and not any(one.unread_bytes for one in foreign)
        said = self._publisher.say(
            read_us, waiting_us, completed, now_us, seen, is_final=no_more_comes and ends and has_all
        )
        self._publisher.has_news |= read_us != found_us  # it is, once a listing has ended
        return said


class BatchObserver:
    """Follows the completed batches of one process. Used by the dispatcher's thread alone."""

    def __init__(
        self,
        pipeline: Pipeline,
        datacenter: str,
        state: StateReader,
        clock: Clock,
        meter: Meter,
        on_batch: Callable[[BatchReport], None],
    ) -> None:
        self._clock, self._meter, self._on_batch = clock, meter, on_batch
        self._homes = HomeWatch.begin(pipeline.datacenters, clock.now_us())
        self._has_others = len(pipeline.datacenters) > 1
        self.timeline = Timeline(state.folder, state.epoch or "", state.files())
        self.completeness = CompletenessWatch(pipeline, datacenter, state)

    @property
    def is_behind_others(self) -> bool:
        """Whether another datacenter has joined fresh events of the own home half, as far as is known."""
        return self._has_others and not self._homes.nobody_had_fresh

    def unresponsive_datacenters(self) -> frozenset[str]:
        """The datacenters whose events are taken up at once."""
        return self._homes.unresponsive(self._clock.now_us())

    def first_answers(self, results: Results, some_lost: bool) -> None:
        """Note whether a batch's fresh events were free when its tasks asked first, and when they claimed."""
        were_free = [result.fresh_were_free for result in results.join]
        self._homes.note_fresh([*were_free, *([False] if some_lost else [])])

    def completed(
        self, batch: int, results: Results, counts: Counter[str], began_us: int, readable_us: int
    ) -> None:
        """Measure and report a batch whose rows were readable at a time."""
        now_us = self._clock.now_us()
        taken_over = sum((Counter(result.taken_over) for result in results.join), Counter[str]())
        registered = frozenset[str]().union(*(result.registered_elsewhere for result in results.join))
        self._homes.note(registered, taken_over, now_us)
        seconds = (now_us - began_us) / MICROSECONDS
        since = merge([result.joinable_since_us for result in results.join])
        latencies = Sample(since.count, ((readable_us - since.values) / MICROSECONDS)[::-1])
        self._meter.times("join_latency_seconds", seconds=latencies)
        self._meter.time("batch_seconds", seconds=seconds)
        self.timeline.committed(batch, readable_us)
        self.completeness.completed(results)
        self._on_batch(BatchReport(batch, counts, seconds, latencies))
