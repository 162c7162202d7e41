"""MinIO, a store that speaks S3, for tests and trials: where it is, and how to build it.

`make minio` (this module as a program) builds it with Go, once for all checkouts of a user. With `--path` it
prints its path. A Photon whose lake is elsewhere needs no MinIO.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from photon.process.errors import UserError
from photon.process.lifeline import bound_to_this_thread

MODULE = "github.com/minio/minio"
# RELEASE.2025-09-07T16-13-09Z, by its name in Go's module proxy. Releases since October 2025 hold notices of
# new objects back: since minio/minio#21651 their streams can't be flushed.
VERSION = "v0.0.0-20250907161309-07c3a429bfed"
REMEDY = "Install Go and run: make minio (four minutes, once); or put a minio on PATH."


class MinioMissing(UserError):
    """There is no MinIO on this machine; the message names the remedy."""


def minio_command() -> str:
    """Return the path of the MinIO that was built here, else of one on PATH. Raises MinioMissing."""
    found = str(_built()) if _built().is_file() else shutil.which("minio")
    if found is None:
        raise MinioMissing(f"There is no minio. {REMEDY}")
    return found


def _built() -> Path:
    return Path.home() / ".cache" / "photon" / f"minio-{VERSION}" / "minio"


def main(arguments: Sequence[str]) -> int:
    """Build MinIO once: return 1 if that fails, 0 without Go. With `--path` print its path, or return 1."""
    if "--path" in arguments:
        try:
            print(minio_command())
        except MinioMissing as missing:
            print(missing, file=sys.stderr)
            return 1
        return 0
    if _built().is_file():
        return 0
    go = shutil.which("go")
    if go is None:
        print(f"There is no Go to build minio with. {REMEDY}", file=sys.stderr)
        return 0
    print(f"building minio {VERSION} with Go (about four minutes on two cores)", flush=True)
    command = [go, "install", "-trimpath", f"{MODULE}@{VERSION}"]
    environment = {**os.environ, "GOBIN": str(_built().parent), "CGO_ENABLED": "0"}
    built = subprocess.run(
        bound_to_this_thread(command), env=environment, stderr=subprocess.PIPE, text=True, check=False
    )
    if built.returncode != 0:
        print(f"photon.toolchain.minio: Go could not build it: {built.stderr.strip()}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
