"""Headers of CSV and TSV files: their names, and whether they have the columns a pipeline asks for."""

from __future__ import annotations

from photon.pipeline import Pipeline


def check_columns(pipeline: Pipeline) -> list[str]:
    """What is wrong with the columns that the pipeline file names, one message each; empty if nothing is.

    Looks at the newest log files of each datacenter; JSON lines, and logs without files, are not checked.
    """
    raise NotImplementedError
