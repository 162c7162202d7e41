"""Give a datacenter up for good: what it holds without a row is free (protocol E2, E6).

the register: given up, its epochs over   -> no token of it wins any more (B18)
its table, if there is one: fenced        -> no batch of it is committed any more (E1)
every endpoint, page by page: tokens of it that have no row are released; all of them if the lake is gone
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from photon.faults import fault_point
from photon.ledger.errors import RegistryUnavailable
from photon.pipeline.file import Pipeline
from photon.registry.consensus.acceptor import Acceptor
from photon.registry.consensus.decisions import majority
from photon.registry.consensus.layout import ItemKey, key_of_item
from photon.registry.consensus.register import Register, with_datacenter_given_up
from photon.registry.endpoints.deadline import Unanswered
from photon.registry.interface import Claim, Unknown
from photon.registry.operations.ranges import AtOnce, HowFar, PositionItem, Ranges, in_threads
from photon.registry.quorum.proposer import QuorumRegistry
from photon.storage.tables import CommitConflict, OutputTable, app_id
from photon.tokens import Token
from photon.upkeep.held_pages import PAGE_ITEMS, HeldPage, held_pages, shards_of
from photon.upkeep.retirable import NotRetired, table_that_counts


@dataclass
class Retired:
    """What came of it."""

    released: int = 0  # ids that are free again
    kept: int = 0  # ids with a row that counts
    cleared: int = 0  # ids whose rows are gone with the lake, and that can't be released any more (B6)
    problems: list[str] = field(default_factory=list)  # endpoints that did not answer


def retire(
    pipeline: Pipeline,
    datacenter: str,
    registry: QuorumRegistry,
    lake_is_gone: bool = False,
    page_items: int = PAGE_ITEMS,
    run: AtOnce = in_threads,
    say: Callable[[str], None] = lambda text: None,
) -> Retired:
    """Retire a datacenter; may be killed and run again, and then goes on where it was. `say` is told how far.

    NotRetired, LakeUnavailable, RegistryUnavailable.
    """
    register = registry.register.read()
    table = table_that_counts(pipeline, datacenter, register, lake_is_gone)
    now_us = registry.clock.now_us()
    register = registry.register.change(
        lambda now: with_datacenter_given_up(now, datacenter, table is None, now_us)
    )
    fault_point("retire.after_register")
    return _Retirement(datacenter, registry, register, table, page_items, run, say).run()


@dataclass
class _Retirement:
    """The release of all that one datacenter holds."""

    datacenter: str
    registry: QuorumRegistry
    register: Register
    table: OutputTable | None  # None: its rows don't count any more
    page_items: int
    at_once: AtOnce
    say: Callable[[str], None]
    fenced: set[str] = field(default_factory=set)

    def run(self) -> Retired:
        """At one endpoint after the other: an id that a majority has is met at some of them."""
        total, ended = Retired(), list[PositionItem]()
        for slot, acceptor in enumerate(self.registry.endpoints.active.acceptors):
            if acceptor is None:
                total.problems.append(f"endpoint {slot + 1} is out of use")
                continue
            try:
                found, position = self._release_at(slot, acceptor)
            except Unanswered as error:
                total.problems.append(f"endpoint {slot + 1} does not answer: {error}")
                continue
            ended.append(position)
            total.released += found.released  # what was released at one is a tombstone at the next
            total.kept, total.cleared = max(total.kept, found.kept), max(total.cleared, found.cleared)
        if len(ended) < majority(self.registry.endpoints.n):
            raise RegistryUnavailable(
                f"too few endpoints answered: {'; '.join(total.problems)}; run it again"
            )
        for position in ended:
            position.forget()
        return total

    def _release_at(self, slot: int, acceptor: Acceptor) -> tuple[Retired, PositionItem]:
        """Release what one endpoint knows, from where an earlier run was killed. Unanswered."""
        endpoint, found = self.registry.endpoints.alone(acceptor), Retired()
        position = PositionItem(endpoint, f"retire {self.datacenter}")
        with_rows = "without its lake" if self.table is None else "with its rows"
        work = f"retire {self.datacenter} {with_rows} at {self.register.members.incarnations[slot]}"
        shards = shards_of(self.register)
        before, clock = position.read(self.registry.deadline()), self.registry.clock
        what = f"releases ids at endpoint {slot + 1} of {self.registry.endpoints.n}"
        how_far = HowFar(what, self.say, clock.elapsed_us)
        ranges = Ranges(shards, work, position, clock.now_us, before, self.page_items, how_far)
        ranges.work_through(partial(self._release_shard, acceptor, found), 1, self.at_once)
        return found, position

    def _release_shard(
        self, acceptor: Acceptor, found: Retired, shard: str, after: ItemKey | None
    ) -> Iterator[tuple[ItemKey | None, int]]:
        for page in held_pages(self.registry, acceptor, self.datacenter, shard, after, self.page_items):
            self._release_page(page, found)
            fault_point("retire.after_page")
            yield page.last, page.items

    def _release_page(self, page: HeldPage, found: Retired) -> None:
        """Release the ids of a page that the datacenter holds without a row. RegistryUnavailable."""
        found.cleared += page.cleared if self.table is None else 0
        free = self._without_row([token for _, token in page.held])
        found.kept += len(page.held) - len(free)
        left = [(item, str(token)) for item, token in page.held if token in free]
        if not left:
            return
        claims = [Claim(key_of_item(item.key, item.time), token) for item, token in left]
        outcomes = self.registry.release_items([item.key for item, _ in left], claims)
        unknown = [outcome for outcome in outcomes if isinstance(outcome, Unknown)]
        if unknown:
            raise RegistryUnavailable(
                f"{len(unknown)} ids not released yet: {unknown[0].reason}; run it again"
            )
        found.released += len(outcomes)

    def _without_row(self, tokens: Sequence[Token]) -> set[Token]:
        """The tokens that have no row that counts, at a snapshot in which their epochs are fenced (E1)."""
        if self.table is None:
            return set(tokens)
        for epoch in {token.plan.epoch for token in tokens} - self.fenced:
            try:
                self.table.fence(app_id(self.datacenter, epoch))
            except CommitConflict as error:
                raise NotRetired(f"its table was just written: {error}; run it again") from error
            self.fenced.add(epoch)
        status = self.table.row_status_of(tokens)
        return {token for token in tokens if status[token] == "no row"}
