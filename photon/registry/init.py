"""Making a registry and finding it again: the only code that creates tables (protocol B9).

A directory table at the endpoint names the table of each pipeline, so that of two inits at once
one wins. What is in a registry's table belongs in `photon.registry.layout` and `.register`.
"""

from __future__ import annotations

from photon.clock import Clock
from photon.pipeline import Pipeline
from photon.registry.address import RegistryAddress


class RegistryMissing(Exception):
    """There is no registry for the pipeline yet; the message says how to make it."""


def init_registry(pipeline: Pipeline, clock: Clock) -> RegistryAddress:
    """Make the pipeline's registry, or return the one that is there with the same settings.

    RegistryMismatch if the one that is there was made with other settings; RegistryUnavailable if
    an endpoint does not answer.
    """
    raise NotImplementedError


def find_registry(pipeline: Pipeline) -> RegistryAddress:
    """The pipeline's registry, never made here.

    RegistryMissing if there is none, RegistryMismatch if it belongs to other settings,
    RegistryUnavailable if an endpoint does not answer.
    """
    raise NotImplementedError
