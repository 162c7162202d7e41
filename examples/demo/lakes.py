"""Where a demo has its lakes: in folders, or on a MinIO that it starts and ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal
from urllib.parse import urlsplit

from bench.minio_server import CREDENTIALS, minio_server
from examples.demo.folder import DemoFolder
from photon.pipeline.file import load_pipeline
from photon.pipeline.location import S3Folder

LakeKind = Literal["local", "s3"]
BUCKET = "lakes"


@contextlib.contextmanager
def lakes(folder: DemoFolder, kind: LakeKind, datacenters: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """What the pipeline file says of the lake of each datacenter; its store runs meanwhile.

    A folder that is begun keeps what it has. MinioMissing.
    """
    endpoint_url = _endpoint_url(folder) if folder.is_begun else None
    if endpoint_url is None and (folder.is_begun or kind == "local"):
        yield {}
        return
    port = None if endpoint_url is None else urlsplit(endpoint_url).port
    with minio_server(folder.path / "minio", [BUCKET], port) as server, _credentials():
        storage = f"storage: {{endpoint_url: {server.url}}}"
        yield {name: f"lake: s3://{BUCKET}/{name}, {storage}" for name in datacenters}


def _endpoint_url(folder: DemoFolder) -> str | None:
    found = [place.lake for place in load_pipeline(folder.pipeline).datacenters.values()]
    return next((lake.endpoint_url for lake in found if isinstance(lake, S3Folder)), None)


@contextlib.contextmanager
def _credentials() -> Iterator[None]:
    """The store's credentials in the environment of this process and of all that it starts."""
    before = {name: os.environ.get(name) for name in CREDENTIALS}
    os.environ.update(CREDENTIALS)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
