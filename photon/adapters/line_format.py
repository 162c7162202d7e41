"""The class that a user's own log format is made of: one method reads a line.

A pipeline file names it: `format: module:Class`, also from a module beside the file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping


class LineFormat(ABC):
    """A format of logs in which every line is one record that names its own values, such as logfmt.

    Photon makes one instance in each process, without arguments. The same line must always give the same
    values: a record is read again whenever its event is looked at.
    """

    @abstractmethod
    def values(self, line: str) -> Mapping[str, str | None]:
        """The values of a line by column, as text; None or no entry where the line has none.

        `line` has no line end and is not blank. Whatever is raised makes the line a dead letter, with the
        message as its reason: ValueError("no = in a pair").
        """
