"""An npm registry that is a folder of this machine."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest


class NpmFolder:
    """Serves packages by file: URLs, laid out as a registry lays them out."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        monkeypatch.setenv("npm_config_registry", folder.as_uri() + "/")

    def archive(self, package: str, version: str) -> Path:
        return self.folder / package / "-" / f"{package.split('/')[-1]}-{version}.tgz"

    def publish(self, package: str, version: str, files: Mapping[str, str]) -> tuple[str, str, str]:
        """Package, version and hash of an archive that holds these texts."""
        archive = self.archive(package, version)
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive, "w:gz") as out:
            for name, text in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(text)
                out.addfile(entry, io.BytesIO(text.encode()))
        return package, version, base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
