"""Pipeline files as a resource: what they say may have changed since the code location was loaded."""

from __future__ import annotations

from dagster import ConfigurableResource

from photon.pipeline.file import Pipeline, load_pipeline


class PipelineFiles(ConfigurableResource[Pipeline]):
    """The pipeline files that this code location serves, by pipeline name."""

    files: dict[str, str]

    def load(self, name: str) -> Pipeline:
        """The pipeline as its file says now; PipelineError with all that is wrong with it."""
        return load_pipeline(self.files[name])
