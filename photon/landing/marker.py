"""The marker of a landed folder, `.photon/land.json`: what of a topic is in its files, and on disk.

The lander alone writes it; joins, people and monitoring read it. What it says of a file was synced before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS
from photon.process.errors import FormatTooNew, UserError
from photon.storage.store import content, store_of

ASIDE = ".photon"  # no pattern of log files matches a name that begins with a dot
MARKER = "land.json"
ACKNOWLEDGED = "acknowledged.json"  # a person writes it, by `photon acknowledge`
WAITS = "waits.json"  # why a lander can't begin, written at each attempt; joins do not read it
WAITS_BELIEVED_US = 60 * MICROSECONDS  # an attempt asks a broker that is silent for half a minute
FORMAT = 1

M = TypeVar("M")
LossKind = Literal["another topic", "retention", "truncated", "other content", "removed"]


class MarkerDamaged(UserError):
    """A marker says nothing that can be understood."""


def landing_lease(pipeline: Pipeline, datacenter: str) -> Path:
    """The folder whose lease says who lands a datacenter's sources. `photon land` takes none."""
    logs = pipeline.datacenters[datacenter].logs
    assert isinstance(logs, Path), "the pipeline file refuses others"
    return logs / ASIDE / f"{pipeline.name}.{datacenter}"


@dataclass(frozen=True, slots=True)
class AtEnd:
    """All that a partition had as of a moment is landed, and no message has come for so long.

    The moment by the wall clock, and by the clock that nobody sets, both before the broker was asked.
    """

    as_of_us: int
    as_of_elapsed_us: int
    quiet_us: int


@dataclass(frozen=True, slots=True)
class LastLine:
    """The last line that was landed: of which offset it is, and where in the file it begins."""

    offset: int
    at_bytes: int


@dataclass(frozen=True, slots=True)
class Landed:
    """How far one partition is landed."""

    topic_id: str
    next_offset: int  # no message before it is to be landed; the marks of transactions may be the last
    read_offset: int  # behind the last message, or where reading began
    leader_epoch: int | None = None  # of the last message
    file: str | None = None  # below the landed folder; None: it had no message yet
    file_bytes: int = 0  # of the file, which the messages before `next_offset` made; on disk
    last: LastLine | None = None  # in the file
    end_offset: int | None = None  # when last asked: behind the last message, an open transaction's too
    stable_end_offset: int | None = None  # up to where messages are given
    at_end: AtEnd | None = None
    reached_us: int | None = None  # all that it had as of this moment is landed, whatever came since
    stopped_by: str | None = None  # the loss that has to be acknowledged before it goes on

    @property
    def lag(self) -> int | None:
        """Offsets that are not landed; None: nobody knows."""
        return None if self.end_offset is None else max(0, self.end_offset - self.next_offset)

    @property
    def hidden(self) -> int:
        """How many of them an open transaction hides."""
        if self.end_offset is None or self.stable_end_offset is None:
            return 0
        return max(0, self.end_offset - max(self.stable_end_offset, self.next_offset))


@dataclass(frozen=True, slots=True)
class Loss:
    """Messages of one partition that are in no file, at most those between two offsets."""

    name: str
    partition: int
    kind: LossKind
    from_offset: int
    to_offset: int | None  # None: nobody knows
    noticed_us: int
    goes_on_at: int | None = None  # None: at the first message that the broker has then
    acknowledged_us: int | None = None

    def sentence(self) -> str:
        """Say what is lost and why, for people."""
        up_to = "an offset that nobody knows" if self.to_offset is None else f"{self.to_offset:,}"
        why = {
            "another topic": "the topic was deleted and made again",
            "retention": "the broker removed them first",
            "truncated": "the broker lost them, and has others there",
            "other content": "the broker has others there, as after a restore",
            "removed": "somebody removed their file, and the broker has them no more",
        }[self.kind]
        if self.from_offset == self.to_offset:
            return f"partition {self.partition}: no message that anybody knows of: {why}"
        return f"partition {self.partition}: messages from offset {self.from_offset:,} to {up_to}: {why}"


@dataclass(frozen=True)
class Marker:
    """How far a topic is landed, as of the moment at which the lander said so."""

    topic: str
    boot: str  # of the machine: its clock that nobody sets begins with it
    said_us: int
    partitions: Mapping[int, Landed] = field(default_factory=dict)
    losses: tuple[Loss, ...] = ()
    problem: str = ""  # why nothing is landed now; empty: nothing is wrong
    messages: int = 0  # landed as lines, since the folder was begun
    tombstones: int = 0  # messages without a value, which make no line
    odd: int = 0  # landed as bytes, since they are no JSON objects: dead letters

    @property
    def open_losses(self) -> tuple[Loss, ...]:
        """Losses that nobody has acknowledged."""
        return tuple(loss for loss in self.losses if loss.acknowledged_us is None)


def read_marker(folder: Path) -> Marker | None:
    """The marker of a landed folder; None: it has none. MarkerDamaged, FormatTooNew, OSError."""
    path = folder / ASIDE / MARKER
    try:
        return _decoded(json.loads(path.read_bytes()), path)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise MarkerDamaged(
            f"{path}: expected a marker that landing wrote: put it back from a backup, "
            "or rename the landed folder: landing then begins another one"
        ) from None


def put_marker(folder: Path, marker: Marker) -> None:
    """Put a marker in the place of the one before, on disk. OSError."""
    _put(folder, MARKER, {"format": FORMAT, **asdict(marker)})


def acknowledge(folder: Path, names: Sequence[str]) -> None:
    """Have the lander of a folder go on behind the losses of these names, and no others any more. OSError."""
    _put(folder, ACKNOWLEDGED, list(names))


def read_or_why(read_one: Callable[[Path], M | None], folder: Path) -> tuple[M | None, str]:
    """A folder's marker of some kind, and why it can't be read; empty: it can."""
    try:
        return read_one(folder), ""
    except (MarkerDamaged, FormatTooNew, OSError) as error:
        return None, str(error)


def put_waiting(folder: Path, why: str, now_us: int) -> None:
    """Say why landing can't begin yet; where there is no room nobody says it."""
    with suppress(OSError):
        _put(folder, WAITS, {"why": why, "said_us": now_us})


def has_begun(folder: Path) -> None:
    """Landing waits no more. OSError."""
    (folder / ASIDE / WAITS).unlink(missing_ok=True)


def why_waiting(folder: Path, now_us: int) -> str:
    """Why a process that is there can't begin to land a folder; empty: none says so."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        said = json.loads((folder / ASIDE / WAITS).read_bytes())
        if abs(now_us - said["said_us"]) <= WAITS_BELIEVED_US:
            return str(said["why"])
    return ""


def acknowledged_in(folder: Path) -> frozenset[str]:
    """The names of the losses of a folder that somebody has acknowledged. OSError."""
    try:
        return frozenset(json.loads((folder / ASIDE / ACKNOWLEDGED).read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return frozenset()  # one that is damaged acknowledges nothing


def _put(folder: Path, name: str, said: object) -> None:
    store = store_of(folder / ASIDE)
    store.make()
    store.put(name, content(json.dumps(said).encode()))
    store.sync()


def _decoded(said: dict[str, Any], path: Path) -> Marker:
    if (version := said.pop("format")) > FORMAT:
        raise FormatTooNew(path, version, FORMAT)
    partitions = {int(number): _landed(one) for number, one in said.pop("partitions").items()}
    losses = tuple(Loss(**one) for one in said.pop("losses"))
    return Marker(**said, partitions=partitions, losses=losses)


def _landed(said: dict[str, Any]) -> Landed:
    at_end, last = said.pop("at_end"), said.pop("last")
    return Landed(
        **said,
        at_end=None if at_end is None else AtEnd(**at_end),
        last=None if last is None else LastLine(**last),
    )
