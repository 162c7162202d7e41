"""Refuse a start: in folders of another pipeline, with other ids, or against what people have decided.

`photon status` tells in the same words why no start succeeds.
"""

from __future__ import annotations

from photon.dispatcher.other_settings import SettingsChanged, refuse_other_ids
from photon.pipeline.file import Pipeline
from photon.process.errors import UserError
from photon.registry.errors import RegistryMismatch, RetiredDatacenter
from photon.registry.register import Register
from photon.state.view import StateView


class PlaceTaken(UserError):
    """The state or lake folder is another pipeline's."""


class OnHold(UserError):
    """A person has stopped this datacenter until it is resumed."""


def refuse_place_of_another(what: str, owner: str | None, pipeline: Pipeline, datacenter: str) -> None:
    """PlaceTaken if a folder, which `what` names, belongs to another pipeline."""
    if owner is not None and owner != pipeline.name:
        raise PlaceTaken(
            f"{what} is that of the pipeline {owner}, and {pipeline.file} names it for {pipeline.name} too: "
            f"give {pipeline.name} folders of its own, such as "
            f"datacenters: {{{datacenter}: {{..., lake: lake/{pipeline.name}/{datacenter}, "
            f"state: state/{pipeline.name}/{datacenter}}}}}"
        )


def why_refused(pipeline: Pipeline, datacenter: str, state: StateView) -> str:
    """Why every start with this state is refused, and what to do; empty: none is."""
    folder = pipeline.datacenters[datacenter].state
    try:
        refuse_place_of_another(f"the state {folder}", state.pipeline, pipeline, datacenter)
        refuse_other_ids(state.settings, folder, pipeline)
    except (PlaceTaken, SettingsChanged) as error:
        return str(error)
    return ""


def check_datacenters(pipeline: Pipeline, datacenter: str, register: Register) -> None:
    """Refuse a datacenter that is retired or on hold, a refill under way, and a file that lacks datacenters.

    RetiredDatacenter, OnHold, RegistryMismatch.
    """
    if datacenter in register.given_up:
        is_gone = datacenter in register.lakes_gone
        remedy = "take it out of" if is_gone else "leave it, with its lake, as long as its rows are read, in"
        raise RetiredDatacenter(
            f"datacenter {datacenter} is retired in the registry: it was given up as lost; "
            f"{remedy} the pipeline file, or give it a new name"
        )
    if datacenter in register.on_hold:
        raise OnHold(
            f"datacenter {datacenter} is on hold; to let it run again: "
            f"photon resume {pipeline.typed} {datacenter}"
        )
    if register.is_refilling:
        raise RegistryMismatch(
            f"the ids of all rows are being put back into the registry of {pipeline.name}, or that was cut "
            f"short: let it end, or do it again: photon registry refill {pipeline.typed}"
        )
    refuse_missing_datacenters(pipeline, register)


def refuse_missing_datacenters(pipeline: Pipeline, register: Register) -> None:
    """RegistryMismatch if the pipeline file lacks a datacenter whose rows count."""
    if lacking := datacenters_missing_in_file(pipeline, register):
        raise RegistryMismatch(
            f"the registry of {pipeline.name} knows datacenter {lacking[0]}, which {pipeline.file} lacks: "
            "what it has joined would be read by nobody. Put it back into the file; if it was renamed, under "
            "its old name. If it is lost for good, run this then: "
            f"photon retire {pipeline.typed} {lacking[0]}"
        )


def datacenters_missing_in_file(pipeline: Pipeline, register: Register) -> list[str]:
    """The datacenters that the pipeline file lacks, though they have joined and are not retired."""
    return sorted(register.epochs.keys() - {*pipeline.datacenters, *register.given_up})
