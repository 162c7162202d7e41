"""The way to start a datacenter that nobody runs: a command, or Dagster's sensor, which starts it by itself.

Its lock names Dagster's run that had it last. A person who is told to type a command where a sensor is at
work has two that compete for the datacenter.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from photon.pipeline.file import Pipeline

LOCK_FILE = "lock"  # in its state folder; `photon.dispatcher.shift.lease` writes it


def starts(typed_file: str, datacenter: str, last_run: str) -> str:
    """The way to start a datacenter, as a noun: a command to type, or a place to look at.

    `last_run`: Dagster's run that had it last; empty: a command did, or nobody.
    """
    if last_run:
        return f"Dagster's sensor of {datacenter}, which has to be on"
    return f"photon join {typed_file} -d {datacenter}"


def what_starts(pipeline: Pipeline, datacenter: str) -> str:
    """As `starts`, by who ran it last."""
    return starts(pipeline.typed, datacenter, _last_run(pipeline.datacenters[datacenter].state))


def what_starts_any(pipeline: Pipeline) -> str:
    """The way to start a join of a pipeline, where it does not matter in which datacenter."""
    if any(_last_run(place.state) for place in pipeline.datacenters.values()):
        return "Dagster's sensors, which have to be on"
    return f"photon join {pipeline.typed}"


def _last_run(state: Path) -> str:
    with suppress(OSError, ValueError, AttributeError):
        return str(json.JSONDecoder().raw_decode((state / LOCK_FILE).read_text())[0].get("run") or "")
    return ""
