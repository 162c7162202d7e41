"""Fetch what Photon needs that pip can't install: Delta's JARs; a registry's servers for tests and demo.

`photon setup` and `python -m photon.toolchain.fetch` (part of `make setup`) fetch into the environment that
Photon is installed in. With `--dynoxide`, `--dynamodb-local` or `--kafka` (`make` targets of these names) it
fetches that alone. `--check-java` runs on a bare Python, without packages.
"""

from __future__ import annotations

import fcntl
import shutil
import sys
import time
from collections.abc import Sequence

from photon.toolchain.dynoxide import prebuilt
from photon.toolchain.fetched import UNFINISHED, Fetched, FetchFailed, share_dir
from photon.toolchain.java import JavaMissing, java_command
from photon.toolchain.maven import delta, dynamodb_local, kafka


def needed(arguments: Sequence[str]) -> tuple[Fetched, ...]:
    """Return what is to be fetched. Without a dynoxide for this machine, DynamoDB Local takes its place."""
    if "--dynamodb-local" in arguments:
        return (dynamodb_local(),)
    if "--kafka" in arguments:
        return (kafka(),)
    return (prebuilt() or dynamodb_local(),) if "--dynoxide" in arguments else (delta(),)


def missing(wanted: Sequence[Fetched]) -> list[Fetched]:
    """Return the programs that are not fetched yet, or are there in another version."""
    return [each for each in wanted if not each.is_there()]


def fetch_missing(wanted: Sequence[Fetched]) -> None:
    """Fetch what is missing, one set-up at a time, and remove what a killed one left behind.

    FetchFailed, JavaMissing, OSError.
    """
    if not missing(wanted):
        return
    share = share_dir()
    share.mkdir(parents=True, exist_ok=True)
    with (share / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in share.glob(f"{UNFINISHED}*"):
            shutil.rmtree(left, ignore_errors=True)
        for each in missing(wanted):
            started = time.monotonic()
            print(f"fetching {each.title} ...", flush=True)
            each.fetch()
            print(f"fetched {each.title} in {time.monotonic() - started:.0f} s", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Fetch what is missing; return 0 when all is there, else 1. With `--check-java` only find Java."""
    try:
        java_command()
        if "--check-java" not in arguments:
            fetch_missing(needed(arguments))
    except (JavaMissing, FetchFailed) as error:
        print(f"photon.toolchain.fetch: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"photon.toolchain.fetch: cannot write into {share_dir()}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
