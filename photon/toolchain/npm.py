"""A file out of a package of the npm registry, fetched without Node and checked against its pinned hash."""

from __future__ import annotations

import base64
import hashlib
import http.client
import io
import os
import shutil
import tarfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from photon.toolchain import fetched
from photon.toolchain.fetched import Fetched, FetchFailed

PUBLIC_REGISTRY = "https://registry.npmjs.org"
REGISTRY_VARIABLE = "npm_config_registry"  # npm's own; npm takes it in capitals too
DOWNLOAD_SECONDS = 60.0  # without a byte


def npm_registry() -> str:
    """The URL of the npm registry: npm's own variable, else the public one."""
    named = os.environ.get(REGISTRY_VARIABLE) or os.environ.get(REGISTRY_VARIABLE.upper())
    return (named or PUBLIC_REGISTRY).rstrip("/")


@dataclass(frozen=True)
class NpmProgram(Fetched):
    """The program `file` of a package. `sha512` is of the package's archive, in base64, as npm writes it."""

    package: str
    version: str
    sha512: str
    file: str

    def url(self) -> str:
        """Where the registry has the package's archive."""
        return f"{npm_registry()}/{self.package}/-/{self.package.rpartition('/')[2]}-{self.version}.tgz"

    def stamp(self) -> str:
        """See `Fetched`."""
        return f"{self.package}@{self.version} sha512-{self.sha512}"

    def fill(self, files: Path, work: Path) -> None:
        """See `Fetched`."""
        archive = self._download()
        found = base64.b64encode(hashlib.sha512(archive).digest()).decode()
        if found != self.sha512:
            raise FetchFailed(
                f"{self.title}: {self.url()} is not the file that Photon was tested with: its hash is"
                f" sha512-{found}, not sha512-{self.sha512}. Name another registry in {REGISTRY_VARIABLE}"
                " and run again: make dynoxide"
            )
        files.mkdir()
        program = files / Path(self.file).name
        try:
            with tarfile.open(fileobj=io.BytesIO(archive)) as package:
                source = package.extractfile(self.file)
                if source is None:
                    raise KeyError(self.file)
                with program.open("wb") as target:
                    shutil.copyfileobj(source, target)
        except (KeyError, tarfile.TarError) as error:
            raise FetchFailed(f"{self.title}: {self.url()} has no {self.file}: {error}") from error
        program.chmod(0o755)

    def _download(self) -> bytes:
        reason = ""
        for attempt in range(fetched.FETCH_ATTEMPTS):
            time.sleep(fetched.RETRY_PAUSE_SECONDS if attempt else 0)
            try:
                with urllib.request.urlopen(self.url(), timeout=DOWNLOAD_SECONDS) as answer:
                    archive: bytes = answer.read()
                    return archive
            except (OSError, http.client.HTTPException, ValueError) as error:
                reason = str(error) or type(error).__name__
        raise FetchFailed(
            f"{self.title} could not be fetched from {self.url()}: {reason}. Check that the npm registry can"
            f" be reached (a proxy goes into HTTPS_PROXY, another registry into {REGISTRY_VARIABLE}) and run"
            " again: make dynoxide"
        )
