"""Copy what is decided to a store that is being filled, and mend copies that stores lack.

A copy is stored as accepted at a ballot above all that a majority of stores have seen of its position. Since
the value is decided, that is what a proposer of this ballot would have had accepted: whoever meets it with
any other store goes on with this value (protocol B4, B11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import eq

from photon.process.faults import fault_point
from photon.process.readable import counted
from photon.registry.entry import LedgerId
from photon.registry.errors import RegistryUnavailable
from photon.registry.fold import LedgerState
from photon.registry.stores.asking import ActiveStores
from photon.registry.stores.copies import Accept, Copy, Done, Key, NoReply, Page, ledger_key
from photon.registry.stores.deadline import Deadline
from photon.registry.stores.decisions import ballot, counter_above, majority
from photon.registry.stores.dynamo import WRITTEN_AT_ONCE, DynamoStore, Endings
from photon.registry.stores.positions import StorePositions
from photon.registry.stores.reading import Intact, JudgedPage, judged_page, walk


@dataclass(frozen=True, slots=True)
class Decided:
    """A decided value, the ballot at which it may be stored anywhere, and the stores that have it."""

    position: int
    value: bytes
    ballot: str
    slots: frozenset[int]


@dataclass
class Copying:
    """Copies what `active` stores have decided of ledgers. RegistryUnavailable if too few of them answer."""

    positions: StorePositions
    active: ActiveStores
    incarnation: int
    say: Callable[[str], None] = lambda text: None
    copied: int = field(default=0, init=False)

    def fill(self, target: DynamoStore, states: Mapping[LedgerId, LedgerState]) -> None:
        """Copy all decided entries of these ledgers to a store that nobody else asks, behind what it has."""
        for ledger, state in sorted(states.items()):
            name = ledger_key(self.incarnation, ledger)
            last = self._until(partial(target.last, name), lambda last: True)
            # Others that were put together with the last one may not be there yet.
            first = max(0, last + 1 - WRITTEN_AT_ONCE)
            for some in self._decided(ledger, state, first):
                self._put(target, name, some)
                self.copied += len(some)
                self.say(f"{counted(self.copied, 'entry')} copied")
                fault_point("repair.after_page")

    def mend(self, stores: Sequence[DynamoStore], states: Mapping[LedgerId, LedgerState]) -> int:
        """Have every store that answers keep all decided entries of these ledgers: how many it lacked."""
        mended = 0
        for ledger, state in sorted(states.items()):
            for positions in self._differing(stores, ledger, state):
                for some in self._decided(ledger, state, positions.start, positions.stop):
                    mended += self._accept(stores, ledger, some)
                fault_point("repair.after_compared")
        return mended

    # -- what is decided

    def _decided(
        self, ledger: LedgerId, state: LedgerState, first: int, stop: int | None = None
    ) -> Iterator[list[Decided]]:
        """The decided entries from one position to another, page by page."""
        stop = state.next_position if stop is None else stop
        while first < stop:
            pages = self._pages(Key(ledger_key(self.incarnation, ledger), first))
            found = self._of_pages(pages, state, first, stop)
            if not found:
                raise RegistryUnavailable(
                    f"no endpoint that answers has the right copy of position {first} of ledger {ledger};"
                    " bring the others back, then run it again"
                )
            yield found
            first += len(found)

    def _of_pages(
        self, pages: Mapping[int, JudgedPage], state: LedgerState, first: int, stop: int
    ) -> list[Decided]:
        n, end = self.active.n, state.next_position
        # The view knows which value the last one is, though nothing follows on it.
        behind = Page(end, end, {end: Copy(b"")})
        last = JudgedPage(behind, {end: Intact(Copy(b""), b"", state.checksum)})
        values = walk(first, [*pages.values(), last], n).values[: stop - first]
        found = []
        for position, value in enumerate(values, first):
            said = {slot: page.at(position) for slot, page in pages.items()}
            copies = [one.copy for one in said.values() if one is not None]
            if len(copies) < majority(n):
                break
            own = ballot(counter_above(copies), self.positions.stores.new_proposer())
            have = (slot for slot, one in said.items() if one is not None and one.copy.value == value)
            found.append(Decided(position, value, own, frozenset(have)))
        return found

    def _pages(self, first: Key) -> dict[int, JudgedPage]:
        """The page that each store has from a position on, by slot; those of a majority at least."""
        deadline = self.positions.deadline()
        while True:
            (replies,) = self.positions.stores.ask(
                self.active,
                judged_page,
                [first],
                lambda *_: False,  # all of them: what one lacks another one has
                deadline,
            )
            pages = {slot: reply for slot, reply in enumerate(replies) if isinstance(reply, JudgedPage)}
            if len(pages) >= majority(self.active.n):
                return pages
            reason = next(one.reason for one in replies if isinstance(one, NoReply))
            if not deadline.pause():
                raise RegistryUnavailable(f"too few endpoints answer: {reason}; run it again")

    # -- at one store

    def _put(self, target: DynamoStore, name: str, some: Sequence[Decided]) -> None:
        items = [(Key(name, one.position), Copy(one.value, one.ballot, one.ballot)) for one in some]
        for first in range(0, len(items), WRITTEN_AT_ONCE):  # an entry has 120 KB: the API takes 16 MB
            batch = items[first : first + WRITTEN_AT_ONCE]
            self._until(partial(target.fill, batch), partial(eq, len(batch)))

    def _accept(self, stores: Sequence[DynamoStore], ledger: LedgerId, some: Sequence[Decided]) -> int:
        mended = 0
        for one in some:
            at = Key(ledger_key(self.incarnation, ledger), one.position)
            for slot in self.active.slots:
                if slot not in one.slots:
                    mended += stores[slot].accept(Accept(at, one.ballot, one.value)) == Done()
        return mended

    def _differing(
        self, stores: Sequence[DynamoStore], ledger: LedgerId, state: LedgerState
    ) -> Iterator[range]:
        """Positions, one after another, at which stores that answer have not all the same."""
        name, first = ledger_key(self.incarnation, ledger), 0
        while first < state.next_position:
            replies = [stores[slot].endings(Key(name, first)) for slot in self.active.slots]
            pages = [one for one in replies if isinstance(one, Endings)]
            ends = [page.through + 1 for page in pages if page.through is not None]
            end = min([state.next_position, *ends])
            differing = [
                position
                for position in range(first, end)
                if len({page.checksums.get(position) for page in pages} | {None}) != 2
                or any(position not in page.checksums for page in pages)
            ]
            yield from _ranges(differing)
            first = end

    def _until(self, ask: Callable[[], int | NoReply], is_done: Callable[[int], bool]) -> int:
        deadline: Deadline = self.positions.deadline()
        while True:
            answer = ask()
            if not isinstance(answer, NoReply) and is_done(answer):
                return answer
            if not deadline.pause():
                reason = answer.reason if isinstance(answer, NoReply) else "it leaves writes undone"
                raise RegistryUnavailable(f"the endpoint does not answer: {reason}; run it again")


def _ranges(positions: Sequence[int]) -> Iterator[range]:
    """Ascending positions as ranges."""
    for _, together in groupby(enumerate(positions), key=lambda one: one[1] - one[0]):
        some = [position for _, position in together]
        yield range(some[0], some[-1] + 1)
