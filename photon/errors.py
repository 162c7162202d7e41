"""Errors that a user can mend. Everything else that is raised and not caught is a defect of Photon.

Each room derives its own errors from these. Values that a caller is expected to handle are no errors.
"""

from __future__ import annotations

WRONG_USAGE, NOT_DONE, ADAPTER_FAILED, NOT_MEANT = 2, 3, 4, 5
DEFECT = 70  # EX_SOFTWARE of sysexits.h


class UserError(Exception):
    """The message names the thing, what was expected and what to do; `exit_status` ends a command."""

    exit_status = NOT_DONE


class WrongUsage(UserError):
    """A user has written something that can't be used."""

    exit_status = WRONG_USAGE


class FormatTooNew(UserError):
    """A newer Photon wrote something that this one would misread."""

    def __init__(self, what: object, written: int, known: int, remedy: str = "use the newer Photon") -> None:
        super().__init__(f"{what} has format {written}, this Photon knows up to {known}: {remedy}")
