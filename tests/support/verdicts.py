"""What a judge finds at one look, however long it lasts."""

from __future__ import annotations

from photon.health.facts import Facts
from photon.health.judge import all_verdicts, in_checks
from photon.health.memory import Memory
from photon.health.verdict import Verdict
from photon.pipeline.file import Pipeline


def found_in(facts: Facts, memory: Memory, pipeline: Pipeline) -> dict[str, Verdict]:
    """The worst of what a look finds of each promise."""
    return in_checks(all_verdicts(facts, memory, pipeline), facts, memory, pipeline)
