"""dynoxide, a small and fast server with the DynamoDB API: where it is.

`make dynoxide` fetches a program that is ready to run, where there is one for the machine. This module as a
program prints the path of the one that is used.
"""

from __future__ import annotations

import platform
import shutil
import sys

from photon.process.errors import UserError
from photon.toolchain.fetched import share_dir
from photon.toolchain.npm import NpmProgram

# Packages of the npm registry, by system and processor as Python names them: package, version, hash. There is
# none for Linux on ARM nor for macOS; each is a line here as soon as there is.
_PREBUILT = {
    ("Linux", "x86_64"): (
        "@dynoxide/linux-x64",
        "1.2.1",
        "sBHqlxJ9ANkLluFkYRfd5r8Y0ApFew4FhOrlhgRAgD4XzEoFOukEo1nuBTQ1+jTtofqwn4NWQ2k0Tn5mNTjgUg==",
    ),
}


class DynoxideMissing(UserError):
    """There is no dynoxide on this machine; the message names the remedy."""


def prebuilt() -> NpmProgram | None:
    """Return the program that is ready for this machine, a static binary of 7.6 MB; None if there is none."""
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
    """Return the path of a dynoxide: fetched, else on PATH. Raises DynoxideMissing.

    Other versions serve the same files.
    """
    ready = prebuilt()
    if ready is not None and ready.is_there():
        return str(ready.folder / "dynoxide")
    found = shutil.which("dynoxide")
    if found is None:
        remedy = "Put one on PATH." if ready is None else f"Run: make dynoxide, which fetches {ready.title}."
        raise DynoxideMissing(f"There is no dynoxide. {remedy}")
    return found


def main() -> int:
    """Print the path of the dynoxide that is used; return 1 if there is none."""
    try:
        print(dynoxide_command())
    except DynoxideMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
