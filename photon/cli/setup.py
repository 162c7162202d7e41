"""`photon setup`: what an installation needs beyond Python's packages."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from photon.cli.ending import say
from photon.cli.output import expected_errors
from photon.process.extras import ExtraMissing, need_extra


@click.command()
def setup() -> None:
    """Fetch what Spark needs beyond its package, once for each environment. Done again, it fetches nothing.

    These are the JARs of Delta Lake and S3A, 50 MB from Maven's central repository, and an archive of Java's
    classes, by which Spark starts sooner. They go into share/photon of the environment, or of ~/.local where
    only others may write there. Without Spark there is nothing to do.
    """
    with expected_errors():
        try:
            need_extra("spark")
        except ExtraMissing as missing:
            say(f"There is nothing to fetch: {missing}")
            return
        from photon.toolchain.fetch import fetch_missing
        from photon.toolchain.java import java_command
        from photon.toolchain.maven import delta, spark_jars_dir

        java = java_command()
        fetch_missing([delta()])
        from photon.jobs import class_archive

        if not class_archive.is_there():
            class_archive.main()
        say(f"Spark is ready: it runs on {java}, with the JARs in {spark_jars_dir()}")
        with suppress(ExtraMissing):
            need_extra("dagster")
            from photon import orchestration

            settings = Path(orchestration.__path__[0], "dagster.yaml").resolve()
            say(f"Dagster's settings for Photon, to be copied into DAGSTER_HOME: {settings}")
