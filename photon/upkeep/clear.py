"""Clearing: an id whose row is in the output needs no token any more, only its owner (protocol B6).

Off by default: a write an id costs more than the room that it saves (docs/adr/0030).

A pass reads the rows that one datacenter has committed since the last one, and shrinks what the registry
stores for their ids. It may be repeated, and run by several at once. Why this is safe: docs/adr/0021.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from photon.clock import MICROSECONDS
from photon.errors import FormatTooNew
from photon.faults import fault_point
from photon.pace import pace
from photon.pipeline.event_key import event_key
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import ForeignLog
from photon.registry.consensus.layout import Cleared, encode_value, fast_value
from photon.registry.consensus.register import EpochRecord
from photon.registry.interface import Claim
from photon.registry.quorum.proposer import QuorumRegistry
from photon.state.database import StateUnavailable
from photon.storage.joined_rows import CommittedRows
from photon.storage.tables import OutputTable
from photon.tokens import Token

# What is said in place of a clearing.
OFF = (
    "clearing is off (registry.clearing.enabled): it costs a write an id, which is more than the room that it"
    " saves"
)
PROGRESS_FILE = "clearing.json"
PROGRESS_FORMAT = 1
PAGE_ROWS = 10_000  # looked at together: bounds memory
# Between two times that progress is stored. After a kill a pass looks at up to this many rows again.
ROWS_BETWEEN_PROGRESS = 100_000


@dataclass(frozen=True, slots=True)
class Clearing:
    """What one pass over a datacenter's output did.

    Of the `rows` that it read, `ids` were cleared now; their values took `bytes_before` at each endpoint and
    take `bytes_after`.
    """

    rows: int = 0
    ids: int = 0
    bytes_before: int = 0
    bytes_after: int = 0

    def __add__(self, other: Clearing) -> Clearing:
        return Clearing(*map(sum, zip(astuple(self), astuple(other), strict=True)))


def clear_output(
    pipeline: Pipeline,
    datacenter: str,
    registry: QuorumRegistry,
    everything: bool = False,
    dry_run: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Clearing:
    """Clear the ids of all rows that were committed since the last pass; with `everything`, of all rows.

    The latter finds the tokens at endpoints that were down during a pass. Rows of retired epochs do not
    count, and their ids may have to be released. With `dry_run` nothing changes: the answer says what would.
    RegistryUnavailable, LakeUnavailable, StateUnavailable, FormatTooNew: what was cleared until then stays
    so, and the next pass goes on.
    """
    place = pipeline.datacenters[datacenter]
    table = OutputTable(place.lake, "joined_events")
    done = Clearing()
    if not table.exists():
        return done
    progress = Progress(place.state)
    committed = CommittedRows(table)
    epochs = clearable(datacenter, registry.register.read().epochs)
    afters = {epoch: 0 if everything else progress.cleared_to(epoch) for epoch in epochs}
    total = sum(committed.rows_beyond(epoch, after) for epoch, after in afters.items())
    elapsed_us, verb = registry.clock.elapsed_us, "to clear" if dry_run else "cleared"
    began_us = elapsed_us()
    for epoch, after in afters.items():
        for batches in committed.stretches(epoch, after, ROWS_BETWEEN_PROGRESS):
            if epoch not in clearable(datacenter, registry.register.read().epochs):
                break  # retired since
            for page in committed.pages(epoch, batches, PAGE_ROWS):
                done += _clear_page(page, datacenter, pipeline.foreign, registry, dry_run)
                far = pace(done.rows, total, (elapsed_us() - began_us) / MICROSECONDS, "{:,} rows".format)
                say(f"datacenter {datacenter}: {far}; {done.ids:,} ids {verb}")
                fault_point("clear.after_page")
            fault_point("clear.before_progress")
            if not dry_run:
                progress.advance(epoch, batches.stop - 1)
    return done


def clearable(datacenter: str, epochs: Mapping[str, EpochRecord]) -> list[str]:
    """The epochs of a datacenter whose rows count: they are in the output for good (protocol E2)."""
    return [
        epoch
        for epoch, record in epochs.items()
        if record.datacenter == datacenter and record.state != "retired"
    ]


def _clear_page(
    page: pa.RecordBatch, datacenter: str, log: ForeignLog, registry: QuorumRegistry, dry_run: bool
) -> Clearing:
    # Without its event's time a row looks like others of its id.
    rows = page.filter(pc.is_valid(page["_event_time"])) if log.time_in_id else page
    times_us = rows["_event_time"].cast(pa.int64()).to_pylist()
    ids, *places = (
        rows[name].to_pylist() for name in ("_event_id", "_epoch", "_batch", "_plan", "_occurrence")
    )
    keys = [event_key(event_id, time_us, log) for event_id, time_us in zip(ids, times_us, strict=True)]
    registered = zip(keys, registry.tokens_anywhere(keys), *places, strict=True)
    claims = [
        Claim(key, token)
        for key, tokens, *row in registered
        for token in sorted(tokens)
        if is_of_row(token, datacenter, *row)
    ]
    cleared = encode_value(Cleared(datacenter))
    return Clearing(
        rows=page.num_rows,
        ids=len(claims) if dry_run else registry.clear(claims),
        bytes_before=sum(len(fast_value(claim.token).encode()) for claim in claims),
        bytes_after=len(claims) * len(cleared.encode()),
    )


def is_of_row(
    token: str, datacenter: str, epoch: str, batch: int, plan_id: str | None, occurrence: str
) -> bool:
    """Whether a token registered this very row. Rows of Photon 0.1.0 do not have the id of their plan.

    One epoch and batch has two plans only if an old state was put back in between (protocol A15).
    """
    parsed = Token.parse(token)
    plan = parsed.plan
    same_batch = (plan.datacenter, plan.epoch, plan.batch) == (datacenter, epoch, batch)
    return same_batch and plan_id in (plan.plan_id, None) and str(parsed.occurrence) == occurrence


class Progress:
    """Up to which batch of each epoch the ids are cleared. A lost file only costs a look at all rows."""

    def __init__(self, state_folder: Path) -> None:
        """FormatTooNew, StateUnavailable."""
        self._path = state_folder / PROGRESS_FILE
        try:
            stored = json.loads(self._path.read_text()) if self._path.exists() else {}
        except (OSError, ValueError) as error:
            raise StateUnavailable(
                f"cannot read {self._path}: {error}; make it readable, or remove it:"
                " all rows are looked at again"
            ) from error
        if stored.get("format", PROGRESS_FORMAT) > PROGRESS_FORMAT:
            raise FormatTooNew(self._path, stored["format"], PROGRESS_FORMAT)
        self._batches: dict[str, int] = stored.get("cleared_to", {})

    def cleared_to(self, epoch: str) -> int:
        """The last batch whose rows were looked at; 0 before the first."""
        return self._batches.get(epoch, 0)

    def advance(self, epoch: str, batch: int) -> None:
        """Remember a batch, unless one beyond it is remembered. StateUnavailable."""
        self._batches[epoch] = max(batch, self.cleared_to(epoch))
        text = json.dumps({"format": PROGRESS_FORMAT, "cleared_to": self._batches}, indent=1)
        new = self._path.with_suffix(f".{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(text)
            new.replace(self._path)  # so that there is never half a file
        except OSError as error:
            with suppress(OSError):
                new.unlink(missing_ok=True)
            raise StateUnavailable(
                f"cannot write {self._path}: {error}; make room, or the folder writable"
            ) from error
