"""Datacenters that the registry knows and a pipeline file lacks: nobody would read what they have joined."""

from __future__ import annotations

from photon.pipeline.file import Pipeline
from photon.registry.errors import RegistryMismatch
from photon.registry.register import Register


def lacking_datacenters(pipeline: Pipeline, register: Register) -> list[str]:
    """The datacenters that have joined and were not given up, and that the pipeline file lacks."""
    return sorted(register.epochs.keys() - {*pipeline.datacenters, *register.given_up})


def refuse_lacking(pipeline: Pipeline, register: Register) -> None:
    """RegistryMismatch if the pipeline file lacks such a datacenter."""
    if lacking := lacking_datacenters(pipeline, register):
        raise RegistryMismatch(
            f"the registry of {pipeline.name} knows datacenter {lacking[0]}, which {pipeline.file} lacks: "
            "what it has joined would be read by nobody. Put it back into the file; if it was renamed, under "
            "its old name. If it is lost for good, run this then: "
            f"photon retire {pipeline.typed} {lacking[0]}"
        )
