"""Pages whose commands are run as they stand there, by a user who has installed Photon."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from tests.documents import ROOT, Block, blocks

PATIENCE_SECONDS = 1500.0
# The first ones made and entered .venv; the last waits for Ctrl-C.
LEFT_OUT = r"^(?:make setup\n|source \.venv/bin/activate\n|photon ui .*\n)"


def shell_of(document: str) -> list[Block]:
    """The blocks of shell of a document."""
    return [block for block in blocks(document) if block.language == "bash"]


def without_spark(commands: Sequence[Block]) -> list[Block]:
    """The same blocks, whose joins run as where Spark is not installed."""
    local = ((one, one.text.replace("photon join", "photon join --engine local")) for one in commands)
    return [Block(one.section, one.language, text) for one, text in local]


def follow(
    commands: Sequence[Block], folder: Path, variables: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Run blocks of shell in a folder like a checkout, and return what they print.

    `variables`: the environment that finds an installed Photon; else it is this process's.
    """
    for name in ("examples", "infra"):
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    script = "".join(block.text for block in commands)
    script = re.sub(LEFT_OUT, "", script, flags=re.MULTILINE)
    (folder / "page.sh").write_text(f"set -euxo pipefail\n{script}")
    ours = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.environ.get("PYTHONPATH", "") or str(ROOT),
    }
    environment = dict(variables) or ours
    with (folder / "said").open("w") as said:
        shell = subprocess.Popen(
            ["bash", "page.sh"], cwd=folder, stdout=said, stderr=said, start_new_session=True, env=environment
        )
        try:
            status = shell.wait(PATIENCE_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
    text = (folder / "said").read_text()
    assert status == 0, text[-5_000:]
    return text
