"""Work through the key ranges (shards) of a registry: several at once, on from where the last run stopped.

How far the work is, its *position*, is an item of an endpoint's own table. So it is lost with the data that
it speaks of, and whoever runs the work again, on whatever machine, finds it. Why that is safe:
docs/adr/0027.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial

from photon.clock import MICROSECONDS
from photon.pace import pace
from photon.registry.consensus.acceptor import Delete, Done, Insert, NoReply, Replace
from photon.registry.consensus.layout import ItemKey
from photon.registry.consensus.quorums import all_of_them
from photon.registry.endpoints.deadline import Deadline, until_answered
from photon.registry.endpoints.endpoints import Endpoints

POSITION_FORMAT = 1
# Between two times that the position is noted, which is a write. After a kill so many are looked at again.
ITEMS_BETWEEN_NOTES = 10_000
POSITIONS = "upkeep"  # where items of ids have the name of their shard

# Runs all of these at once and returns when each has ended; calls the second one if it ends early.
AtOnce = Callable[[Sequence[Callable[[], None]], Callable[[], None]], None]
# From behind a key of a shard on: after each page the key up to which all is done (None: all of the shard),
# and how many items there were.
Work = Callable[[str, ItemKey | None], Iterator[tuple[ItemKey | None, int]]]

log = logging.getLogger(__name__)


def in_threads(works: Sequence[Callable[[], None]], stop: Callable[[], None]) -> None:
    """Run all at once, each on a thread of its own. Raises what the first of them raised."""
    with ThreadPoolExecutor(len(works)) as pool:
        futures = [pool.submit(work) for work in works]
        try:
            for future in futures:
                future.result()
        except BaseException:
            stop()
            raise


@dataclass(frozen=True, slots=True)
class Position:
    """How far some work is. It counts only for the very `work` that it names.

    Every shard up to `begun` was begun; `open` ones go on behind these keys (None: at their beginning).
    """

    work: str
    begun: str | None = None
    open: Mapping[str, str | None] = field(default_factory=dict)
    items: int = 0  # looked at so far
    at_us: int = 0  # when it was noted, by the clock of who did


class PositionItem:
    """The position of one kind of work, at one endpoint."""

    def __init__(self, endpoint: Endpoints, name: str) -> None:
        """`endpoint` is one alone. Two who note at once do no harm: each position is true."""
        self._endpoint = endpoint
        self._key = ItemKey(POSITIONS, name)
        self._text = ""  # what is stored, as far as we know

    def read(self, deadline: Deadline) -> Position | None:
        """The position; None if there is none, or another version of Photon has noted it. Unanswered."""
        ((_, text),) = until_answered(lambda keys: [self._ask()], [self._key], deadline)
        stored = json.loads(text) if text else {}
        return Position(**stored) if stored.pop("format", None) == POSITION_FORMAT else None

    def note(self, position: Position) -> None:
        """Store the position. Without an answer, or if somebody was faster, it is left to the next time."""
        text = json.dumps({"format": POSITION_FORMAT, **asdict(position)}, separators=(",", ":"))
        if self._text:
            ((reply,),) = self._endpoint.replace([Replace(self._key, self._text, text)], all_of_them)
        else:
            ((reply,),) = self._endpoint.insert([Insert(self._key, text)], all_of_them)
        if isinstance(reply, Done):
            self._text = text
        else:
            self._ask()

    def _ask(self) -> str | NoReply:
        """What is stored, which the next note replaces; empty if nothing is."""
        ((reply,),) = self._endpoint.read([self._key], all_of_them)
        if isinstance(reply, NoReply):
            return reply
        self._text = reply.value or ""
        return self._text

    def forget(self) -> None:
        """Remove it, if the endpoint answers: the work is done, and begins anew the next time."""
        if self._text:
            self._endpoint.ask(lambda a, batch: a.delete(batch), [Delete(self._key)], 1, all_of_them)
            self._text = ""


class HowFar:
    """Says after each page how far work on shards is, at all of its endpoints together. Thread-safe.

    Nobody knows how many items there are, so the share is one of shards. A run that goes on begins at 0.
    """

    def __init__(self, what: str, say: Callable[[str], None], elapsed_us: Callable[[], int]) -> None:
        self._what, self._say, self._elapsed_us = what, say, elapsed_us
        self._began_us = elapsed_us()
        self._lock = threading.Lock()
        self._shards = self._done_shards = self._items = 0

    def expect(self, shards: int) -> None:
        """There are so many more to do."""
        with self._lock:
            self._shards += shards

    def advance(self, items: int, shards: int) -> None:
        """So many more items were looked at, and so many shards came to their end."""
        with self._lock:
            self._items += items
            self._done_shards += shards
            seconds = (self._elapsed_us() - self._began_us) / MICROSECONDS
            shares = pace(self._done_shards, self._shards, seconds, "{:,} shards".format)
            looked_at = pace(self._items, None, seconds, "{:,} items".format)
        self._say(f"{self._what}: {shares}; {looked_at}")


class Ranges:
    """The shards of one piece of work at one endpoint, given out one by one. Thread-safe.

    `found` is the position to go on from; None, or that of other work: from the beginning. `how_far` is told
    of each page.
    """

    def __init__(
        self,
        shards: Sequence[str],
        work: str,
        item: PositionItem,
        now_us: Callable[[], int],
        found: Position | None = None,
        items_between_notes: int = ITEMS_BETWEEN_NOTES,
        how_far: HowFar | None = None,
    ) -> None:
        self._item = item
        self._how_far = how_far
        self._now_us = now_us
        self._items_between_notes = items_between_notes
        self._lock = threading.Lock()
        self._noting = threading.Lock()
        self._stopped = False
        self.resumed = found is not None and found.work == work
        position = found if found is not None and self.resumed else Position(work)
        self._work = work
        self._begun = position.begun
        self._open = {shard: after for shard, after in position.open.items() if shard in shards}
        self.items = self._noted_items = position.items
        begun = shards.index(position.begun) + 1 if position.begun in shards else 0
        not_begun = [shard for shard in shards[begun:] if shard not in self._open]
        self._left = deque([*self._open.items(), *((shard, None) for shard in not_begun)])
        if how_far is not None:
            how_far.expect(len(self._left))
        if self.resumed:
            log.info("%s goes on behind %s items, in %s shards", work, f"{self.items:,}", len(self._left))

    def work_through(self, work: Work, at_once: int, run: AtOnce = in_threads) -> None:
        """Do all that is left, `at_once` shards at a time. Raises what `work` raised first."""
        run([partial(self._work_on, work)] * max(1, min(at_once, len(self._left))), self.stop)
        if self._noted_items:  # else it was little: who comes again may as well look at all of it again
            self.note()

    def stop(self) -> None:
        """Have all who work end after their page."""
        self._stopped = True

    def note(self) -> None:
        """Store the position."""
        with self._lock:
            position = Position(self._work, self._begun, dict(self._open), self.items, self._now_us())
            self._noted_items = self.items
        self._item.note(position)

    def _work_on(self, work: Work) -> None:
        try:
            while (taken := self._take()) is not None:
                shard, after = taken
                for last, items in work(shard, after):
                    self._advance(shard, last, items)
                    if self._stopped:
                        return
        except BaseException:
            self.stop()
            raise

    def _take(self) -> tuple[str, ItemKey | None] | None:
        with self._lock:
            if self._stopped or not self._left:
                return None
            shard, after = self._left.popleft()
            if shard not in self._open:
                self._begun = shard
                self._open[shard] = after
            return shard, None if after is None else ItemKey(shard, after)

    def _advance(self, shard: str, last: ItemKey | None, items: int) -> None:
        with self._lock:
            self.items += items
            if last is None:
                del self._open[shard]
            else:
                self._open[shard] = last.s
            is_due = self.items - self._noted_items >= self._items_between_notes
        if self._how_far is not None:
            self._how_far.advance(items, int(last is None))
        # One notes at a time, and nobody waits for it: what is noted may be a page old.
        if is_due and self._noting.acquire(blocking=False):
            try:
                self.note()
            finally:
                self._noting.release()
