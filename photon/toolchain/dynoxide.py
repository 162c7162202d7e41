"""dynoxide, a small and fast server with the DynamoDB API: find it, and build it.

`python -m photon.toolchain.dynoxide` (`make dynoxide`) builds it with cargo, once for all checkouts of a
user; with `--path` it prints where it is. Nothing needs it: it is a second server for tests, for measurements
and, with its data in a file, for registries of one's own (infra/dynoxide).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

VERSION = "3.2.0"  # of the crate; `dynoxide --version` says 1.5.0, the version of the product
REMEDY = "Install Rust's cargo and run: make dynoxide (ten minutes, once); or put a dynoxide on PATH."


class DynoxideMissing(Exception):
    """There is no dynoxide on this machine; the message names the remedy."""


def _root() -> Path:
    # Not in the environment that Photon is installed in: each would build it for ten minutes.
    return Path.home() / ".cache" / "photon" / f"dynoxide-{VERSION}"


def dynoxide_command() -> str:
    """The path of a dynoxide: the one that was built here, else the one on PATH. Raises DynoxideMissing."""
    built = _root() / "bin" / "dynoxide"
    found = str(built) if built.is_file() else shutil.which("dynoxide")
    if found is None:
        raise DynoxideMissing(f"There is no dynoxide. {REMEDY}")
    return found


def main(arguments: Sequence[str]) -> int:
    """Build it unless it is there: 1 if that fails, 0 without cargo. With `--path`: 1 if it is not there."""
    try:
        print(dynoxide_command())
        return 0
    except DynoxideMissing as missing:
        cargo = shutil.which("cargo")
        if cargo is None or "--path" in arguments:
            print(missing, file=sys.stderr)
            return 1 if "--path" in arguments else 0
    print(f"building dynoxide {VERSION} with cargo (about ten minutes on two cores)", flush=True)
    command = [cargo, "install", "dynoxide-rs", "--locked", "--quiet", "--version", VERSION]
    built = subprocess.run([*command, "--root", str(_root())], check=False)
    if built.returncode != 0:
        print("photon.toolchain.dynoxide: cargo could not build it; what it said is above", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
