"""Run programs on a terminal, for tests of the output that people see there."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Sequence

PATIENCE_SECONDS = 60.0


def shown_on_terminal(command: Sequence[str], output_too: bool = False, **environment: str) -> str:
    """Run a command with a terminal as standard error; return the terminal's text.

    `output_too`: the terminal is its standard output as well, else that is a pipe.
    """
    # The terminal of the person who runs the tests changes nothing.
    known = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM", "COLUMNS")}
    known |= {"TERM": "xterm-256color", **environment}
    reader, writer = os.openpty()
    pieces: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(reader, 65_536):
                pieces.append(piece)
        except OSError:  # nobody has the terminal open any more
            return

    reading = threading.Thread(target=read)
    reading.start()
    try:
        subprocess.run(
            command,
            stdout=writer if output_too else subprocess.PIPE,
            stderr=writer,
            env=known,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
    finally:
        os.close(writer)
        reading.join()
        os.close(reader)
    return b"".join(pieces).decode()
