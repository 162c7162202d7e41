"""Refuse folders of another pipeline, and settings that make other ids, before a join; a status tells why."""

from __future__ import annotations

from photon.dispatcher.other_settings import SettingsChanged, refuse_other_ids
from photon.errors import UserError
from photon.pipeline.file import Pipeline
from photon.state.view import StateView


class PlaceTaken(UserError):
    """The state or lake folder is another pipeline's."""


def refuse_place_of_another(what: str, owner: str | None, pipeline: Pipeline, datacenter: str) -> None:
    """PlaceTaken if a folder has an owner, and it is not this pipeline."""
    if owner is not None and owner != pipeline.name:
        raise PlaceTaken(
            f"{what} is that of the pipeline {owner}, and {pipeline.file} names it for {pipeline.name} too: "
            f"give {pipeline.name} folders of its own, such as "
            f"datacenters: {{{datacenter}: {{..., lake: lake/{pipeline.name}/{datacenter}, "
            f"state: state/{pipeline.name}/{datacenter}}}}}"
        )


def why_refused(pipeline: Pipeline, datacenter: str, state: StateView) -> str:
    """Why each start ends beside this state, and what to do; empty: none does."""
    folder = pipeline.datacenters[datacenter].state
    try:
        refuse_place_of_another(f"the state {folder}", state.pipeline, pipeline, datacenter)
        refuse_other_ids(state.settings, folder, pipeline)
    except (PlaceTaken, SettingsChanged) as error:
        return str(error)
    return ""
