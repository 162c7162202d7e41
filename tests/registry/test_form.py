"""The form of entries: they come back as they were, damage and newer versions are refused, and pieces fit."""

from __future__ import annotations

import random
from dataclasses import replace
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from photon.registry.entry import (
    FOR_EVER,
    NO_HASHES,
    Claimant,
    Claims,
    Close,
    Entry,
    Epoch,
    Free,
    Genesis,
    LedgerId,
    NumberedRelease,
)
from photon.registry.form import (
    MOST_ENTRY_BYTES,
    MOST_FREES,
    ROOM_BYTES,
    EntryDamaged,
    EntryTooLarge,
    EntryTooNew,
    checksum,
    cut,
    decode,
    encode,
    predecessor,
)
from tests.registry.entries import ENTRIES, same, usual_claims
from tests.registry.in_memory import claims_of, hashes_of

NORTH, SOUTH = Epoch("north", 3), Epoch("süd", 1)
BEFORE = bytes(range(16))
PLAN = Claimant(NORTH, 17, "p1")
# Has every kind of part, and columns that are compressed.
SAMPLE = Entry(
    "north-3-a",
    BEFORE,
    Genesis(3, (LedgerId(0, 0), LedgerId(0, 1)), 1_000, {"south": 4, "north": 2}),
    2_000,
    (Close(SOUTH, FOR_EVER, frees_all=True), Close(NORTH, 16, (Free(LedgerId(1, 0), 7, hashes_of(1, 2)),))),
    (Free(LedgerId(0, 1), 9, hashes_of(3)),),
    claims_of(PLAN, *range(10, 60), time_us=5_000),
    are_joins=True,
    release=NumberedRelease(4_096, b'{"parts": {}}'),
    seals=True,
)
SIGNED_BYTES = 16


def signed(content: bytes) -> bytes:
    """A value with this content and a checksum that agrees."""
    return content + blake2b(content, digest_size=SIGNED_BYTES).digest()


def changed(value: bytes, at: int, new: bytes) -> bytes:
    """The value with other bytes at one place and a checksum that agrees."""
    content = value[:-SIGNED_BYTES]
    return signed(content[:at] + new + content[at + len(new) :])


# -- what comes back


@given(ENTRIES)
def test_any_entry_comes_back_as_it_was(entry: Entry) -> None:
    assert same(decode(encode(entry)), entry)


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_a_usual_batch_comes_back_as_it_was(is_shuffled: bool) -> None:
    entry = Entry("w", BEFORE, claims=usual_claims(4_000, seed=5, is_shuffled=is_shuffled))
    assert same(decode(encode(entry)), entry)


def test_equal_entries_have_equal_bytes_whatever_the_order_of_a_mapping() -> None:
    one = Entry("w", genesis=Genesis(void={"a": 1, "b": 2}))
    other = Entry("w", genesis=Genesis(void={"b": 2, "a": 1}))
    assert encode(one) == encode(other)


def test_arrays_that_lie_otherwise_in_memory_have_equal_bytes() -> None:
    claims = usual_claims(100, seed=3)
    strided = Claims(
        claims.claimant,
        np.asfortranarray(claims.hashes),
        np.repeat(claims.times_us, 2)[::2],
        np.repeat(claims.files, 2)[::2],
        np.repeat(claims.offsets_bytes, 2)[::2],
    )
    assert encode(Entry("w", claims=strided)) == encode(Entry("w", claims=claims))


def test_the_form_is_the_documented_one() -> None:
    """Another result needs another version, and a change of docs/ledger-format.md."""
    claims = Claims(
        Claimant(Epoch("n", 2), 300, "p"),
        np.array([[1, 2], [3, 2**64 - 1]], np.uint64),
        np.array([1_000, 999], np.int64),
        np.array([5, 4], np.uint32),
        np.array([70, 90], np.int64),
    )
    entry = Entry("w", BEFORE, closes=(Close(Epoch("n", 2), 299),), claims=claims, seals=True)
    entry = replace(entry, release=NumberedRelease(300, b"{}"))
    header = b"PhLe" + bytes.fromhex("0100 0100 02000000 2a000000") + BEFORE
    first, second = bytes([1] + [0] * 7 + [2] + [0] * 7), bytes([3] + [0] * 7 + [255] * 8)
    fields = b"\1w\4" + b"\3\1n\2\xab\2\0\0\0" + b"\5\1n\2\xac\2\1p\2"
    columns = b"\xd0\x0f\1\1\1" + b"\x0a\1\1\1" + b"\xb4\1\1\1\x27"
    assert encode(entry) == signed(header + first + second + fields + columns + b"\7\xac\2\2{}" + b"\10")


# -- how large it is


@pytest.mark.parametrize(("is_shuffled", "most"), [(False, 21), (True, 23)])
def test_a_claim_takes_little_more_than_its_hash(is_shuffled: bool, most: float) -> None:
    claims = usual_claims(5_000, seed=1, is_shuffled=is_shuffled)
    assert len(encode(Entry("w", BEFORE, claims=claims))) < most * 5_000


@pytest.mark.parametrize("length", [0, 1, 3_000, 6_000, 20_000])
@pytest.mark.parametrize("is_shuffled", [False, True])
def test_cut_claims_fit_into_entries_and_are_all_the_claims(length: int, is_shuffled: bool) -> None:
    claims = usual_claims(length, seed=length, is_shuffled=is_shuffled)
    pieces = list(cut(claims))
    sizes = [len(encode(Entry("w", BEFORE, claims=piece))) for piece in pieces]
    assert max(sizes, default=0) <= MOST_ENTRY_BYTES - ROOM_BYTES + 500
    for name in ("hashes", "times_us", "files", "offsets_bytes"):
        parts = [getattr(piece, name) for piece in pieces]
        assert np.array_equal(np.concatenate([getattr(claims, name)[:0], *parts]), getattr(claims, name))


def test_claims_are_cut_into_few_pieces() -> None:
    pieces = list(cut(usual_claims(50_000, seed=2)))
    sizes = [len(encode(Entry("w", BEFORE, claims=piece))) for piece in pieces]
    assert min(sizes[:-1]) > 0.98 * (MOST_ENTRY_BYTES - ROOM_BYTES)


def test_claims_that_can_not_be_compressed_are_cut_so_that_they_fit() -> None:
    rng = np.random.default_rng(4)
    wide = (rng.integers(-(2**63), 2**63 - 1, 9_000) for _ in range(2))
    files = rng.integers(0, 2**32, 9_000, dtype=np.uint32)
    claims = Claims(PLAN, rng.integers(0, 2**64, (9_000, 2), dtype=np.uint64), next(wide), files, next(wide))
    assert [len(encode(Entry("w", claims=piece))) <= MOST_ENTRY_BYTES for piece in cut(claims)] == [True] * 3


def test_an_entry_has_room_for_the_most_ids_that_one_may_free() -> None:
    ledger, position = LedgerId(2**31 - 1, 2**16 - 1), 2**32 - 2
    by_one = tuple(Free(ledger, position, hashes_of(number)) for number in range(MOST_FREES))
    at_once = (Free(ledger, position, hashes_of(*range(MOST_FREES))),)
    for frees in (by_one, at_once):
        encode(Entry("w" * 255, BEFORE, closes=(Close(Epoch("d" * 255, 2**63 - 1), FOR_EVER, frees),)))


def test_a_piece_is_looked_for_when_it_is_asked_for() -> None:
    """An append asks for one piece of what is left, each time."""
    claims = usual_claims(20_000, seed=6)
    assert same(next(cut(claims)), next(cut(claims.take(slice(0, 8_000)))))


# -- what it can't hold


def test_an_entry_that_is_too_large_is_refused_with_its_size() -> None:
    with pytest.raises(EntryTooLarge, match=r"an entry of \d+ bytes; expected at most 120000"):
        encode(Entry("w", claims=usual_claims(8_000, seed=1)))


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (Entry("w", b"short"), "checksum has 5 bytes, expected none or 16"),
        (Entry("w" * 256), "the writer has 256 bytes, expected at most 255"),
        (Entry("w", closes=(Close(Epoch("a", -1), 1),)), "an epoch's number is -1; an entry can hold 0 to"),
        (Entry("w", closes=(Close(Epoch("a", 1), 2**63),)), "the batch that is closed through is"),
        (Entry("w", boundary_us=2**63), "the boundary is 9223372036854775808; an entry can hold -2"),
        (Entry("w", frees=(Free(LedgerId(0, 0), 2**32 - 1, NO_HASHES),)), "a position is 4294967295"),
        (Entry("w", frees=(Free(LedgerId(0, 2**16), 0, NO_HASHES),)), "a ledger's number is 65536"),
        (Entry("w", frees=(Free(LedgerId(0, 0), 0, np.empty(3, np.uint64)),)), "expected uint64 of shape"),
        (Entry("w", claims=replace(claims_of(PLAN, 1), files=np.zeros(2, np.uint32))), "files of claims are"),
        (Entry("w", claims=replace(claims_of(PLAN, 1), times_us=np.zeros(1))), "expected int64 of shape"),
    ],
)
def test_what_an_entry_can_not_hold_is_named(entry: Entry, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        encode(entry)


# -- chains


def test_a_value_names_the_checksum_of_the_one_before() -> None:
    first = encode(Entry("w"))
    second = encode(Entry("w", checksum(first)))
    assert (predecessor(first), predecessor(second)) == (b"", first[-16:])


# -- damage


def test_every_flipped_byte_is_noticed() -> None:
    value = encode(SAMPLE)
    for at in range(len(value)):
        with pytest.raises(EntryDamaged):
            decode(value[:at] + bytes([value[at] ^ 1 << at % 8]) + value[at + 1 :])


def test_every_missing_end_is_noticed() -> None:
    value = encode(SAMPLE)
    for length in range(len(value)):
        with pytest.raises(EntryDamaged):
            decode(value[:length])


def test_a_checksum_is_refused_where_it_does_not_agree() -> None:
    value = encode(SAMPLE)
    with pytest.raises(
        EntryDamaged, match="position 3 of ledger 0-1 is damaged: its checksum does not agree"
    ):
        checksum(value[:-1] + bytes([value[-1] ^ 1]), "position 3 of ledger 0-1")


def is_refused_or_an_entry(value: bytes) -> bool:
    """Decode a value, and say whether it is refused; if not, it can be encoded again. Other errors pass."""
    try:
        decoded = decode(value)
    except (EntryDamaged, EntryTooNew):
        return True
    assert same(decode(encode(decoded)), decoded)
    return False


def test_a_sum_over_an_entry_cut_short_helps_nobody() -> None:
    content = encode(SAMPLE)[:-SIGNED_BYTES]
    assert all(is_refused_or_an_entry(signed(content[:length])) for length in range(len(content)))


def test_nonsense_with_a_checksum_that_agrees_raises_nothing_else() -> None:
    value = encode(SAMPLE)
    draw = random.Random(8)
    flipped = [(at, bytes([value[at] ^ 1 << draw.randrange(8)])) for at in range(len(value) - 16)]
    others = [(draw.randrange(len(value) - 24), draw.randbytes(8)) for _ in range(400)]
    refused = [is_refused_or_an_entry(changed(value, at, new)) for at, new in flipped + others]
    assert sum(refused) > len(refused) // 20  # most of the others change a hash, a time or a name


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (b"\1w\1\0", "a part of kind 0 follows one of kind 0"),
        (b"\1w\2\10\10", "a part of kind 8 follows one of kind 8"),
        (b"\1w\2\10\2\0", "a part of kind 2 follows one of kind 8"),
        (b"\1w\0\0", "it goes on behind its last part"),
        (b"\1w\1", "it ends within a field"),
        (b"\1\xff\0", "the writer is no UTF-8"),
        (b"\1w" + b"\x80" * 10, "the number of parts is too long"),
        (b"\1w\1\3\1n\1\1\2\0\0", "a flag is 2, expected at most 1"),
        (b"\1w\1\1\1\0\0\2\1b\1\1a\1", "its void epochs are not sorted"),
        (b"\1w\1\4\0\0\0\2", "the number of hashes is 2, expected at most 1"),
        (b"\1w\1\5\1n\1\1\1p\1\0\0\1\0\0\0", "the number of a file is no number of 32 bits"),
        (b"\1w\1\5\1n\1\1\1p\1\0\x09", "numbers of 9 bytes, expected at most 8"),
    ],
)
def test_nonsense_is_told_by_what_was_expected(fields: bytes, says: str) -> None:
    header = b"PhLe" + bytes.fromhex("0100 0000 01000000") + len(fields).to_bytes(4, "little") + bytes(16)
    with pytest.raises(EntryDamaged, match=f"position 3 of ledger 0-1 is damaged: .*{says}"):
        decode(signed(header + bytes(16) + fields), "position 3 of ledger 0-1")


@pytest.mark.parametrize("length", [0, 38, 40, 5_000])
def test_a_plane_of_another_length_than_its_column_is_refused(length: int) -> None:
    frame = pa.Codec("zstd").compress(bytes(length), asbytes=True)
    fields = b"\1w\1\5\1n\1\1\1p\x28" + b"\0\1" + bytes([len(frame)]) + frame
    header = b"PhLe" + bytes.fromhex("0100 0000 28000000") + len(fields).to_bytes(4, "little") + bytes(16)
    with pytest.raises(EntryDamaged, match="a column can't be decompressed"):
        decode(signed(header + bytes(16 * 40) + fields))


@pytest.mark.parametrize("header", ["0100 0200", "0100 0000"])
def test_a_header_that_no_writer_writes_is_refused(header: str) -> None:
    """Such headers name a third kind of predecessor, or no predecessor beside the checksum of one."""
    with pytest.raises(EntryDamaged, match="its header is none of version 1"):
        decode(changed(encode(SAMPLE), 4, bytes.fromhex(header)))


# -- newer versions


@pytest.mark.parametrize("version", [2, 3, 2**16 - 1])
def test_a_newer_version_is_refused_but_has_a_checksum(version: int) -> None:
    newer = changed(encode(SAMPLE), 4, version.to_bytes(2, "little"))
    assert checksum(newer) == newer[-16:]
    for look in (predecessor, decode):
        with pytest.raises(EntryTooNew, match=f"position 5 has format {version}, this Photon knows up to 1"):
            look(newer, "position 5")


@pytest.mark.parametrize("kind", [9, 100])
def test_an_unknown_kind_of_part_is_refused(kind: int) -> None:
    fields = b"\1w\1" + bytes([kind])
    header = b"PhLe" + bytes.fromhex("0100 0000 00000000") + len(fields).to_bytes(4, "little") + bytes(16)
    with pytest.raises(
        EntryTooNew, match=f"a part of position 5 has format {kind}, this Photon knows up to 8"
    ):
        decode(signed(header + fields), "position 5")


def test_version_0_was_never_written() -> None:
    with pytest.raises(EntryDamaged):
        decode(changed(encode(SAMPLE), 4, bytes(2)))
