"""A plugin of dbt-duckdb: all models of a run read one release of Photon's rows, by its views.

Beside joined, unjoined, dead_letters and releases there is this_release, with the number of that one.
"""

from __future__ import annotations

from typing import Any

from dbt.adapters.duckdb.plugins import BasePlugin

from photon.pipeline.file import load_pipeline
from photon.read import add_duckdb_views
from photon.releases.reading import open_release


class Plugin(BasePlugin):
    """Opens the newest release when a run begins."""

    def initialize(self, plugin_config: dict[str, Any]) -> None:
        self._opened = open_release(load_pipeline(plugin_config["pipeline"]), "latest")

    def configure_cursor(self, cursor: Any) -> None:
        """Each cursor gets the views: they are temporary, so that dbt's file keeps none of them."""
        add_duckdb_views(cursor, self._opened)
        cursor.execute(
            f"CREATE OR REPLACE TEMP VIEW this_release AS SELECT {self._opened.release.number} AS number"
        )
