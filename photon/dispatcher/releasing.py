"""Give back ids that were registered and have no row (protocol A7, A8, A14)."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from photon.dispatcher.retrying import BackoffRetry
from photon.dispatcher.task_splitter import most_join_tasks
from photon.join.candidates import CLAIM_COLUMNS, claims_of
from photon.join.messages import RegisteredHere
from photon.ledger.errors import RegistryUnavailable
from photon.pipeline.location import Location
from photon.pipeline.sections import ForeignLog
from photon.registry.interface import Claim, IdRegistry, Unknown
from photon.state.plan import Plan
from photon.storage.candidate_files import candidate_files, drop_candidates, read_candidates
from photon.storage.tables import OutputTable
from photon.tokens import Occurrence, Token


@dataclass(frozen=True)
class Releasing:
    """Releases tokens of one datacenter, as its table of joined rows says."""

    joined: OutputTable
    registry: IdRegistry
    foreign: ForeignLog
    retry: BackoffRetry

    @property
    def _lake(self) -> Location:
        return self.joined.folder.parent

    def release(self, claims: Sequence[Claim]) -> int:
        """Release tokens that have no row and get none; how many those are.

        The plan stays open until their release is known (A7, E1). LakeUnavailable, RegistryUnavailable.
        """
        tokens = {claim: Token.parse(claim.token) for claim in claims}
        row_status = self.joined.row_status_of(set(tokens.values()))
        left = [claim for claim, token in tokens.items() if row_status[token] == "no row"]
        released = len(left)
        while left:
            outcomes = self.registry.release(left)
            unknown = [(c, o) for c, o in zip(left, outcomes, strict=True) if isinstance(o, Unknown)]
            left = [claim for claim, _ in unknown]
            reason = unknown[0][1].reason if unknown else ""
            if left and not self.retry.wait(f"registry: {len(left)} ids not released yet: {reason}"):
                raise RegistryUnavailable("stopped before all ids of the batch were released")
        return released

    def release_for_others(
        self, records: Sequence[RegisteredHere], claims: Sequence[Claim]
    ) -> set[Occurrence]:
        """Release ids that an earlier plan holds without a row; the records whose ids are free now (A8)."""
        outcomes = self.registry.release(claims) if claims else []
        free = {
            claim.token
            for claim, outcome in zip(claims, outcomes, strict=True)
            if not isinstance(outcome, Unknown)
        }
        return {record.occurrence for record in records if record.token in free}

    def candidates(self, plan: Plan) -> list[str]:
        """The candidate files of a plan's runs so far. LakeUnavailable."""
        return candidate_files(self._lake, plan.key, most_join_tasks(plan))

    def release_candidates(self, plan: Plan) -> dict[str, bool]:
        """After commit N: release each candidate of the plan that has no row in it (A14).

        Its candidate files, and whether all rows of each are in the table, so that it may be committed.
        """
        is_in_table: dict[str, bool] = {}
        for name in self.candidates(plan):
            rows = read_candidates(self._lake, [name], CLAIM_COLUMNS)
            claims = [] if rows is None else claims_of(rows, plan.key, self.foreign)
            is_in_table[name] = rows is not None and self.release(claims) == 0
        return is_in_table

    def drop(self, names: Collection[str]) -> None:
        """Remove candidate files that nobody needs any more."""
        with contextlib.suppress(OSError):  # what can't be removed now is as invisible as it was
            drop_candidates(self._lake, names)
