"""A process's needs of its machine: memory to map, files that may grow, room for temporary ones.

A process that begins without it hangs, is aborted by a library, or ends in the middle of its work. So it is
asked for at the beginning, and what still fails for want of it is told as that, never as a defect.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import tempfile

from photon.process.errors import UserError
from photon.process.pace import size

# Libraries map 2 to 3 GB before the first record is read; below that some abort the process.
LEAST_ADDRESS_BYTES = 4 << 30
LEAST_FILE_BYTES = 1 << 30  # databases and data files grow, and none may stop growing in the middle
LEAST_TEMPORARY_BYTES = 32 << 20  # a JVM that can't write its files there is waited for in vain
JVM_TEMPORARY = "/tmp"  # a JVM's, whatever TMPDIR says
MEMORY_SIGNS = ("failed to map segment", "cannot allocate memory", "can't start new thread")
FILES_REMEDY = "raise the limit in this shell: ulimit -f unlimited"
MEMORY_REMEDY = "raise the limit in this shell: ulimit -v unlimited; or give this machine more memory"


class EnvironmentLacks(UserError):
    """The machine does not give this process what it needs; the message names the remedy."""


def limits_lack() -> EnvironmentLacks | None:
    """Tell of limits of this process under which no join can be carried through."""
    for limit, least, what, remedy in (
        (resource.RLIMIT_AS, LEAST_ADDRESS_BYTES, "map {} of memory", MEMORY_REMEDY),
        (resource.RLIMIT_FSIZE, LEAST_FILE_BYTES, "write files of {}", FILES_REMEDY),
    ):
        given = resource.getrlimit(limit)[0]
        if given != resource.RLIM_INFINITY and given < least:
            may = what.format(size(given))
            return EnvironmentLacks(f"This process may only {may}, and Photon needs {size(least)}: {remedy}")
    return None


def check_temporary_folders() -> None:
    """Refuse to start a JVM where a folder of temporary files is full or not there. EnvironmentLacks."""
    try:
        own = os.environ.get("TMPDIR") or tempfile.gettempdir()
    except FileNotFoundError as error:  # it tried to write in each
        raise EnvironmentLacks(f"No temporary folder can be written ({error}): make room in /tmp") from error
    for folder in dict.fromkeys((own, JVM_TEMPORARY)):
        try:
            free = shutil.disk_usage(folder).free
        except OSError as error:
            raise EnvironmentLacks(
                f"The temporary folder {folder} cannot be used: {error.strerror}: make it, or set TMPDIR"
            ) from error
        if free < LEAST_TEMPORARY_BYTES or not os.access(folder, os.W_OK):
            raise EnvironmentLacks(
                f"The temporary folder {folder} has {size(free)} to write, and Spark needs"
                f" {size(LEAST_TEMPORARY_BYTES)}: make room there, or let this user write there"
            )


def environment_lack(error: BaseException) -> EnvironmentLacks | None:
    """Tell whether something failed for want of memory or of a larger file; what else fails is None."""
    said = str(error)
    if isinstance(error, MemoryError) or any(sign in said for sign in MEMORY_SIGNS):
        said = said or "out of memory"
        return limits_lack() or EnvironmentLacks(
            f"This process gets no more memory ({said}): {MEMORY_REMEDY}"
        )
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        named = error.filename or "A file"
        return EnvironmentLacks(f"{named} may not grow any more ({error.strerror}): {FILES_REMEDY}")
    return None
