"""A MinIO of one machine, for tests, measurements and the demo: started, killed, stalled, given buckets.

What is then stored in it does not belong here.
"""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from infra.servers.process import ServerProcess
from photon.toolchain.minio import minio_command

USER, PASSWORD = "photon", "photon-on-minio"
LOGS, LAKES = "logs", "lakes"  # buckets of `places_on_minio`
# As boto3 reads them in the environment.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": USER, "AWS_SECRET_ACCESS_KEY": PASSWORD, "AWS_REGION": "us-east-1"}


class MinioServer(ServerProcess):
    """One MinIO with its buckets."""

    def __init__(self, folder: Path, buckets: Sequence[str] = (), port: int | None = None) -> None:
        super().__init__(folder, port)
        self._data = folder / "data"
        for bucket in buckets:  # a folder is a bucket, and is there with the first request
            (self._data / bucket).mkdir(parents=True, exist_ok=True)

    def command(self) -> Sequence[str]:
        address = f"127.0.0.1:{self.port}"
        return [minio_command(), "server", "--quiet", "--address", address, str(self._data)]

    def environment(self) -> Mapping[str, str]:
        return {"MINIO_ROOT_USER": USER, "MINIO_ROOT_PASSWORD": PASSWORD, "MINIO_BROWSER": "off"}

    def answers(self) -> bool:
        # Not `ready`: requests of the moment after that may stand still for a minute.
        try:
            with urllib.request.urlopen(f"{self.url}/minio/health/cluster", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def places_on_minio(
    folder: Path, datacenters: Sequence[str], port: int | None = None
) -> Iterator[Mapping[str, str]]:
    """Run a server; give each datacenter's lines of the pipeline file: its logs and its lake there.

    Its credentials are in the environment of this process and of all that it starts. MinioMissing.
    """
    with MinioServer(folder, [LOGS, LAKES], port) as server, _credentials():
        storage = f"storage: {{endpoint_url: {server.url}}}"
        yield {
            name: f"logs: s3://{LOGS}/{name}, lake: s3://{LAKES}/{name}, {storage}" for name in datacenters
        }


@contextmanager
def _credentials() -> Iterator[None]:
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
