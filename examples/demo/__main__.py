"""Two datacenters join live logs under Dagster; a shift is killed, and one of the registry's three endpoints.

python -m examples.demo              # make demo
python -m examples.demo --lake s3    # make demo LAKE=s3
python -m examples.demo --stay       # make dev: on what a demo left, and nothing is killed
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import click

from examples.demo.demo import Endpoint, run_demo, run_live
from examples.demo.folder import DemoFolder
from infra.servers.minio import places_on_minio
from infra.servers.stores import StoreServer, fastest_kind
from photon.cli.ending import InOrder, fail
from photon.cli.output import DONE, VIOLATION, expected_errors, json_option, print_result
from photon.pipeline.file import load_pipeline
from photon.pipeline.location import S3Folder
from photon.process.errors import WRONG_USAGE

ENDPOINTS = 3


@contextlib.contextmanager
def places(kind: str, folder: DemoFolder, datacenters: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """Run a MinIO for a demo on s3; give each datacenter's lines of the pipeline file: its logs and its lake.

    A folder that is begun keeps what it has. MinioMissing.
    """
    endpoint_url = _endpoint_url(folder) if folder.is_begun else None
    if endpoint_url is None and (folder.is_begun or kind == "local"):
        yield {}
        return
    port = None if endpoint_url is None else urlsplit(endpoint_url).port
    with places_on_minio(folder.path / "minio", datacenters, port) as lines:
        yield lines


@contextlib.contextmanager
def endpoints(folder: DemoFolder) -> Iterator[Sequence[Endpoint]]:
    """Run the three endpoints of the demo's registry. A folder that is begun keeps what it has."""
    named = load_pipeline(folder.pipeline).registry.endpoints if folder.is_begun else ()
    if named == "local":
        yield ()
        return
    ports = [urlsplit(one.url).port for one in named] or [None] * ENDPOINTS
    with contextlib.ExitStack() as started:
        yield [
            started.enter_context(StoreServer(fastest_kind(), folder.path / "endpoints" / str(number), port))
            for number, port in enumerate(ports, 1)
        ]


def _endpoint_url(folder: DemoFolder) -> str | None:
    found = [place.lake for place in load_pipeline(folder.pipeline).datacenters.values()]
    return next((lake.endpoint_url for lake in found if isinstance(lake, S3Folder)), None)


@click.command(cls=InOrder)
@click.option(
    "--folder", default="demo", show_default=True, type=click.Path(path_type=Path),
    help="Where everything is; a demo's own folder is emptied.",
)  # fmt: skip
@click.option(
    "--seconds", default=60.0, show_default=True, type=click.FloatRange(min=5),
    help="How long both datacenters join before a shift is killed.",
)  # fmt: skip
@click.option(
    "--port", default=3000, show_default=True, type=click.IntRange(0, 65_535),
    help="Of Dagster's UI; another one if it is taken. 0: any.",
)  # fmt: skip
@click.option(
    "--stay", is_flag=True, help="Live traffic until Ctrl-C, on what is in the folder; nothing is killed."
)
@click.option(
    "--lake", default="local", show_default=True, type=click.Choice(["local", "s3"]),
    help="Where logs and tables are: in the folder, or on a MinIO that runs with the demo.",
)  # fmt: skip
@json_option
def main(folder: Path, seconds: float, port: int, stay: bool, lake: str, as_json: bool) -> None:
    """Two datacenters join live logs under Dagster; one is killed, and comes back; all is verified.

    Dagster, its UI, the registry's endpoints and the traffic are started and ended with this command. Exit
    status 0 only if the verification holds; 130 for Ctrl-C (with --stay: 0).
    """
    if not math.isfinite(seconds):
        fail(f"--seconds: expected a number of seconds, got {seconds}", WRONG_USAGE)
    if stay:
        with expected_errors(), contextlib.suppress(KeyboardInterrupt):
            run_live(folder, port, partial(places, lake), endpoints)
        return
    with expected_errors():
        summary = run_demo(folder, seconds, port, partial(places, lake), endpoints)
    print_result(summary.as_dict(), summary.text(), as_json)
    sys.exit(DONE if summary.holds else VIOLATION)


if __name__ == "__main__":
    main()
