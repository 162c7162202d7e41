"""How long the planning of a batch takes with many growing files: look, cut a range of each, store the plan.

    python bench/plan_many_files.py [FILES]

The target is 0.2 s for 2,000 files that all grew. Half of the files are primary logs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from photon.dispatcher.log_reader import LogReader
from photon.dispatcher.planning import budget
from photon.pipeline.file import load_pipeline
from photon.state.dispatcher_state import Completion, DispatcherState
from photon.state.plan import Plan, PlanContent
from photon.tokens import PlanKey, new_id

ROUNDS = 6
PIPELINE = """
name: many
datacenters: {here: {logs: logs}}
primary: {files: "queries/**/*.jsonl", format: jsonl, id: id, time: time}
foreign: {files: "clicks/**/*.jsonl", format: jsonl, id: id, key: query, time: time}
"""
LINE = b'{"id": "0123456789", "time": 1700000000.123, "query": "the words of a query"}\n'


def main(count: int) -> None:
    """Measure with `count` files and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = many_files(folder, count)
        pipeline = load_pipeline(folder / "pipeline.yaml")
        state = DispatcherState(folder / "state")
        state.begin_epoch("many", "here", "e", 0, False)
        reader = LogReader(pipeline, "here", state.files(), state)
        for turn in range(ROUNDS):
            for i, path in enumerate(paths):
                with path.open("ab") as file:
                    file.write(f"{i}:".encode() + LINE * 10)
            seconds, plan = _plan(reader, state, turn)
            assert len(plan.advances) == count
            state.complete(plan, Completion())
            reader.advance(plan.advances, {})
            print(f"{count} files, {'first look' if turn == 0 else 'all grew'}: planned in {seconds:.3f} s")


def many_files(folder: Path, count: int) -> list[Path]:
    """A pipeline file, and the paths of `count` log files, half of them primary, in folders of 20 servers."""
    (folder / "pipeline.yaml").write_text(PIPELINE)
    kinds = ("queries", "clicks")
    paths = [folder / "logs" / kinds[i % 2] / f"server{i % 20}" / f"{i}.jsonl" for i in range(count)]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    return paths


def _plan(reader: LogReader, state: DispatcherState, turn: int) -> tuple[float, Plan]:
    """What the dispatcher does to plan a batch, and how long it took."""
    start = time.perf_counter()
    reader.look(turn, final=False)
    foreign_bytes, _ = budget(reader.limits, 0, state.waiting.count())
    primary = reader.cut("primary", reader.limits.batch_primary_bytes, 2**62)
    foreign = reader.cut("foreign", foreign_bytes, 2**62)
    content = PlanContent(primary=primary.ranges, foreign=foreign.ranges)
    key = PlanKey("here", "e", state.completed + 1, new_id())
    plan = Plan(key, content, primary.advances + foreign.advances)
    state.store_plan(plan)
    return time.perf_counter() - start, plan


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
