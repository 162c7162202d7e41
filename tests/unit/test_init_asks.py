"""`photon init` at a terminal: it asks what nobody can tell from the logs, and offers what is likely."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

from photon.pipeline.file import load_pipeline

QUERIES = "".join(f"q{i},{1_767_607_200 + i}\n" for i in range(9))
CLICKS = "".join(f"i{i},c{i},q{i % 9},{1_767_607_200 + i}\n" for i in range(40))


def answered(folder: Path, answers: str) -> str:
    """Run the command at a terminal where a person types these answers, and return its output."""
    (folder / "a.csv").write_text("query_id,at\n" + QUERIES)
    (folder / "b.csv").write_text("impression_id,view_id,query_id,at\n" + CLICKS)
    keyboard, terminal = pty.openpty()
    command = [sys.executable, "-m", "photon.cli.main", "init", "a.csv", "b.csv"]
    try:
        os.write(keyboard, answers.encode())
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=terminal,
            stderr=terminal,
            stdout=subprocess.PIPE,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0
        return os.read(keyboard, 2**16).decode()
    finally:
        os.close(terminal)
        os.close(keyboard)


def test_an_answer_at_a_terminal_is_taken_and_what_is_likely_is_offered(tmp_path: Path) -> None:
    shown = answered(tmp_path, "view_id\n")
    assert "several columns are unique and look like an id" in shown
    assert "likely: --foreign-id impression_id" in shown
    assert load_pipeline(tmp_path / "pipeline.yaml").foreign.id == ("view_id",)


def test_return_alone_takes_the_likeliest(tmp_path: Path) -> None:
    answered(tmp_path, "\n")
    assert load_pipeline(tmp_path / "pipeline.yaml").foreign.id == ("impression_id",)
