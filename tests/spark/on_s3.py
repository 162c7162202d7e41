"""Pipelines with a part of each datacenter on S3, joined by both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from examples.demo.traffic import Traffic
from photon.dispatcher.retrying import Callbacks
from photon.dispatcher.shift.run import prepare, run_shift
from photon.jobs.batch_job import SparkRunner
from photon.pipeline.file import Pipeline, load_pipeline
from photon.pipeline.location import S3Folder
from photon.storage.s3_credentials import forget_keys
from tests.conftest import BUCKET


def joined_on_s3(
    folder: Path, url: str, part: Literal["logs", "lake"], traffic: Traffic, session: Any
) -> Pipeline:
    """East has joined by Spark and west by itself; the `part` of both is on S3, below the folder's name."""
    forget_keys()
    on_s3, storage = S3Folder(BUCKET, f"Läden & Co/{folder.name}", url), f"storage: {{endpoint_url: {url}}}"
    places = {name: f"{part}: {on_s3}/{name}, {storage}" for name in traffic.datacenters}
    pipeline = load_pipeline(traffic.write_pipeline(folder, places=places))
    traffic.write_all(folder, {name: place.logs for name, place in pipeline.datacenters.items()})
    prepare(pipeline)
    told = Callbacks(on_wait=pytest.fail)
    east = run_shift(pipeline, "east", "complete", SparkRunner(lambda: session), callbacks=told)
    west = run_shift(pipeline, "west", "complete", callbacks=told)
    rows = sum(done.counts.as_dict()["joined"] for done in (east, west))
    assert rows == traffic.expected_outcomes().joined_total
    return pipeline
