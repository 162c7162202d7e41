"""Give a datacenter up for good: what it holds without a row is free (protocol E2, E6).

the register: given up, its epochs over   -> no token of it wins any more (B18)
its table, if there is one: fenced        -> no batch of it is committed any more (E1)
every endpoint, page by page: tokens of it that have no row are released; all of them if the lake is gone
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from photon.errors import UserError
from photon.faults import fault_point
from photon.pipeline.file import Pipeline
from photon.registry.consensus.acceptor import Acceptor, NoReply, Page, Scanned
from photon.registry.consensus.decisions import majority
from photon.registry.consensus.layout import (
    Cleared,
    Held,
    ItemKey,
    datacenter_of,
    decode_value,
    key_of_item,
    shards_by_config,
)
from photon.registry.consensus.quorums import all_of_them
from photon.registry.consensus.register import Register, with_datacenter_given_up
from photon.registry.endpoints.deadline import Unanswered, until_answered
from photon.registry.endpoints.endpoints import Endpoints
from photon.registry.interface import Claim, RegistryUnavailable, Unknown
from photon.registry.operations.ranges import AtOnce, PositionItem, Ranges, in_threads
from photon.registry.quorum.proposer import QuorumRegistry
from photon.storage.tables import CommitConflict, OutputTable, app_id
from photon.tokens import Token

PAGE_ITEMS = 1_000


class NotRetired(UserError):
    """The datacenter can't be retired so; the message says why, and what to do."""


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
) -> Retired:
    """Retire a datacenter; may be killed and run again, and then goes on where it was.

    NotRetired, LakeUnavailable, RegistryUnavailable.
    """
    register = registry.register.read()
    if not any(record.datacenter == datacenter for record in register.epochs.values()):
        known = sorted({record.datacenter for record in register.epochs.values()})
        raise NotRetired(
            f"the registry knows no datacenter {datacenter}; it knows: {', '.join(known) or 'none'}"
        )
    _refuse_the_last(pipeline, datacenter, register)
    table = None if lake_is_gone else _table_of(pipeline, datacenter, register)
    now_us = registry.clock.now_us()
    register = registry.register.change(
        lambda now: with_datacenter_given_up(now, datacenter, lake_is_gone, now_us)
    )
    fault_point("retire.after_register")
    return _Retirement(datacenter, registry, register, table, page_items, run).run()


def _refuse_the_last(pipeline: Pipeline, datacenter: str, register: Register) -> None:
    known = {record.datacenter for record in register.epochs.values()}
    if not {*pipeline.datacenters, *known} - {*register.given_up, datacenter}:
        raise NotRetired(
            f"datacenter {datacenter} is the last one: nobody would join what it gives up. Let another one "
            "join first; to keep this one from running, put it on hold"
        )


def _table_of(pipeline: Pipeline, datacenter: str, register: Register) -> OutputTable:
    """The datacenter's table. NotRetired without it."""
    place, why = pipeline.datacenters.get(datacenter), f"{pipeline.file} does not name its lake"
    if place is not None:
        table = OutputTable(place.lake, "joined_events")
        ids = {e.table_id for e in register.epochs.values() if e.datacenter == datacenter}
        why = f"the table {table.folder} is not there"
        if table.exists():
            if not ids or table.table_id() in ids:
                return table
            why = f"the table {table.folder} is not the one that the registry knows"
    raise NotRetired(
        f"datacenter {datacenter} can't be retired with its rows: {why}; bring the lake back, or, if it is "
        "lost for good: --lake-is-gone. Then its rows don't count any more, and its ids may be joined again"
    )


@dataclass
class _Retirement:
    """The release of all that one datacenter holds."""

    datacenter: str
    registry: QuorumRegistry
    register: Register
    table: OutputTable | None  # None: its rows don't count any more
    page_items: int
    at_once: AtOnce
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
        shards = [shard for config in shards_by_config(self.register) for shard in config]
        before = position.read(self.registry.deadline())
        ranges = Ranges(shards, work, position, self.registry.clock.now_us, before, self.page_items)
        ranges.work_through(partial(self._release_shard, acceptor, endpoint, found), 1, self.at_once)
        return found, position

    def _release_shard(
        self, acceptor: Acceptor, endpoint: Endpoints, found: Retired, shard: str, after: ItemKey | None
    ) -> Iterator[tuple[ItemKey | None, int]]:
        while True:
            page = self._page(acceptor, endpoint, shard, after)
            self._release_page(page.items, found)
            fault_point("retire.after_page")
            yield page.last, len(page.items)
            if page.last is None:
                return
            after = page.last

    def _page(self, acceptor: Acceptor, endpoint: Endpoints, shard: str, after: ItemKey | None) -> Page:
        def scan(one: Acceptor, batch: Sequence[ItemKey | None]) -> list[Page | NoReply]:
            return [one.scan_shard(shard, "", begin, self.page_items) for begin in batch]

        def ask(afters: Sequence[ItemKey | None]) -> list[Page | NoReply]:
            return [page for (page,) in endpoint.ask(scan, afters, 1, all_of_them)]

        ((_, page),) = until_answered(ask, [after], self.registry.deadline())
        return page

    def _release_page(self, items: Sequence[Scanned], found: Retired) -> None:
        """Release the ids among these that the datacenter holds without a row. RegistryUnavailable."""
        held: list[tuple[Scanned, Token]] = []
        for item in items:
            match decode_value(item.stored.value) if item.stored.value is not None else None:
                case Held(token) if datacenter_of(token) == self.datacenter:
                    held.append((item, Token.parse(token)))
                case Cleared(self.datacenter) if self.table is None:
                    found.cleared += 1
        free = self._without_row([token for _, token in held])
        found.kept += len(held) - len(free)
        left = [(item, str(token)) for item, token in held if token in free]
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
