"""Documents in a lake, beside its tables: each is JSON with the number of its format, and is put anew."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from photon.pipeline.location import Location
from photon.process.errors import FormatTooNew
from photon.storage.store import content, store_of


@dataclass(frozen=True)
class LakeDocument:
    """A document of a lake, by its name, in the newest format that this Photon knows."""

    name: str
    format: int

    def put(self, lake: Location, fields: Mapping[str, object]) -> None:
        """Put it in the place of what was there before. OSError."""
        document = {"format": self.format, **fields}
        store_of(lake).put(self.name, content(json.dumps(document).encode()))

    def read(self, lake: Location) -> dict[str, Any] | None:
        """Its fields; None where there is none.

        OSError, FormatTooNew; ValueError, KeyError or TypeError if it is no such document.
        """
        try:
            document: dict[str, Any] = json.loads(store_of(lake).read(self.name))
        except FileNotFoundError:
            return None
        if document["format"] > self.format:
            raise FormatTooNew(lake / self.name, document["format"], self.format)
        return document
