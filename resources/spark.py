"""The Spark session of a run: `jobs/session.py` builds it at its first use and stops it at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dagster import InitResourceContext, ResourceDefinition
from dagster import resource as dagster_resource
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from photon.jobs.session import build_session, is_alive, session_for, session_for_joins, stop_session
from photon.pipeline.file import Pipeline


class SparkResource(LazyPySparkResource):
    """Dagster's lazy PySpark resource with the project's one session builder, and an end.

    Dagster's own leaves the session and its JVM running, and takes any session that is there.
    """

    spark_config: dict[str, Any] = {}  # noqa: RUF012 - a field of pydantic, which copies it
    master: str = ""  # empty: as the pipeline says
    name: str = "photon"

    def _init_session(self) -> None:
        if self._spark_session is None:
            self._spark_session = build_session(self.name, self.master or None, self.spark_config)

    def for_joins(self, pipeline: Pipeline) -> SparkSession:
        """A session for joins: a new one if the one before is dead."""
        return self._live(pipeline, lambda place: session_for_joins(place, self.name))

    def for_checks(self, pipeline: Pipeline, here: str | None = None) -> SparkSession:
        """A live session for verification and backfill, on this machine with the master `here`."""
        return self._live(pipeline, lambda place: session_for(place, self.name, here))

    def _live(self, pipeline: Pipeline, build: Callable[[Pipeline], SparkSession]) -> SparkSession:
        if self._spark_session is None or not is_alive(self._spark_session):
            settings = {key: str(value) for key, value in self.spark_config.items()}
            self._spark_session = build(pipeline.on_spark(self.master or None, settings))
        return self._spark_session

    def stop(self) -> None:
        """Stop the session, if there is one. Who must not be interrupted in this calls it itself."""
        if self._spark_session is not None:
            stop_session(self._spark_session)
            self._spark_session = None


def spark_resource(master: str | None) -> ResourceDefinition:
    """The session of each run, which ends with it. A run can't set it: the pipeline file does.

    `master`: in place of the pipelines' own.
    """

    @dagster_resource(description="A Spark session, made when it is first used.")
    def spark(context: InitResourceContext) -> Iterator[SparkResource]:
        session = SparkResource(master=master or "")
        try:
            yield session
        finally:
            session.stop()

    return spark
