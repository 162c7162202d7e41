"""Readers of a simulated world (verification, traces, rebuilds, readers of rows) ask its ledgers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from unittest import mock

from photon import read
from photon.dispatcher.shift import people
from photon.read import counting
from photon.tracing import trace
from photon.upkeep import recovery
from photon.upkeep.backfill import rows_in_doubt
from photon.verification import scope

if TYPE_CHECKING:
    from tests.simulation.world import World

ASK_LEDGERS = (scope, trace, rows_in_doubt)
ASK_THE_REGISTER = (
    (read, "read_register"),
    (counting, "read_register"),
    (recovery, "read_register"),
    (trace, "_register_soon"),
    (people, "register_of"),
)


@contextmanager
def asking(world: World) -> Iterator[None]:
    """Have all readers in this block open a view of their own of the world's ledgers."""
    with ExitStack() as stack:
        for module in ASK_LEDGERS:
            opens = mock.patch.object(module, "open_reader", side_effect=lambda *_: world.reader())
            stack.enter_context(opens)
        for owner, name in ASK_THE_REGISTER:
            reads = mock.patch.object(owner, name, side_effect=lambda *_: world.reader().register)
            stack.enter_context(reads)
        yield
