"""Fields, which make up the binary form of entries: numbers, text, hashes, columns of claims.

A reader takes them in the order in which a writer put them; docs/ledger-format.md has each. No number that it
reads makes it take more memory than a few times the length of the value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from photon.registry.entry import Claimant, Claims, Hashes

HASH_BYTES = 16
CHECKSUM_BYTES = 16
MOST_TEXT_BYTES = 255  # a writer, a plan, or a datacenter, which pipelines limit to 63
MOST_CONTENT_BYTES = 2**20  # an entry bounds it sooner
_MOST_NUMBER_BYTES = 10  # 64 bits, seven to a byte
# Level 3 makes the columns of usual batches no smaller, and takes longer.
_LEVEL = 1
_LEAST_COMPRESSED_BYTES = 16  # no zstd frame is much shorter

Words = npt.NDArray[np.uint64]


class FieldsDamaged(Exception):
    """Bytes that no writer has written; the message says which were expected."""


def _codec() -> Any:
    """A codec for each writer and reader: one belongs to one thread."""
    return pa.Codec("zstd", compression_level=_LEVEL)


class FieldsWriter:
    """Collects the fields of an entry; `hashes` apart, since they can't be compressed."""

    def __init__(self) -> None:
        self.packed = bytearray()
        self.hashes: list[bytes] = []
        self._codec = _codec()

    def number(self, value: int, most: int, name: str) -> None:
        """A number from 0 to `most`. ValueError."""
        if not 0 <= value <= most:
            raise ValueError(f"{name} is {value}; an entry can hold 0 to {most}")
        while value > 127:
            self.packed.append(value & 127 | 128)
            value >>= 7
        self.packed.append(value)

    def signed(self, value: int, name: str) -> None:
        """A number of 64 bits with its sign. ValueError."""
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"{name} is {value}; an entry can hold -2^63 to 2^63 - 1")
        self.number(value * 2 if value >= 0 else -2 * value - 1, 2**64 - 1, name)

    def flag(self, value: bool) -> None:
        self.packed.append(int(value))

    def text(self, value: str, name: str) -> None:
        """Text of at most 255 bytes. ValueError."""
        content = value.encode()
        if len(content) > MOST_TEXT_BYTES:
            expected = f"expected at most {MOST_TEXT_BYTES}"
            raise ValueError(f"{name} has {len(content)} bytes, {expected}: {value[:40]}...")
        self.packed.append(len(content))
        self.packed += content

    def content(self, value: bytes) -> None:
        """Bytes, and how many."""
        self.number(len(value), MOST_CONTENT_BYTES, "the length of a release")
        self.packed += value

    def some_hashes(self, hashes: Hashes) -> None:
        """Hashes, and how many. ValueError."""
        if hashes.ndim != 2 or hashes.shape[1] != 2 or hashes.dtype != np.uint64:
            found = f"{hashes.dtype} of shape {hashes.shape}"
            raise ValueError(f"hashes are {found}; expected uint64 of shape (n, 2)")
        self.number(len(hashes), 2**32 - 1, "the number of hashes")
        self.hashes.append(hashes.astype("<u8").tobytes())

    def columns(self, claims: Claims) -> None:
        """Times and places of claims. ValueError."""
        _check_column("times", claims.times_us, np.int64, len(claims))
        _check_column("files", claims.files, np.uint32, len(claims))
        _check_column("offsets", claims.offsets_bytes, np.int64, len(claims))
        self._column(claims.times_us)
        self._column(claims.files.astype(np.int64))
        self._column(claims.offsets_bytes[_by_file(claims.files)])

    def _column(self, values: npt.NDArray[np.int64]) -> None:
        if not len(values):
            return
        self.signed(int(values[0]), "a value")
        words = values.view(np.uint64)
        steps = words[1:] - words[:-1]  # modulo 2^64, so that extremes come back too
        steps = steps << np.uint64(1) ^ -(steps >> np.uint64(63))  # small ones of either sign have few bytes
        width = (int(steps.max(initial=0)).bit_length() + 7) // 8
        self.packed.append(width)
        for plane in steps.astype("<u8").view(np.uint8).reshape(-1, 8).T[:width]:
            content = stored = plane.tobytes()
            if len(content) >= _LEAST_COMPRESSED_BYTES:
                stored = min(content, self._codec.compress(content, asbytes=True), key=len)
            self.number(len(stored), len(content), "the length of a plane")
            self.packed += stored


class FieldsReader:
    """Takes the fields of an entry one after another. Every method raises FieldsDamaged."""

    def __init__(self, packed: bytes, hashes: Hashes) -> None:
        self._packed, self._at = packed, 0
        self._hashes, self._hashes_at = hashes, 0
        self._codec = _codec()

    def end(self) -> None:
        """See that nothing is left."""
        if self._at != len(self._packed) or self._hashes_at != len(self._hashes):
            raise FieldsDamaged("it goes on behind its last part")

    def number(self, most: int, name: str) -> int:
        value = 0
        for place in range(_MOST_NUMBER_BYTES):
            (byte,) = self._take(1)
            value |= (byte & 127) << 7 * place
            if byte < 128:
                break
        else:
            raise FieldsDamaged(f"{name} is too long")
        if value > most:
            raise FieldsDamaged(f"{name} is {value}, expected at most {most}")
        return value

    def signed(self, name: str) -> int:
        value = self.number(2**64 - 1, name)
        return -(value + 1) // 2 if value % 2 else value // 2

    def flag(self) -> bool:
        return bool(self.number(1, "a flag"))

    def text(self, name: str) -> str:
        (length,) = self._take(1)
        try:
            return self._take(length).decode()
        except UnicodeDecodeError:
            raise FieldsDamaged(f"{name} is no UTF-8") from None

    def content(self) -> bytes:
        return self._take(self.number(MOST_CONTENT_BYTES, "the length of a release"))

    def some_hashes(self) -> Hashes:
        left = len(self._hashes) - self._hashes_at
        length = self.number(left, "the number of hashes")
        self._hashes_at += length
        return self._hashes[self._hashes_at - length : self._hashes_at]

    def columns(self, claimant: Claimant, hashes: Hashes) -> Claims:
        """The claims with these hashes."""
        times_us, numbers, sorted_bytes = (self._column(len(hashes)) for _ in range(3))
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < 2**32:
            raise FieldsDamaged("the number of a file is no number of 32 bits")
        files = numbers.astype(np.uint32)
        offsets_bytes = np.empty_like(sorted_bytes)
        offsets_bytes[_by_file(files)] = sorted_bytes
        return Claims(claimant, hashes, times_us, files, offsets_bytes)

    def _column(self, length: int) -> npt.NDArray[np.int64]:
        if not length:
            return np.empty(0, np.int64)
        first = self.signed("a value")
        (width,) = self._take(1)
        if width > 8:
            raise FieldsDamaged(f"numbers of {width} bytes, expected at most 8")
        planes = np.zeros((8, length - 1), np.uint8)
        for plane in planes[:width]:
            plane[:] = self._plane(length - 1)
        steps: Words = np.ascontiguousarray(planes.T).view("<u8").reshape(-1)
        values = np.empty(length, np.uint64)
        values[0] = first % 2**64
        values[1:] = steps >> np.uint64(1) ^ -(steps & np.uint64(1))
        return np.cumsum(values, dtype=np.uint64).view(np.int64)

    def _plane(self, length: int) -> npt.NDArray[np.uint8]:
        stored = self._take(self.number(length, "the length of a plane"))
        if len(stored) < length:
            try:
                stored = self._codec.decompress(stored, length, asbytes=True)  # neither more nor less
            except (OSError, ValueError) as error:
                raise FieldsDamaged(f"a column can't be decompressed: {error}") from None
        return np.frombuffer(stored, np.uint8)

    def _take(self, length: int) -> bytes:
        taken = self._packed[self._at : self._at + length]
        if len(taken) < length:
            raise FieldsDamaged("it ends within a field")
        self._at += length
        return taken


def _check_column(name: str, column: npt.NDArray[Any], dtype: npt.DTypeLike, length: int) -> None:
    if column.shape != (length,) or column.dtype != dtype:
        found = f"{column.dtype} of shape {column.shape}"
        raise ValueError(f"{name} of claims are {found}; expected {np.dtype(dtype)} of shape ({length},)")


def _by_file(files: npt.NDArray[np.uint32]) -> npt.NDArray[np.intp]:
    """The claims file by file, each in the order that they have: there offsets rise in small steps."""
    return np.argsort(files, kind="stable")
