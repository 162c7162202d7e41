"""Calling of adapters: finding the user's own, checking what it returns, isolating the events it fails on.

The adapter interface itself is `photon.adapters`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from photon.adapters import Adapter


class AdapterNotFound(Exception):
    """The pipeline's `adapter` can't be had; the message says why and what was expected."""


@dataclass(frozen=True)
class Combined:
    """What became of pairs; every row index is in exactly one of `kept`, `filtered` and `failures`."""

    table: pa.Table  # one row for each of `kept`, in order
    kept: list[int]
    filtered: list[int]
    failures: dict[int, str] = field(default_factory=dict)  # reason by row


@dataclass(frozen=True)
class Skipped:
    """Which foreign events are passed over: every row is passed over, failed, or to be looked up."""

    rows: list[int]
    failures: dict[int, str] = field(default_factory=dict)


def load_adapter(spec: str, folder: Path | None = None) -> Adapter:
    """The adapter `module:attribute`; `folder` (the pipeline file's) is searched first. AdapterNotFound."""
    raise NotImplementedError


def combine_isolating_failures(adapter: Adapter, foreign: pa.Table, primary: pa.Table) -> Combined:
    """Combine row-aligned pairs; where the adapter raises, halve until only the bad pairs are left out."""
    raise NotImplementedError


def skip_isolating_failures(adapter: Adapter, foreign: pa.Table) -> Skipped:
    """Ask the adapter which events to pass over; where it raises, halve as above."""
    raise NotImplementedError
