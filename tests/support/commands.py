"""Commands of `photon` within a test's process."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from photon.cli.main import main


def photon(*words: str | Path, said: str | None = None) -> Result:
    """Run a command to its end. `said`: what is typed at it."""
    return CliRunner().invoke(main, [str(word) for word in words], input=said)
