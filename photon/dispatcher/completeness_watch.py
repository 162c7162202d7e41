"""What the dispatcher has to say of completeness: when, and from which state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from photon.dispatcher.completion import Results
from photon.logs.files import TrackedFile
from photon.pipeline.file import Pipeline
from photon.process.clock import microseconds
from photon.state.completeness.estimate import read_up_to_us
from photon.state.completeness.telling import Teller
from photon.state.database import StateReader
from photon.state.waiting.segments import WaitingDamaged


class CompletenessWatch:
    """Follows one datacenter's batches, and has the completeness of its rows published now and then."""

    def __init__(self, pipeline: Pipeline, datacenter: str, state: StateReader) -> None:
        self._state = state
        self._idle_after_us = microseconds(pipeline.tailing.idle_after)
        self._teller = Teller(
            pipeline.datacenters[datacenter].lake, state.epoch or "", pipeline.availability.of_events
        )

    def completed(self, results: Results) -> None:
        """Take in what a completed batch has read for the first time."""
        self._teller.came(sum((Counter(result.came) for result in results.join), Counter[int]()))

    def tend(
        self, foreign: Collection[TrackedFile], now_us: int, no_more_comes: bool, ends: bool = False
    ) -> None:
        """Publish if there are news and it is time to, or the process `ends`.

        Nothing is said while work is to be taken up again: what is in it is neither waiting nor decided.
        """
        if not (self._teller.is_due(now_us) or (ends and self._teller.has_news)):
            return
        if self._state.has_open_plan or self._state.count_requeued():
            return
        try:
            waiting_us = self._state.waiting.event_times_us()
        except (WaitingDamaged, OSError):
            return  # the next batch that needs these records has them mended
        idle_after_us = 0 if no_more_comes else self._idle_after_us
        read_us = read_up_to_us(foreign, now_us, idle_after_us, self._teller.read_up_to_us)
        self._teller.tell(read_us, waiting_us, self._state.completed, now_us)
