"""dynoxide, a small and fast server with the DynamoDB API: where it is, and how to build it.

Set-up fetches a program that is ready to run, where there is one for the machine. `make dynoxide` (this
module as a program) builds the crate's newer version with cargo, once for all checkouts of a user: for tests,
and for machines without a ready one. With `--path` it prints which one is used.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from photon.errors import UserError
from photon.lifeline import bound_to_this_thread
from photon.toolchain.fetched import share_dir
from photon.toolchain.npm import NpmProgram

CRATE_VERSION = "3.2.0"  # `dynoxide --version` says 1.5.0, the version of the product
REMEDY = "Install Rust's cargo and run: make dynoxide (five minutes, once); or put a dynoxide on PATH."

# Packages of the npm registry, by system and processor as Python names them: package, version, hash. There is
# none for Linux on ARM nor for macOS; each is a line here as soon as there is.
_PREBUILT = {
    ("Linux", "x86_64"): (
        "@dynoxide/linux-x64",
        "1.2.1",
        "sBHqlxJ9ANkLluFkYRfd5r8Y0ApFew4FhOrlhgRAgD4XzEoFOukEo1nuBTQ1+jTtofqwn4NWQ2k0Tn5mNTjgUg==",
    ),
}

# In place of the crate's own profile, which is for a small file and has one core busy for minutes.
_PROFILE = {
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "2",
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
}


class DynoxideMissing(UserError):
    """There is no dynoxide on this machine; the message names the remedy."""


def prebuilt() -> NpmProgram | None:
    """The program that is ready for this machine, a static binary of 7.6 MB; None if there is none."""
    found = _PREBUILT.get((platform.system(), platform.machine()))
    if found is None:
        return None
    package, version, sha512 = found
    return NpmProgram(
        title=f"dynoxide {version}",
        folder=share_dir() / "dynoxide",
        package=package,
        version=version,
        sha512=sha512,
        file="package/dynoxide",
    )


def dynoxide_command() -> str:
    """The path of a dynoxide: fetched, else built here, else on PATH. Raises DynoxideMissing.

    Each of the two versions serves the files of the other.
    """
    ready = prebuilt()
    if ready is not None and ready.is_there():
        return str(ready.folder / "dynoxide")
    found = str(_built()) if _built().is_file() else shutil.which("dynoxide")
    if found is None:
        remedy = REMEDY if ready is None else f"Run: make setup, which fetches {ready.title}."
        raise DynoxideMissing(f"There is no dynoxide. {remedy}")
    return found


def crate_command() -> str:
    """The path of the crate's version that was built here. Raises DynoxideMissing."""
    if not _built().is_file():
        raise DynoxideMissing(f"dynoxide {CRATE_VERSION} is not built. {REMEDY}")
    return str(_built())


def _built() -> Path:
    return _built_root() / "bin" / "dynoxide"


def _built_root() -> Path:
    # Not in the environment that Photon is installed in: each would build it for minutes.
    return Path.home() / ".cache" / "photon" / f"dynoxide-{CRATE_VERSION}"


def main(arguments: Sequence[str]) -> int:
    """Build the crate's version unless that is done: 1 if it fails, 0 without cargo.

    With `--path` print the path of the one that is used: 1 if there is none.
    """
    try:
        print(dynoxide_command() if "--path" in arguments else crate_command())
        return 0
    except DynoxideMissing as missing:
        cargo = shutil.which("cargo")
        if cargo is None or "--path" in arguments:
            print(missing, file=sys.stderr)
            return 1 if "--path" in arguments else 0
    print(f"building dynoxide {CRATE_VERSION} with cargo (about five minutes on two cores)", flush=True)
    command = [cargo, "install", "dynoxide-rs", "--locked", "--quiet", "--version", CRATE_VERSION]
    built = subprocess.run(
        [*command, "--root", str(_built_root())],
        env={**_PROFILE, **os.environ},
        check=False,
        preexec_fn=bound_to_this_thread(),
    )
    if built.returncode != 0:
        print("photon.toolchain.dynoxide: cargo could not build it; what it said is above", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
