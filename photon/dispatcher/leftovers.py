"""Files that a plan's runs have left and nobody needs: candidate rows, and what another run replaced (A14).

A candidate file may be committed as it is, and then it stays.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from photon.pipeline.location import Location
from photon.state.plan import Plan
from photon.storage.candidate_files import TABLE, candidate_files, read_candidates
from photon.storage.output_files import OutputFile
from photon.storage.store import store_of
from photon.storage.tables import OutputTable


@dataclass(frozen=True)
class Leftovers:
    """Finds and removes such files of one datacenter's plans."""

    joined: OutputTable

    @property
    def _lake(self) -> Location:
        return self.joined.folder.parent

    def candidates(self, plan: Plan) -> list[str]:
        """The candidate files of a plan's runs so far. LakeUnavailable."""
        return candidate_files(self._lake, plan.key)

    def not_committed(self, plan: Plan) -> list[str]:
        """The candidate files that the table can't have: not all of their rows are in it. LakeUnavailable."""
        names = self.candidates(plan)
        if not names:
            return []
        key = plan.key
        there = {str(one) for one in self.joined.occurrences_of(key.epoch, key.batch, key.plan_id)}
        return [name for name in names if not self._all_are_among(there, name)]

    def _all_are_among(self, occurrences: Collection[str], name: str) -> bool:
        rows = read_candidates(self._lake, [name], ["_occurrence"])
        return rows is not None and all(one in occurrences for one in rows["_occurrence"].to_pylist())

    def drop(self, names: Collection[str]) -> None:
        """Remove candidate files that nobody needs any more."""
        self._remove(TABLE, names)

    def drop_uncommitted(
        self, candidates: Iterable[str], replaced: Iterable[OutputFile], committed: Iterable[OutputFile]
    ) -> None:
        """Remove candidate files, and files that other runs of tasks replaced, but for what is committed."""
        kept = {(file.table, file.path) for file in committed}
        found = {(TABLE, name) for name in candidates} | {(file.table, file.path) for file in replaced}
        names: dict[str, list[str]] = defaultdict(list)
        for table, name in sorted(found - kept):
            names[table].append(name)
        for table, some in names.items():
            self._remove(table, some)

    def _remove(self, table: str, names: Collection[str]) -> None:
        with contextlib.suppress(OSError):  # a file that stays is as invisible as it was
            store_of(self._lake / table).remove(*names)
