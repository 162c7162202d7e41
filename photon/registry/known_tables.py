"""The tables that a register knows, beside those that are there (protocol B9); pure.

A datacenter that never ran has none. Of one whose lake was given up as lost nobody expects rows any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from photon.pipeline.location import Location
from photon.registry.register import Register

# There is no table; there is another one; nobody reads it, for the pipeline file lacks its datacenter.
Missing = Literal["gone", "another", "unnamed"]


@dataclass(frozen=True, slots=True)
class MissingTable:
    """A table whose rows would be missing: the id that the registry knows, and the one that is there."""

    datacenter: str
    why: Missing
    table_id: str
    found: str | None = None


def another_table(folder: Location, here: str | None, datacenter: str, known: str, file: Path) -> str:
    """Say that a table is not the one that the registry knows: one of the two is another pipeline's."""
    found = f"(id {here}) is not the one" if here else "is gone: the one"
    return (
        f"the table {folder} {found} that the registry knows of datacenter {datacenter} (id {known}): rows "
        "would be missing. If the lake folder was replaced, put it back; if `registry` leads to that of "
        f"another pipeline of the same name, mend it, or give this one a name of its own ({file})"
    )


def known_tables(register: Register) -> dict[str, str]:
    """The id of each datacenter's table of joined rows, where its rows count."""
    return {name: table_id for name, table_id in register.tables.items() if name not in register.lakes_gone}


def missing_tables(register: Register, found: Mapping[str, str | None]) -> list[MissingTable]:
    """Which known tables are not among those of the pipeline file's datacenters; None: one has no table.

    A datacenter that was given up and taken out of the file is no loss that anybody could mend. A table that
    lies under a datacenter's new name is read all the same.
    """
    missing: list[MissingTable] = []
    there = {table_id for table_id in found.values() if table_id is not None}
    for name, table_id in sorted(known_tables(register).items()):
        if table_id in there or (name not in found and name in register.given_up):
            continue
        if name not in found:
            missing.append(MissingTable(name, "unnamed", table_id))
        elif found[name] is None:
            missing.append(MissingTable(name, "gone", table_id))
        else:
            missing.append(MissingTable(name, "another", table_id, found[name]))
    return missing
