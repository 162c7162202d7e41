"""Small pipelines over logs of CSV: primaries have the columns `q,at`, foreign records `c,q,at`, and more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from photon.dispatcher.shift.run import prepare, run_shift
from photon.pipeline.file import Pipeline, load_pipeline

PIPELINE = """
name: clicks
datacenters: {datacenters}
primary: {{files: "q*.csv", format: csv, id: q, time: at, time_unit: s}}
foreign: {{files: "c*.csv", format: csv, id: c, key: q, time: at, time_unit: s, columns: {columns}}}
{more}
"""


def csv_pipeline(
    folder: Path,
    logs: Mapping[str, str],
    datacenters: Sequence[str] = ("east",),
    more: str = "",
    columns: str = "{}",
) -> Pipeline:
    """Each datacenter has these logs, by name; nothing is joined yet.

    `more`: the end of the pipeline file. `columns`: of foreign records that have a type.
    """
    places = ", ".join(f"{name}: {{logs: logs/{name}}}" for name in datacenters)
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE.format(datacenters=f"{{{places}}}", more=more, columns=columns))
    for name in datacenters:
        (folder / "logs" / name).mkdir(parents=True)
        for log, content in logs.items():
            (folder / "logs" / name / log).write_text(content)
    return load_pipeline(file)


def joined_csv(
    folder: Path, logs: Mapping[str, str], datacenters: Sequence[str] = ("east",), more: str = ""
) -> Pipeline:
    """Make such a pipeline, and have each datacenter in turn join all of it."""
    pipeline = csv_pipeline(folder, logs, datacenters, more)
    prepare(pipeline)
    for name in datacenters:
        run_shift(pipeline, name, "complete")
    return pipeline
