"""Where a demo has its logs and lakes: in folders, or on a MinIO that it starts and ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal
from urllib.parse import urlsplit

from bench.minio_server import places_on_minio
from examples.demo.folder import DemoFolder
from photon.pipeline.file import load_pipeline
from photon.pipeline.location import S3Folder

LakeKind = Literal["local", "s3"]


@contextlib.contextmanager
def lakes(folder: DemoFolder, kind: LakeKind, datacenters: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """What the pipeline file says of the logs and the lake of each datacenter; their store runs meanwhile.

    A folder that is begun keeps what it has. MinioMissing.
    """
    endpoint_url = _endpoint_url(folder) if folder.is_begun else None
    if endpoint_url is None and (folder.is_begun or kind == "local"):
        yield {}
        return
    port = None if endpoint_url is None else urlsplit(endpoint_url).port
    with places_on_minio(folder.path / "minio", datacenters, port) as places:
        yield places


def _endpoint_url(folder: DemoFolder) -> str | None:
    found = [place.lake for place in load_pipeline(folder.pipeline).datacenters.values()]
    return next((lake.endpoint_url for lake in found if isinstance(lake, S3Folder)), None)
