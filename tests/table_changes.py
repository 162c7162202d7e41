"""Change a table of Photon's as people's own tools do: other protocol, properties or columns.

The commits follow Delta's protocol by hand, since delta-rs makes few of these changes itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PLAIN = ("appendOnly", "invariants")
OF_READERS = ("deletionVectors", "v2Checkpoint", "typeWidening", "vacuumProtocolCheck", "timestampNtz")


def feature(*names: str, reader: int | None = None) -> dict[str, Any]:
    """A protocol with these table features, as Spark writes it."""
    read = [name for name in names if name in OF_READERS]
    told: dict[str, Any] = {"minReaderVersion": reader or (3 if read else 1), "minWriterVersion": 7}
    return {**told, **({"readerFeatures": read} if read else {}), "writerFeatures": [*PLAIN, *names]}


def change(
    folder: Path,
    protocol: Mapping[str, Any] | None = None,
    properties: Mapping[str, str] | None = None,
    columns: Sequence[Mapping[str, Any]] = (),
    columns_said: Mapping[str, Mapping[str, Any]] | None = None,
    partitions: Sequence[str] | None = None,
) -> int:
    """Commit a change of a table, and return its version. `columns_said`: changes of some columns."""
    version = last_version(folder) + 1
    metadata = _metadata(folder)
    schema = json.loads(metadata["schemaString"])
    fields = [{**field, **(columns_said or {}).get(field["name"], {})} for field in schema["fields"]]
    fields += [{"nullable": True, "metadata": {}, **column} for column in columns]
    metadata["schemaString"] = json.dumps({**schema, "fields": fields})
    metadata["configuration"] |= properties or {}
    if partitions is not None:
        metadata["partitionColumns"] = list(partitions)
    actions = [{"protocol": protocol}] if protocol is not None else []
    commit(folder, [*actions, {"metaData": metadata}])
    return version


def commit(folder: Path, actions: Sequence[Mapping[str, Any]]) -> None:
    """Add an entry with these actions to a table's log."""
    path = folder / "_delta_log" / f"{last_version(folder) + 1:020d}.json"
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))


def last_version(folder: Path) -> int:
    return max(int(path.stem) for path in (folder / "_delta_log").glob("*.json"))


def _metadata(folder: Path) -> dict[str, Any]:
    found = {}
    for path in sorted((folder / "_delta_log").glob("*.json")):
        for action in map(json.loads, path.read_text().splitlines()):
            found = action.get("metaData", found)
    return found


def map_columns(folder: Path, new: str | None = None) -> int:
    """Map column names, as `ALTER TABLE` does; with a new column, whose values lie under another name."""
    names = [field["name"] for field in json.loads(_metadata(folder)["schemaString"])["fields"]]
    said = {
        name: {"metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name}}
        for number, name in enumerate(names, start=1)
    }
    physical = {"delta.columnMapping.id": len(names) + 1, "delta.columnMapping.physicalName": "col-7f"}
    columns = [{"name": new, "type": "string", "metadata": physical}] if new is not None else []
    mapped = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": str(len(names) + 1)}
    protocol = {
        "minReaderVersion": 2,
        "minWriterVersion": 7,
        "writerFeatures": [*PLAIN, "columnMapping"],
    }
    return change(folder, protocol, mapped, columns, said)
