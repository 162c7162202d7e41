"""Errors that a user can mend. Everything else that is raised and not caught is a defect of Photon.

Each room derives its own errors from these. Values that a caller is expected to handle are no errors.
"""

from __future__ import annotations

import re

WRONG_USAGE, NOT_DONE, ADAPTER_FAILED, NOT_MEANT = 2, 3, 4, 5
DEFECT = 70  # EX_SOFTWARE of sysexits.h


def without_passwords(text: str) -> str:
    """The text with *** for each password of a URL in it.

    Also where the password has a slash of its own, which should have been %2F.
    """
    return re.sub(r"(?<=://)([^\s/:@\"']*):[^\s@\"']*(?=@)", r"\1:***", text) if "://" in text else text


class UserError(Exception):
    """The message names the thing, what was expected and what to do; `exit_status` ends a command.

    It tells no password, wherever it is stored or shown.
    """

    exit_status = NOT_DONE

    def __str__(self) -> str:
        return without_passwords(super().__str__())


class WrongUsage(UserError):
    """A user has written something that can't be used."""

    exit_status = WRONG_USAGE


class FormatTooNew(UserError):
    """A newer Photon wrote something that this one would misread."""

    def __init__(self, what: object, written: int, known: int, remedy: str = "use the newer Photon") -> None:
        super().__init__(f"{what} has format {written}, this Photon knows up to {known}: {remedy}")
