"""What lets a command that only asks answer at once. Most of its time is imports."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

# They neither run Spark nor a user's adapter, and end within seconds.
ASKING = ("hold", "metrics", "resume", "status", "trace")


def start_quickly() -> None:
    """Leave out what this process has no use for: collections of garbage, and pandas.

    pyarrow imports pandas with the first list that it is given, to see whether that is a frame: 0.25 of the
    0.95 s of `photon status`. A collection of garbage is 0.04 s, and imports cause three.
    """
    gc.disable()
    sys.meta_path.insert(0, _WithoutPandas())


class _WithoutPandas:
    """For this process there is no pandas."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("a command that only asks does without pandas", name=name)
        return None
