"""What a repair of an endpoint would do now. Reads, and changes nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from photon.clock import SystemClock
from photon.pipeline.file import Pipeline
from photon.registry.consensus.acceptor import NoReply
from photon.registry.operations.directory import Directory
from photon.registry.operations.init import ask_endpoint, find_registry
from photon.registry.operations.repair import refuse_other_stores, slot_of


@dataclass(frozen=True, slots=True)
class RepairToCome:
    """What a repair would find and do."""

    endpoint: str
    is_out_of_use: bool  # by an earlier repair that did not end
    table: str | None  # that its store has now, and that another one takes the place of
    problem: str  # why the endpoint can't be filled now; empty: it answers
    silent: tuple[str, ...]  # of the others, from whose majority ids are copied

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def sentences(self) -> list[str]:
        """For people."""
        if self.problem:
            return [
                f"{self.endpoint} {self.problem}: a repair would take it out of use and end; start its store",
                *self._others(),
            ]
        begin = (
            "an earlier repair did not end: this one would go on where that stopped"
            if self.is_out_of_use
            else f"{self.endpoint} would be taken out of use, and filled from a majority of the others"
        )
        there = "it has no table of this pipeline" if self.table is None else f"in the place of {self.table}"
        return [f"{begin}; it would get a new table: {there}", *self._others()]

    def _others(self) -> list[str]:
        return [f"no answer from {one}, which a repair would do without" for one in self.silent]


def would_repair(pipeline: Pipeline, url: str) -> RepairToCome:
    """What `repair_endpoint` would do. It refuses what that refuses, with the same errors."""
    address = find_registry(pipeline)
    slot = slot_of(address, url)
    replies = [ask_endpoint(pipeline.name, endpoint) for endpoint in address.endpoints]
    silent = tuple(
        str(endpoint)
        for other, (endpoint, reply) in enumerate(zip(address.endpoints, replies, strict=True))
        if other != slot and isinstance(reply, NoReply)
    )
    mine, is_down = replies[slot], slot in address.members.down
    if isinstance(mine, NoReply):
        return RepairToCome(url, is_down, None, f"{mine.problem} ({mine.reason})", silent)
    refuse_other_stores(
        pipeline, address, slot, Directory(address.endpoints[slot], SystemClock()), mine.table
    )
    return RepairToCome(url, is_down, mine.table, "", silent)
