"""Readers of lines that name their own values: one by one here, quicker by a format's own reader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from photon.logs.lines import LineTexts


class LineReader(ABC):
    """The lines of one format. Each line means what `record` makes of it; the rest is only quicker."""

    @abstractmethod
    def record(self, raw: bytes) -> Mapping[str, str | None]:
        """The values of one line by key, as text; ValueError says why it is no record."""

    def value(self, record: Mapping[str, str | None], name: str) -> str | None:
        """A record's value of this name; None where it has none."""
        return record.get(name)

    def texts(
        self, raws: pa.Array, names: Sequence[str], valued: Collection[str] = (), data: bytes | None = None
    ) -> LineTexts:
        """The values of `names` in lines that are UTF-8, as strings.

        `valued`: of these only a number's value matters, not how it is written, and whole ones may come as
        int64. `data`: the lines joined, if they are at hand.
        """
        failures: dict[int, str] = {}
        values: list[list[str | None]] = [[] for _ in names]
        for row, raw in enumerate(raws.to_pylist()):
            try:
                record = self.record(raw)
            except ValueError as error:
                failures[row] = str(error)
                record = {}
            for name, column in zip(names, values, strict=True):
                column.append(self.value(record, name))
        return LineTexts(tuple(pa.array(column, pa.string()) for column in values), failures)

    def all_texts(self, raws: pa.Array) -> dict[str, pa.Array] | None:
        """All values of lines that are UTF-8, by key; None where they are to be read one by one."""
        return None
