"""A pipeline at hand for one run of an asset: read from its file, with what it opened closed afterwards.

What is done with it is each asset's own; how a run fails is `assets.failures`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from assets.failures import failures_with_a_message
from photon.pipeline.file import Pipeline
from resources.environment import Served
from resources.pipelines import PipelineFiles


@contextmanager
def pipeline_of_run(served: Served, pipelines: PipelineFiles) -> Iterator[Pipeline]:
    """The pipeline as its file says now. Expected errors fail the run with their message alone."""
    from photon.registry.open import close_registries  # late: what a location need not load to be served

    with failures_with_a_message():
        try:
            yield pipelines.load(served.pipeline.name)
        finally:
            close_registries()
