"""Commands of an operator on a world: processes of their own, killed at a point or at any moment."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from pathlib import Path

from photon.cli.main import main
from photon.pipeline.file import load_pipeline
from photon.process import faults
from photon.process.lifeline import end_with
from photon.releases.at_once import release_at_end
from photon.upkeep import gc
from photon.upkeep.backfill.rebuild import Rebuild
from photon.upkeep.plans import carry_out
from photon.verification.days import utc_day
from tests.e2e.outages.world import FORKS, PATIENCE_SECONDS, Failed
from tests.simulation.rebuilding import HereProgram

KILLED = -signal.SIGKILL
DONE, VIOLATION, NOT_DONE = 0, 1, 3  # 3: an endpoint, or somebody who is in the way, did not let it


def command(
    folder: Path,
    words: Sequence[str | Path],
    point: str = "",
    kill_after_seconds: float | None = None,
    ends: Sequence[int] = (DONE, NOT_DONE),
    run: Callable[[list[str]], None] | None = None,
) -> int:
    """Run `photon WORDS` to its end, or kill it; its exit status. Failed if it ends otherwise than `ends`.

    What it prints is appended to `folder`/commands.log. `run`: carries the words out instead.
    """
    log = folder / "commands.log"
    process = FORKS.Process(target=_run, args=(list(map(str, words)), point, log, run), daemon=True)
    process.start()
    process.join(PATIENCE_SECONDS if kill_after_seconds is None else kill_after_seconds)
    hangs = process.exitcode is None and kill_after_seconds is None
    process.kill()
    process.join()
    status = process.exitcode
    assert status is not None
    told = log.read_text(errors="replace").splitlines()[-30:]
    if hangs or status not in (KILLED, *ends):
        what = "did not end" if hangs else f"ended with status {status}"
        raise Failed(f"photon {' '.join(map(str, words))} {what}:\n" + "\n".join(told))
    return status


def rebuild_without_spark(words: list[str]) -> None:
    """`photon backfill PIPELINE -d NAME --day DAY --rebuild`, with its tasks in this process."""
    _, file, _, datacenter, _, day, _ = words
    pipeline, window = load_pipeline(file), utc_day(date.fromisoformat(day))
    carry_out(partial(Rebuild, pipeline, datacenter, window, HereProgram(), print), dry_run=False)
    release_at_end(pipeline, datacenter)


def _run(words: list[str], point: str, log: Path, run: Callable[[list[str]], None] | None) -> None:
    end_with(os.getppid())
    with log.open("ab") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    print(f"$ photon {' '.join(words)}" + (f"  # dies at {point}" if point else ""), flush=True)
    if point:
        faults.arm(point)
    gc.GENERATION_BYTES = 8 * 1_024  # this process runs only the command, which has no setting for it
    (run or main)(words)
