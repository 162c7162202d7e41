"""The outcomes of all tasks of one batch, together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from photon.join.messages import (
    Contested,
    Failed,
    IndexResult,
    JoinedRecord,
    JoinResult,
    TaskOutcome,
    Unavailable,
)
from photon.registry.interface import RegistryUnavailable
from photon.storage.columns import TableName
from photon.storage.tables import LakeUnavailable, OutputFile


class CannotEnd(Exception):
    """A task met something that every run of the batch will meet again."""


@dataclass
class Results:
    """The outcomes of a batch that went through."""

    index: list[IndexResult] = field(default_factory=list)
    join: list[JoinResult] = field(default_factory=list)

    def files(self, table: TableName) -> list[OutputFile]:
        """What tasks wrote for a table."""
        written = [*(r.files for r in self.index), *(r.files for r in self.join)]
        return [file for files in written for file in files if file.table == table]

    @property
    def contested(self) -> list[Contested]:
        """Records of events that an earlier plan holds."""
        return [item for result in self.join for item in result.contested]

    @property
    def already_joined(self) -> list[JoinedRecord]:
        """Records of events that this datacenter has joined, of which only their rows may say by which."""
        return [item for result in self.join for item in result.already_joined]


def collect_results(outcomes: Sequence[TaskOutcome]) -> Results:
    """The results of a batch. Raises what keeps it from being committed.

    RegistryUnavailable or LakeUnavailable for what may come back, before CannotEnd, which may be due to it.
    """
    for outcome in outcomes:
        if isinstance(outcome, Unavailable):
            error = RegistryUnavailable if outcome.what == "registry" else LakeUnavailable
            raise error(f"{outcome.what}: {outcome.reason}")
    results = Results()
    for outcome in outcomes:
        match outcome:
            case Failed(reason):
                raise CannotEnd(reason)
            case IndexResult():
                results.index.append(outcome)
            case JoinResult():
                results.join.append(outcome)
    return results
