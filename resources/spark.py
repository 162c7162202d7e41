"""The Spark session of a run: made at its first use by `jobs.session`, stopped at the run's end.

No setting of Spark belongs here: `jobs.session` has them all.
"""

from __future__ import annotations

from typing import Any

from dagster import InitResourceContext
from dagster_pyspark import LazyPySparkResource
from pydantic import PrivateAttr
from pyspark.sql import SparkSession

from jobs.session import LOCAL_MASTER, build_session, stop_session


class SparkResource(LazyPySparkResource):
    """Dagster's lazy PySpark resource, with the project's one session builder, and an end.

    Dagster's own would leave the session and its JVM running, and takes whatever session is there.
    """

    spark_config: dict[str, Any] = {}  # noqa: RUF012 - a field of pydantic, which copies it
    master: str = LOCAL_MASTER
    name: str = "photon"

    _session: SparkSession | None = PrivateAttr(default=None)

    @property
    def spark_session(self) -> SparkSession:
        """The one warm session of this process."""
        if self._session is None:
            self._session = build_session(self.name, self.master, self.spark_config)
        return self._session

    @property
    def spark_context(self) -> Any:
        """The session's context."""
        return self.spark_session.sparkContext

    def teardown_after_execution(self, context: InitResourceContext) -> None:
        """Stop the session and the JVM behind it, if there are any."""
        if self._session is not None:
            stop_session(self._session)
            self._session = None
