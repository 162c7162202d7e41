"""What a retirement would do, without doing it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from photon.ledger.errors import RegistryUnavailable
from photon.pipeline.file import Pipeline
from photon.registry.consensus.acceptor import Acceptor
from photon.registry.consensus.decisions import majority
from photon.registry.consensus.register import Register
from photon.registry.endpoints.deadline import Unanswered
from photon.registry.operations.ranges import HowFar
from photon.registry.quorum.proposer import QuorumRegistry
from photon.storage.tables import OutputTable
from photon.tokens import Token
from photon.upkeep.held_pages import PAGE_ITEMS, held_pages, shards_of
from photon.upkeep.retirable import table_that_counts


@dataclass
class WouldRetire:
    """What a datacenter has, and what would become of it.

    Ids are those of the endpoint that has most of them: another one may have a few that it lacks.
    """

    rows: int | None = None  # that stay and count; None: the lake is gone, and they count no more
    released: int = 0  # ids that would be free
    kept: int = 0  # ids with a row that counts
    cleared: int = 0  # ids whose rows are gone with the lake, and that can't be released any more
    problems: list[str] = field(default_factory=list)  # endpoints that did not answer

    @property
    def ids(self) -> int:
        return self.released + self.kept + self.cleared


def would_retire(
    pipeline: Pipeline,
    datacenter: str,
    registry: QuorumRegistry,
    lake_is_gone: bool = False,
    page_items: int = PAGE_ITEMS,
    say: Callable[[str], None] = lambda text: None,
) -> WouldRetire:
    """What `retire` would do now; changes nothing. `say` is told how far it is.

    NotRetired, LakeUnavailable, RegistryUnavailable.
    """
    register = registry.register.read()
    table = table_that_counts(pipeline, datacenter, register, lake_is_gone)
    found: list[WouldRetire] = []
    problems: list[str] = []
    for slot, acceptor in enumerate(registry.endpoints.active.acceptors):
        if acceptor is None:
            problems.append(f"endpoint {slot + 1} is out of use")
            continue
        try:
            what = f"looks at ids at endpoint {slot + 1} of {registry.endpoints.n}"
            how_far = HowFar(what, say, registry.clock.elapsed_us)
            found.append(_at_one(datacenter, registry, acceptor, register, table, page_items, how_far))
        except Unanswered as error:
            problems.append(f"endpoint {slot + 1} does not answer: {error}")
    if len(found) < majority(registry.endpoints.n):
        raise RegistryUnavailable(f"too few endpoints answered: {'; '.join(problems)}; run it again")
    most = max(found, key=lambda one: one.ids)
    most.problems = problems
    if table is not None:
        with table.reading():
            most.rows = table.load().to_pyarrow_dataset().count_rows()
    return most


def _at_one(
    datacenter: str,
    registry: QuorumRegistry,
    acceptor: Acceptor,
    register: Register,
    table: OutputTable | None,
    page_items: int,
    how_far: HowFar,
) -> WouldRetire:
    """By the ids of one endpoint. Unanswered."""
    found, shards = WouldRetire(), shards_of(register)
    how_far.expect(len(shards))
    for shard in shards:
        for page in held_pages(registry, acceptor, datacenter, shard, None, page_items):
            kept = _with_row(table, [token for _, token in page.held])
            found.kept += kept
            found.released += len(page.held) - kept
            found.cleared += page.cleared if table is None else 0
            how_far.advance(page.items, int(page.last is None))
    return found


def _with_row(table: OutputTable | None, tokens: Sequence[Token]) -> int:
    """How many tokens have a row that counts. A batch that is not committed yet would be fenced."""
    return 0 if table is None else list(table.row_status_of(tokens).values()).count("row")
