"""`photon metrics`: the numbers of a pipeline for a monitoring system."""

from __future__ import annotations

import gc
import logging
import threading
from pathlib import Path

import click

from photon.cli.output import chosen, opened, pipeline_argument

HOST = "127.0.0.1"
log = logging.getLogger(__name__)


@click.command()
@pipeline_argument
@click.option("--serve", "port", type=click.IntRange(0, 65535), help="Serve them at this port, until Ctrl-C.")
@click.option("--host", default=HOST, show_default=True, help="With --serve: the address to listen at.")
@click.option("-d", "--datacenter", help="Of this one only. Default: all.")
def metrics(pipeline_file: Path, port: int | None, host: str, datacenter: str | None) -> None:
    """Print the metrics of PIPELINE's datacenters as OpenMetrics, or serve them to Prometheus.

    Each request reads what photon status reads, and what the last shift has written of itself; it disturbs no
    join. Run it on each machine that has the state of a datacenter; where others are elsewhere, with -d.
    """
    with opened(pipeline_file) as pipeline:
        from photon.health.metrics.serving import page_of, serving
        from photon.process.clock import SystemClock

        names = chosen(pipeline, datacenter)
        if port is None:
            click.echo(page_of(pipeline, SystemClock(), names), nl=False)
            return
        gc.enable()  # which a command that only asks does without
        with serving(pipeline, SystemClock(), host, port, names) as at:
            log.info("metrics at http://%s:%s/metrics, until Ctrl-C", host, at)
            threading.Event().wait()
