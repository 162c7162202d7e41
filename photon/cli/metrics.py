"""`photon metrics`: the numbers of a pipeline for a monitoring system."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import click

from photon.cli.output import opened, pipeline_argument

HOST = "127.0.0.1"
log = logging.getLogger(__name__)


@click.command()
@pipeline_argument
@click.option("--serve", "port", type=click.IntRange(0, 65535), help="Serve them at this port, until Ctrl-C.")
@click.option("--host", default=HOST, show_default=True, help="With --serve: the address to listen at.")
def metrics(pipeline_file: Path, port: int | None, host: str) -> None:
    """Print the metrics of PIPELINE's datacenters as OpenMetrics, or serve them to Prometheus.

    Each request reads what photon status reads, and disturbs no join. Run it on each machine that has the
    state of a datacenter, with the pipeline file of all.

    \b
    photon metrics pipeline.yaml
    photon metrics pipeline.yaml --serve 9464
    """
    with opened(pipeline_file) as pipeline:
        from photon.clock import SystemClock
        from photon.metrics.serving import page_of, serving

        if port is None:
            click.echo(page_of(pipeline, SystemClock()), nl=False)
            return
        with serving(pipeline, SystemClock(), host, port) as at:
            log.info("metrics at http://%s:%s/metrics, until Ctrl-C", host, at)
            threading.Event().wait()
