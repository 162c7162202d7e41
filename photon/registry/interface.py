"""The IdRegistry's interface: what every backend promises, and the outcomes as types.

Rules: protocol B and C; paper, section 3.2 (`PaxosDB: lookup, insert if absent`). `tests/contract` holds
every backend to these docstrings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from photon.ledger.errors import RegistryMismatch, RegistryUnavailable, no_answer  # noqa: F401
from photon.pipeline.event_key import EventKey


@dataclass(frozen=True, slots=True)
class Claim:
    """Asks to register an event for a record: the event's key and the record's own token."""

    key: EventKey
    token: str


@dataclass(frozen=True, slots=True)
class Holder:
    """Who registered an id. After clearing only the datacenter is known, and `token` is None."""

    datacenter: str
    token: str | None


@dataclass(frozen=True, slots=True)
class Won:
    """The token holds the id: chosen, and checked against boundary and members afterwards."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Another value is chosen for the id (protocol B3), so that a release has nothing to release."""

    holder: Holder


@dataclass(frozen=True, slots=True)
class TooOld:
    """The id is below the boundary of gc: it may have been joined and forgotten."""


@dataclass(frozen=True, slots=True)
class BeyondHorizon:
    """The id's time is at or after the horizon (protocol C3): not to be committed yet."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """The token's epoch is over: revoked, retired, or pruned since (protocol B18). Its process must stop."""

    epoch: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """No answer within the deadline: the token may or may not hold the id (protocol A5, B2)."""

    reason: str


@dataclass(frozen=True, slots=True)
class Joined:
    """A value is chosen for the id."""

    holder: Holder


@dataclass(frozen=True, slots=True)
class Free:
    """Nobody holds the id: absent, undecided, or released (a tombstone)."""


@dataclass(frozen=True, slots=True)
class Released:
    """The token does not hold the id and never will (protocol B5): only a zombie still commits it."""


CommitOutcome = Won | Lost | Released | TooOld | BeyondHorizon | Fenced | Unknown
LookupOutcome = Joined | Free | TooOld | BeyondHorizon
ReleaseOutcome = Released | Lost | Unknown


Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class KeyColumns(Sequence[EventKey]):
    """Keys of events as columns of one length; each key is made when it is asked for.

    `ids`: text, or its UTF-8 where half a surrogate pair, which is no UTF-8, is written as Python's
    `surrogatepass` does. Times are int64, in microseconds, null as None in `EventKey`; None: null for all.
    """

    ids: pa.StringArray | pa.BinaryArray
    times_us: pa.Int64Array | None = None
    at_us: pa.Int64Array | None = None

    def __post_init__(self) -> None:
        is_bytes = getattr(self.ids, "type", None) in (pa.binary(), pa.large_binary())
        object.__setattr__(self, "ids", _flat("ids", self.ids, pa.binary() if is_bytes else pa.string()))
        for name in ("times_us", "at_us"):
            times_us = getattr(self, name)
            if times_us is not None:
                object.__setattr__(self, name, _flat(name, times_us, pa.int64(), len(self.ids)))

    @staticmethod
    def of(keys: Sequence[EventKey]) -> KeyColumns:
        """The same keys in columns."""
        if isinstance(keys, KeyColumns):
            return keys
        ids = [key.id for key in keys]
        try:
            column = pa.array(ids, pa.string())
        except UnicodeEncodeError:
            column = pa.array([one.encode("utf-8", "surrogatepass") for one in ids], pa.binary())
        return KeyColumns(
            column, _times_or_none([key.time_us for key in keys]), _times_or_none([key.at_us for key in keys])
        )

    def take(self, indices: npt.NDArray[np.intp]) -> KeyColumns:
        """The keys with these indices, in that order."""
        where = pa.array(indices)
        times = (None if column is None else column.take(where) for column in (self.times_us, self.at_us))
        return KeyColumns(self.ids.take(where), *times)

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> EventKey: ...
    @overload
    def __getitem__(self, index: slice) -> KeyColumns: ...
    def __getitem__(self, index: int | slice) -> EventKey | KeyColumns:
        if isinstance(index, slice):
            times = (None if column is None else column[index] for column in (self.times_us, self.at_us))
            return KeyColumns(self.ids[index], *times)
        return EventKey(
            _text_of(self.ids[index].as_py()),
            None if self.times_us is None else self.times_us[index].as_py(),
            None if self.at_us is None else self.at_us[index].as_py(),
        )


@dataclass(frozen=True, slots=True)
class ClaimColumns(Sequence[Claim]):
    """Claims as columns of one length; each claim is made when it is asked for."""

    keys: KeyColumns
    tokens: pa.StringArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", _flat("tokens", self.tokens, pa.string(), len(self.keys)))

    @staticmethod
    def of(claims: Sequence[Claim]) -> ClaimColumns:
        """The same claims in columns."""
        if isinstance(claims, ClaimColumns):
            return claims
        tokens = pa.array([claim.token for claim in claims], pa.string())
        return ClaimColumns(KeyColumns.of([claim.key for claim in claims]), tokens)

    def take(self, indices: npt.NDArray[np.intp]) -> ClaimColumns:
        """The claims with these indices, in that order."""
        return ClaimColumns(self.keys.take(indices), self.tokens.take(pa.array(indices)))

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, index: int) -> Claim: ...
    @overload
    def __getitem__(self, index: slice) -> ClaimColumns: ...
    def __getitem__(self, index: int | slice) -> Claim | ClaimColumns:
        if isinstance(index, slice):
            return ClaimColumns(self.keys[index], self.tokens[index])
        return Claim(self.keys[index], self.tokens[index].as_py())


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes(Sequence[Outcome], Generic[Outcome]):
    """Outcomes as a column of codes: `distinct[codes[i]]` is that of the claim or key with index i."""

    codes: npt.NDArray[np.intp]
    distinct: Sequence[Outcome]

    @staticmethod
    def of(outcomes: Iterable[Outcome]) -> Outcomes[Outcome]:
        """The same outcomes in a column."""
        each = list(outcomes)
        return Outcomes(np.arange(len(each)), each)

    def are(self, kind: type) -> npt.NDArray[np.bool_]:
        """By index: whether the outcome is of this kind."""
        return np.array([isinstance(one, kind) for one in self.distinct], bool)[self.codes]

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, index: int) -> Outcome: ...
    @overload
    def __getitem__(self, index: slice) -> Outcomes[Outcome]: ...
    def __getitem__(self, index: int | slice) -> Outcome | Outcomes[Outcome]:
        if isinstance(index, slice):
            return Outcomes(self.codes[index], self.distinct)
        return self.distinct[int(self.codes[index])]

    def __eq__(self, other: object) -> bool:
        """Whether the outcomes are equal one by one, to those of a list too."""
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"Outcomes({list(self)})"


_TEXTS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)


def _flat(name: str, column: Any, to: pa.DataType, length: int | None = None) -> Any:
    """A table's column as one array: in chunks, with a dictionary or with long offsets it may come, too.

    ValueError for one that could be misread: of another length, texts with a null, times in another unit.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not isinstance(array, pa.Array):
        array = pa.array(array)
    if length is not None and len(array) != length:
        raise ValueError(f"the column {name} has {len(array)} rows; expected {length}, as there are ids")
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if to == pa.int64():
        in_us = pa.types.is_timestamp(kind) and kind.unit == "us"
        if not (in_us or pa.types.is_integer(kind) or pa.types.is_null(kind)):
            raise ValueError(
                f"the column {name} is {array.type}; expected microseconds, as int64 or timestamp"
            )
    elif array.null_count:
        raise ValueError(f"the column {name} has {array.null_count} nulls; expected none")
    elif len(array) and not any(is_text(kind) for is_text in _TEXTS):
        raise ValueError(f"the column {name} is {array.type}; expected texts, or their UTF-8")
    return array if array.type == to else array.cast(to)


def _text_of(id_or_utf8: str | bytes) -> str:
    """The text of an id. ValueError, with the id, for bytes that are no UTF-8, as none in a log are."""
    if isinstance(id_or_utf8, str):
        return id_or_utf8
    try:
        return id_or_utf8.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise ValueError(f"the id {id_or_utf8!r} is no UTF-8: {error.reason}") from error


def _times_or_none(times_us: list[int | None]) -> Any:
    return pa.array(times_us, pa.int64()) if any(time_us is not None for time_us in times_us) else None


class IdRegistry(Protocol):
    """Ids of joined foreign events, each with the token of its one winner.

    Results come in the order of the arguments, as if claims came one after the other. An empty call asks
    nobody. Keys and claims in columns cost no Python object for each id: `KeyColumns`, `ClaimColumns`.
    """

    def lookup(self, keys: Sequence[EventKey]) -> Outcomes[LookupOutcome]:
        """Who holds each id now. RegistryUnavailable if that can't be known for all of them."""
        ...

    def commit(self, claims: Sequence[Claim]) -> Outcomes[CommitOutcome]:
        """Register each id for its token, if nobody holds it.

        Repeatable: a token that holds the id wins again. Once released, it never wins again: `Released`.
        Tokens of an epoch that is over are `Fenced`.
        A claim without an answer is `Unknown`: there is no RegistryUnavailable.
        """
        ...

    def release(self, claims: Sequence[Claim]) -> list[ReleaseOutcome]:
        """Make sure that each token does not hold its id, by a tombstone, never by a delete."""
        ...

    def clear(self, claims: Sequence[Claim]) -> int:
        """Shrink the value of ids whose row is in the output to the owner's name; how many changed.

        Each token must have a row for good. A token that was released is left alone, but a release at the
        same time as the clearing would not be seen.
        """
        ...
