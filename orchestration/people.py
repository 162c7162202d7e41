"""People's decisions on a datacenter in the registry, where these keep a sensor from launching shifts."""

from __future__ import annotations

from photon.dispatcher.refusals import OnHold, check_datacenters
from photon.dispatcher.shift.people import register_of
from photon.errors import UserError
from photon.pipeline.file import Pipeline
from photon.registry.errors import RegistryUnavailable, RetiredDatacenter


def why_not_to_run(pipeline: Pipeline, datacenter: str) -> str | None:
    """Why people keep a datacenter from running, with what lets it run again; None if they don't.

    None also while the registry is missing or does not answer: the run says so, and waits.
    """
    try:
        register = register_of(pipeline)
        if register is not None:
            check_datacenters(pipeline, datacenter, register)
    except (OnHold, RetiredDatacenter) as error:
        return str(error)
    except (UserError, RegistryUnavailable):
        return None
    return None
