"""The 128-bit hash of an event's id, by which ledgers know it. It is part of a stored format."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from itertools import pairwise

import numpy as np
import pyarrow as pa

from photon.registry.entry import NO_HASHES, Hashes

HASH_BYTES = 16


def hashes_of(ids: pa.Array | pa.ChunkedArray) -> Hashes:
    """The hash of each id, in order: of shape (n, 2). Ids are texts or their UTF-8, without nulls."""
    array = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
    if not len(array):
        return NO_HASHES
    array = array.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1].tolist()
    content = memoryview(data) if data is not None else memoryview(b"")
    digests = b"".join(
        blake2b(content[start:end], digest_size=HASH_BYTES).digest() for start, end in pairwise(bounds)
    )
    return np.frombuffer(digests, ">u8").astype(np.uint64).reshape(-1, 2)


def hashes_of_texts(ids: Iterable[str]) -> Hashes:
    """`hashes_of` of some texts. Half a surrogate pair, which is no UTF-8, is written as Python does."""
    return hashes_of(pa.array([one.encode("utf-8", "surrogatepass") for one in ids], pa.binary()))
