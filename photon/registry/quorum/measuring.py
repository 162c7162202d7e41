"""How long calls of a registry take, and how many ids they leave without an answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from photon.clock import MICROSECONDS, Clock
from photon.ledger.errors import RegistryUnavailable
from photon.measures import Meter

Call = Literal["lookup", "commit"]


@contextmanager
def measuring(meter: Meter, clock: Clock, call: Call, ids: int) -> Iterator[None]:
    """Count and time what is done inside; a call that raises RegistryUnavailable leaves all its ids open."""
    began_us = clock.elapsed_us()
    meter.count("registry_ids", call, by=ids)
    try:
        yield
    except RegistryUnavailable:
        meter.count("registry_unanswered_ids", call, by=ids)
        raise
    finally:
        seconds = (clock.elapsed_us() - began_us) / MICROSECONDS
        meter.time("registry_call_seconds", call, seconds=seconds)
