"""The 64-bit hash of event ids, which index segments store and by which waiting foreign events wake.

It is part of a stored format: other results need a new version of the segments. Collisions do no harm.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from xxhash import xxh3_64_intdigest

Hashes = npt.NDArray[np.uint64]

WORD_BYTES = 8
LONGEST_VECTOR_WORDS = 32  # a loop over the words of a longer id would cost more than blake2b
CHUNK_IDS = 65_536  # bounds the scratch memory: 256 bytes and 256 positions of 8 bytes an id at most
_SEED = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)  # the constants of splitmix64 (Steele, Lea, Flood 2014)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def hash_ids(ids: pa.Array | pa.ChunkedArray | Sequence[str]) -> Hashes:
    """The hash of each id, uint64, in order. Ids are text without nulls; equal ids hash equally for ever."""
    if isinstance(ids, pa.ChunkedArray):
        parts = [hash_ids(chunk) for chunk in ids.chunks]
        return np.concatenate(parts) if parts else np.empty(0, np.uint64)
    array = ids if isinstance(ids, pa.Array) else pa.array(ids, pa.large_string())
    array = array.cast(pa.large_string())
    chunks = [_hash_chunk(array[at : at + CHUNK_IDS]) for at in range(0, len(array), CHUNK_IDS)]
    return np.concatenate(chunks) if chunks else np.empty(0, np.uint64)


def digests_of(lines: pa.Array | pa.ChunkedArray) -> Hashes:
    """The digest of each line (XXH3), by which other content of an id is told from a copy: no safeguard."""
    objects = lines.to_numpy(zero_copy_only=False) if len(lines) else ()  # a third less than `to_pylist`
    return np.fromiter(map(xxh3_64_intdigest, objects), np.uint64, len(lines))


def _hash_chunk(array: pa.LargeStringArray) -> Hashes:
    _, offset_buffer, data_buffer = array.buffers()
    bounds = np.frombuffer(offset_buffer, np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    starts, lengths = bounds[:-1], np.diff(bounds)
    words = (lengths + WORD_BYTES - 1) // WORD_BYTES
    hashes = np.empty(len(array), np.uint64)
    for count in np.unique(words):
        rows = np.flatnonzero(words == count)
        if count > LONGEST_VECTOR_WORDS:
            ends = starts[rows] + lengths[rows]
            hashes[rows] = [_hash_long(data[a:b].tobytes()) for a, b in zip(starts[rows], ends, strict=True)]
        else:
            hashes[rows] = _hash_words(data, starts[rows], lengths[rows], int(count))
    return hashes


def _hash_words(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], count: int
) -> Hashes:
    """Hashes of ids that take `count` words each, the last one padded with zeros."""
    hashes = _mix(lengths.astype(np.uint64) * _SEED)
    if count == 0:
        return hashes
    for word in np.ascontiguousarray(_padded(data, starts, lengths, count)).view("<u8").T:
        hashes = _mix((hashes ^ word) + _SEED)
    return hashes


def _padded(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], count: int
) -> npt.NDArray[np.uint8]:
    """The bytes of each id in a row of so many words."""
    first, length = int(starts[0]), int(lengths[0])
    if (lengths == length).all() and int(starts[-1]) == first + (len(starts) - 1) * length:
        # As long as each other and in a row, as ids mostly are: no byte is looked up by itself.
        padded = np.zeros((len(starts), count * WORD_BYTES), np.uint8)
        padded[:, :length] = data[first : first + len(starts) * length].reshape(-1, length)
        return padded
    columns = np.arange(count * WORD_BYTES)
    positions = np.minimum(starts[:, None] + columns, len(data) - 1)
    return np.where(columns < lengths[:, None], data[positions], np.uint8(0))


def _mix(values: Hashes) -> Hashes:
    values = (values ^ (values >> np.uint64(30))) * _MIX_1
    values = (values ^ (values >> np.uint64(27))) * _MIX_2
    return values ^ (values >> np.uint64(31))


def _hash_long(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
