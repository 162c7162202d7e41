"""Find the Java that Spark runs on."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from photon.process.errors import UserError

JAVA_AT_LEAST = 17
JAVA_REMEDY = (
    f"Install Java {JAVA_AT_LEAST} (for example: apt-get install openjdk-17-jre-headless) or set JAVA_HOME."
)


class JavaMissing(UserError):
    """There is no Java that Spark can run on; the message names the remedy."""


@functools.cache
def java_command() -> str:
    """Return the path of a `java` that is new enough: that of JAVA_HOME if it is set, else the one on PATH.

    Raises JavaMissing, with the remedy, where there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    where = f"in JAVA_HOME ({home})" if home else "on PATH"
    if found is None:
        raise JavaMissing(f"There is no java {where}. {JAVA_REMEDY}")
    # The answer goes to standard error, by old custom.
    answer = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = java_version(answer.stderr)
    if answer.returncode != 0 or version is None:
        raise JavaMissing(f"{found} does not run. {JAVA_REMEDY}")
    if version < JAVA_AT_LEAST:
        raise JavaMissing(f"{found} is Java {version}, too old for Spark. {JAVA_REMEDY}")
    return found


def java_version(answer: str) -> int | None:
    """Return the major version in what `java -version` says, or None if it says none."""
    # Up to Java 8 versions were called 1.8 and the like.
    match = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(match[1]) if match else None
