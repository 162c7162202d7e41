"""The binary form of entries (docs/ledger-format.md): a header, the hashes as they are, fields, a checksum.

Equal entries have equal bytes. The form is little-endian and complete in itself, so that another language can
read it. A value is whole if it has its checksum; a value of a newer version is refused, never skipped (L14).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from photon.process.errors import FormatTooNew
from photon.registry.entry import (
    Claimant,
    Claims,
    Close,
    Entry,
    Epoch,
    Free,
    Genesis,
    Hashes,
    LedgerId,
    NumberedRelease,
)
from photon.registry.fields import CHECKSUM_BYTES, HASH_BYTES, FieldsDamaged, FieldsReader, FieldsWriter
from photon.registry.register import ENTRY_VERSION

# AWS bills a refused put and each ballot by the whole item, and one above 400 KB can't be stored at all.
MOST_ENTRY_BYTES = 120_000
# Left beside claims or frees: for names, and for the closes of a few batches in the same entry.
ROOM_BYTES = 8_000
# Ids that one entry frees: 3,733. Each may be named with a ledger and a position of its own, in 14 bytes.
MOST_FREES = (MOST_ENTRY_BYTES - ROOM_BYTES) // (HASH_BYTES + 14)
MOST_CLAIM_BYTES = HASH_BYTES + 20  # hash, time, place; columns that do not shrink are stored as they are
MOST_GENERATION = 2**31 - 1
MOST_LEDGER_NUMBER = 2**16 - 1
MOST_POSITION = 2**32 - 2  # the next value means in `holds` that nobody holds an id
MOST_PARTS = 10_000  # in an entry, or in a part: more would not fit, at twelve bytes each
MOST_NUMBER = 2**63 - 1

_MAGIC = b"PhLe"
# Magic, version, whether there is a predecessor, hashes, bytes of fields, the predecessor's checksum.
_HEADER = struct.Struct("<4sHHII16s")
_LEAST_BYTES = _HEADER.size + CHECKSUM_BYTES
_CLOSE_ENOUGH = 64  # so many claims that might still fit `cut` leaves to the next piece


class EntryDamaged(ValueError):
    """A value is no entry: bytes of it are missing or altered. Another copy may be whole."""


class EntryTooNew(FormatTooNew):
    """A newer Photon wrote an entry that this one would misread (L14)."""


class EntryTooLarge(ValueError):
    """An entry does not fit into a position: its claims or frees have to be cut."""


def checksum(value: bytes, where: str = "an entry") -> bytes:
    """The 16 bytes that the next entry names as its predecessor, of an entry of any version.

    EntryDamaged if the value does not have them. `where`: as a message shall name it.
    """
    _check_ends(value, where)
    found = _digest(value[:-CHECKSUM_BYTES])
    if found != value[-CHECKSUM_BYTES:]:
        raise EntryDamaged(f"{where} is damaged: its checksum does not agree")
    return found


def predecessor(value: bytes, where: str = "an entry") -> bytes:
    """The checksum of the entry before, as the header of a whole value names it; empty at position 0.

    EntryTooNew. EntryDamaged where the header can't be one: `checksum` finds all other damage.
    """
    _check_ends(value, where)
    _, version, follows, _, _, before = _HEADER.unpack_from(value)
    if version > ENTRY_VERSION:
        raise EntryTooNew(where, version, ENTRY_VERSION)
    if version < 1 or follows > 1 or (not follows and any(before)):
        raise EntryDamaged(f"{where} is damaged: its header is none of version {ENTRY_VERSION}")
    return bytes(before) if follows else b""


def encode(entry: Entry) -> bytes:
    """The bytes of an entry. EntryTooLarge; ValueError for what the form can't hold."""
    if len(entry.predecessor) not in (0, CHECKSUM_BYTES):
        expected = f"expected none or {CHECKSUM_BYTES}"
        raise ValueError(f"the predecessor's checksum has {len(entry.predecessor)} bytes, {expected}")
    fields = FieldsWriter()
    fields.text(entry.writer, "the writer")
    _write_parts(fields, entry)
    hashes, packed = b"".join(fields.hashes), bytes(fields.packed)
    follows = int(bool(entry.predecessor))
    counts = (len(hashes) // HASH_BYTES, len(packed))
    value = _HEADER.pack(_MAGIC, ENTRY_VERSION, follows, *counts, entry.predecessor) + hashes + packed
    if len(value) + CHECKSUM_BYTES > MOST_ENTRY_BYTES:
        found = f"an entry of {len(value) + CHECKSUM_BYTES} bytes; expected at most {MOST_ENTRY_BYTES}"
        raise EntryTooLarge(f"{found}: cut its claims, or free ids in several entries")
    return value + _digest(value)


def decode(value: bytes, where: str = "an entry") -> Entry:
    """The inverse of `encode`; its arrays can't be written to. EntryDamaged, EntryTooNew."""
    checksum(value, where)
    before = predecessor(value, where)
    *_, hashes, length_bytes, _ = _HEADER.unpack_from(value)
    start = _HEADER.size + HASH_BYTES * hashes
    if len(value) != start + length_bytes + CHECKSUM_BYTES:
        raise EntryDamaged(f"{where} is damaged: its {len(value)} bytes are not those that its header counts")
    of_hashes: Hashes = np.frombuffer(value, "<u8", 2 * hashes, _HEADER.size).reshape(hashes, 2)
    fields = FieldsReader(value[start:-CHECKSUM_BYTES], of_hashes)
    try:
        writer = fields.text("the writer")
        parts = _read_parts(fields, where)
        fields.end()
    except FieldsDamaged as error:
        raise EntryDamaged(f"{where} is damaged: {error}") from None
    return Entry(writer, before, **parts)


def cut(claims: Claims) -> Iterator[Claims]:
    """The claims in as few pieces as go into entries, in their order: an entry has room for one of them.

    A piece is looked for when it is asked for.
    """
    while len(claims):
        length = _fitting(claims)
        yield claims.take(slice(0, length))
        claims = claims.take(slice(length, None))


def _fitting(claims: Claims) -> int:
    """How many claims, from the first on, go into one entry: the most, or a few less."""
    room_bytes = MOST_ENTRY_BYTES - ROOM_BYTES
    fit, too_many = room_bytes // MOST_CLAIM_BYTES, room_bytes // HASH_BYTES + 1
    if len(claims) <= fit:
        return len(claims)
    if len(claims) < too_many:
        if _size_bytes(claims) <= room_bytes:
            return len(claims)
        too_many = len(claims)
    while too_many - fit > _CLOSE_ENOUGH:
        middle = (fit + too_many) // 2
        if _size_bytes(claims.take(slice(0, middle))) <= room_bytes:
            fit = middle
        else:
            too_many = middle
    return fit


def _size_bytes(claims: Claims) -> int:
    fields = FieldsWriter()
    fields.columns(claims)
    return len(fields.packed) + HASH_BYTES * len(claims)


def _check_ends(value: bytes, where: str) -> None:
    """See that a value has what every version has: the magic, and room for a checksum."""
    if len(value) < _LEAST_BYTES:
        expected = f"expected at least {_LEAST_BYTES}"
        raise EntryDamaged(f"{where} is damaged: it has {len(value)} bytes, {expected}")
    if value[: len(_MAGIC)] != _MAGIC:
        raise EntryDamaged(f"{where} is damaged: it begins with {value[:4]!r}, expected {_MAGIC!r}")


def _digest(value: bytes) -> bytes:
    return blake2b(value, digest_size=CHECKSUM_BYTES).digest()


# -- parts


def _write_parts(fields: FieldsWriter, entry: Entry) -> None:
    parts = [(kind, each) for kind, part in _PARTS.items() for each in part.of(entry)]
    fields.number(len(parts), MOST_PARTS, "the number of parts")
    for kind, value in parts:
        fields.number(kind, len(_PARTS), "a part's kind")
        _PARTS[kind].form.write(fields, value)


def _read_parts(fields: FieldsReader, where: str) -> dict[str, Any]:
    """The fields of an entry that its parts make, by name."""
    found: dict[str, Any] = {}
    last = 0
    for _ in range(fields.number(MOST_PARTS, "the number of parts")):
        kind = fields.number(MOST_NUMBER, "a part's kind")
        if kind > len(_PARTS):
            raise EntryTooNew(f"a part of {where}", kind, len(_PARTS))
        if kind < last or not kind or (kind == last and not _PARTS[kind].repeats):
            raise FieldsDamaged(f"a part of kind {kind} follows one of kind {last}")
        last, part = kind, _PARTS[kind]
        if part.repeats:
            found.setdefault(part.name, []).append(part.form.read(fields))
        else:
            found[part.name] = part.form.read(fields)
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}


class _Form(NamedTuple):
    """How a value is written as fields, and read again."""

    write: Callable[[FieldsWriter, Any], None]
    read: Callable[[FieldsReader], Any]


def _number(most: int, name: str) -> _Form:
    return _Form(
        lambda fields, value: fields.number(value, most, name), lambda fields: fields.number(most, name)
    )


def _text(name: str) -> _Form:
    return _Form(lambda fields, value: fields.text(value, name), lambda fields: fields.text(name))


def _list(form: _Form, name: str) -> _Form:
    """How many there are, and each of them; a tuple."""

    def write(fields: FieldsWriter, values: Collection[Any]) -> None:
        fields.number(len(values), MOST_PARTS, name)
        for value in values:
            form.write(fields, value)

    def read(fields: FieldsReader) -> tuple[Any, ...]:
        return tuple(form.read(fields) for _ in range(fields.number(MOST_PARTS, name)))

    return _Form(write, read)


def _record(make: Callable[..., Any], **forms: _Form) -> _Form:
    """The attributes of a value in this order."""

    def write(fields: FieldsWriter, value: Any) -> None:
        for name, form in forms.items():
            form.write(fields, getattr(value, name))

    return _Form(write, lambda fields: make(**{name: form.read(fields) for name, form in forms.items()}))


def _write_void(fields: FieldsWriter, void: Mapping[str, int]) -> None:
    _EPOCHS.write(fields, [Epoch(*one) for one in sorted(void.items())])


def _read_void(fields: FieldsReader) -> dict[str, int]:
    epochs = _EPOCHS.read(fields)
    void = dict(epochs)
    if [epoch.datacenter for epoch in epochs] != sorted(void):
        raise FieldsDamaged("its void epochs are not sorted by datacenter")
    return void


def _write_claims(fields: FieldsWriter, claims: Claims) -> None:
    _CLAIMANT.write(fields, claims.claimant)
    fields.some_hashes(claims.hashes)
    fields.columns(claims)


def _read_claims(fields: FieldsReader) -> Claims:
    return fields.columns(_CLAIMANT.read(fields), fields.some_hashes())


_FLAG = _Form(FieldsWriter.flag, FieldsReader.flag)
_HASHES = _Form(FieldsWriter.some_hashes, FieldsReader.some_hashes)
_BOUNDARY = _Form(
    lambda fields, value: fields.signed(value, "the boundary"), lambda fields: fields.signed("the boundary")
)
_NONE = _Form(lambda fields, value: None, lambda fields: True)  # that the part is there says all
_EPOCH = _record(Epoch, datacenter=_text("the datacenter"), number=_number(MOST_NUMBER, "an epoch's number"))
_EPOCHS = _list(_EPOCH, "the number of void epochs")
_LEDGER = _record(
    LedgerId,
    generation=_number(MOST_GENERATION, "a generation"),
    number=_number(MOST_LEDGER_NUMBER, "a ledger's number"),
)
_CLAIMANT = _record(Claimant, epoch=_EPOCH, batch=_number(MOST_NUMBER, "a batch"), plan=_text("the plan"))
_FREE = _record(Free, ledger=_LEDGER, position=_number(MOST_POSITION, "a position"), hashes=_HASHES)
_CLOSE = _record(
    Close,
    epoch=_EPOCH,
    through=_number(MOST_NUMBER, "the batch that is closed through"),
    is_part=_FLAG,
    frees_all=_FLAG,
    frees=_list(_FREE, "the number of frees"),
)
_GENESIS = _record(
    Genesis,
    ledgers=_number(MOST_LEDGER_NUMBER, "the number of ledgers"),
    parents=_list(_LEDGER, "the number of parents"),
    boundary_us=_BOUNDARY,
    void=_Form(_write_void, _read_void),
)
_CONTENT = _Form(FieldsWriter.content, FieldsReader.content)
_RELEASE = _record(NumberedRelease, number=_number(MOST_NUMBER, "a release's number"), content=_CONTENT)


class _Part(NamedTuple):
    """A kind of part: the entry's field that it is in, and its form."""

    name: str
    form: _Form
    repeats: bool = False

    def of(self, entry: Entry) -> tuple[Any, ...]:
        """The parts of this kind that an entry has."""
        value = getattr(entry, self.name)
        if self.repeats:
            return tuple(value)
        return () if value is None or value is False else (value,)


# The kinds, in the order in which parts count. A new kind needs a new version of the form.
_PARTS = {
    1: _Part("genesis", _GENESIS),
    2: _Part("boundary_us", _BOUNDARY),
    3: _Part("closes", _CLOSE, repeats=True),
    4: _Part("frees", _FREE, repeats=True),
    5: _Part("claims", _Form(_write_claims, _read_claims)),
    6: _Part("are_joins", _NONE),
    7: _Part("release", _RELEASE),
    8: _Part("seals", _NONE),
}
