"""Measures left outer joins of two logs that grow step by step, with one ill: Photon's, Spark's and Flink's.

What is right is read from the very lines, in plain Python. Seconds are those of CPU, in sessions that have
started: Flink follows the logs, and waits for them meanwhile.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import yaml
from click.testing import CliRunner
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.join_contenders import Flink, JoinFailed, Photon
from bench.join_flink import COMMON, IN_TIME, STATES
from bench.join_logs import LONGEST_LAG_MS, SPAN_MS, START_MS, JoinLogs
from bench.join_measurement import Progress
from bench.join_peers import CORES, MEMORY, SESSION
from bench.join_rows import CommitWatch, read_rows
from bench.timing import family_cpu_seconds, timed
from photon import read
from photon.cli.main import main
from photon.jobs.session import build_session, stop_session

ILLS = ("late", "reordered", "idle")
MINUTE_MS, STEP_MS = 60_000, 3_600_000
DELAY_MINUTES = 10  # so long watermarks wait
LAST, LAST_MS = "last", START_MS + 2 * SPAN_MS  # nobody counts it; it moves watermarks beyond all others
CLICKED_SHARE, LATE_SHARE, SHUFFLED_SHARE, FAR_SHARE = 0.5, 0.05, 0.3, 0.02
COLUMNS = {"queries": "query_id STRING, `time` BIGINT"}
COLUMNS["clicks"] = f"click_id STRING, {COLUMNS['queries']}"
STARTS_SECONDS, QUIET_SECONDS, PAUSE_SECONDS, IDLE_SECONDS = 240.0, 20.0, 2.0, 10.0  # of Flink's

Step = Mapping[str, Sequence[str]]  # the lines that come to each log
Row = tuple[str, str | None]  # a query with its click, or without one


def steps_of(ill: str, queries: int, seed: int) -> list[Step]:
    """The lines of both logs in the order in which they come."""
    steps: dict[int, dict[str, list[str]]] = {}
    for comes_ms, name, query, time_ms in sorted(_lines(ill, queries, Random(seed))):
        click = {"click_id": f"click of {query}"} if name == "clicks" else {}
        step = steps.setdefault((comes_ms - START_MS) // STEP_MS, {"queries": [], "clicks": []})
        step[name].append(json.dumps({**click, "query_id": query, "time": time_ms}) + "\n")
    return list(steps.values())


def _lines(ill: str, queries: int, chance: Random) -> Iterator[tuple[int, str, str, int]]:
    """When each line comes, its log, its query and its time."""
    for number in range(queries):
        asked_ms = START_MS + number * SPAN_MS // queries
        yield _comes_ms(ill, "queries", asked_ms, chance), "queries", f"q{number}", asked_ms
        clicked_ms = asked_ms + chance.randint(1, LONGEST_LAG_MS)
        is_silent = ill == "idle" and asked_ms >= START_MS + SPAN_MS - STEP_MS
        if chance.random() < CLICKED_SHARE and not is_silent:
            yield _comes_ms(ill, "clicks", clicked_ms, chance), "clicks", f"q{number}", clicked_ms
    for name in ("queries",) if ill == "idle" else ("queries", "clicks"):
        yield LAST_MS, name, LAST, LAST_MS


def _comes_ms(ill: str, name: str, time_ms: int, chance: Random) -> int:
    drawn, minutes = chance.random(), (0, 0)
    if ill == "late" and name == "clicks" and drawn < LATE_SHARE:
        minutes = 70, 90
    if ill == "reordered" and drawn < SHUFFLED_SHARE:
        minutes = (DELAY_MINUTES, 3 * DELAY_MINUTES) if drawn < FAR_SHARE else (0, DELAY_MINUTES)
    comes_ms = time_ms + chance.randint(minutes[0] * MINUTE_MS, minutes[1] * MINUTE_MS)
    # None comes when the others have ended: no watermark would be beyond it.
    return comes_ms if comes_ms < START_MS + SPAN_MS else time_ms


def judge(rows: Iterable[Row], steps: Iterable[Step]) -> dict[str, int]:
    """Compare all rows of a join with what the lines of both logs say.

    Lost: queries that are neither matched nor unmatched. Doubled: rows beyond the first of a pair or a query,
    and queries that are both. Wrong: unmatched queries that a click names, and rows that no line tells.
    """
    lines = {name: [json.loads(line) for step in steps for line in step[name]] for name in COLUMNS}
    queries = {query["query_id"] for query in lines["queries"]} - {LAST}
    clicked = {(click["query_id"], click["click_id"]) for click in lines["clicks"]}
    counts = Counter(row for row in rows if row[0] != LAST)
    matched, unmatched = ({row[0] for row in counts if (row[1] is None) is alone} for alone in (False, True))
    told = clicked | {(query, None) for query in queries - {query for query, _ in clicked} | matched}
    return {
        "lost": len(queries - matched - unmatched),
        "doubled": counts.total() - len(counts) + len(matched & unmatched),
        "wrong": len(counts.keys() - told),
    }


def by_photon(folder: Path, steps: Sequence[Step], is_helped: bool) -> tuple[list[Row], float]:
    """`photon join` and `photon unmatched` at each step, on two files that grow."""
    pipeline, logs = folder / "pipeline.yaml", folder / "logs" / "one" / "growing"
    settings = {**Photon("photon", folder, ["one"]).settings(), "unmatched": {"after": f"{DELAY_MINUTES}m"}}
    del settings["command"]
    pipeline.write_text(yaml.safe_dump(settings))
    logs.mkdir(parents=True)

    def join(until: str) -> None:
        for name, *more in (["join", until, "--engine", "local", "-d", "one"], ["unmatched"]):
            done = CliRunner().invoke(main, [name, str(pipeline), *more])
            if done.exit_code:
                raise JoinFailed(f"photon {name} ended with {done.exit_code}: {done.output[-500:]}")

    with timed(family_cpu_seconds) as spent:
        for step in steps:
            for name, lines in step.items():
                with (logs / f"{name}-.jsonl").open("a") as file:
                    file.writelines(lines)
            join("--until-idle")
        if is_helped:
            join("--complete")
    pairs = read.joined(pipeline, release="latest").to_table(columns=["_primary_id", "_event_id"])
    alone = read.unmatched(pipeline).to_table(columns=["primary_id"])["primary_id"].to_pylist()
    return [*_rows(pairs), *((query, None) for query in alone)], spent.cpu_seconds


def by_spark(folder: Path, steps: Sequence[Step], is_helped: bool) -> tuple[list[Row], float]:
    """A stream-stream join, which takes all that has come at each step, from its checkpoint on."""
    policy = {"spark.sql.streaming.multipleWatermarkPolicy": "max" if is_helped else "min"}
    session = build_session("bench outer", f"local[{CORES}]", SESSION | MEMORY | policy)

    def stream(name: str) -> DataFrame:
        lines = session.readStream.schema(COLUMNS[name]).json(str(folder / name))
        lines = lines.withColumn(f"{name}_time", F.timestamp_millis("time"))
        return lines.withWatermark(f"{name}_time", f"{DELAY_MINUTES} minutes").alias(name)

    in_time = f"BETWEEN queries_time AND queries_time + interval {LONGEST_LAG_MS // 1_000} seconds"
    on = F.expr(f"queries.query_id = clicks.query_id AND clicks_time {in_time}")
    try:
        with timed(family_cpu_seconds) as spent:
            for number, step in enumerate(steps):
                _add(folder, number, step)
                rows = stream("queries").join(stream("clicks"), on, "left_outer")
                writer = rows.select("queries.query_id", "click_id").writeStream.format("delta")
                writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
                writer.trigger(availableNow=True).start(str(folder / "joined")).awaitTermination()
    finally:
        stop_session(session)
    return _rows(read_rows([folder / "joined"], ["query_id", "click_id"])), spent.cpu_seconds


def by_flink(folder: Path, steps: Sequence[Step], is_helped: bool) -> tuple[list[Row], float]:
    """One interval join, which follows two folders; the lines of each step come soon after those before."""
    more = {"table.exec.source.idle-timeout": f"{IDLE_SECONDS:g} s"} if is_helped else {}
    job, watch = Flink("flink_outer", folder, _plan(folder, more)), CommitWatch([folder / "joined"])
    try:
        job.begin(JoinLogs(0, 0), lambda _: None, lambda _: _add(folder, 0, steps[0]))
        with timed(family_cpu_seconds) as spent:
            watch.wait(lambda: watch.rows > 0, STARTS_SECONDS)
            for number, step in enumerate(steps[1:], start=1):
                _add(folder, number, step)
                time.sleep(PAUSE_SECONDS)
            watch.wait(lambda: False, QUIET_SECONDS)
    finally:
        job.stop()
    return _rows(read_rows([folder / "joined"], ["query_id", "click_id"])), spent.cpu_seconds


def _plan(folder: Path, more: dict[str, str]) -> dict[str, Any]:
    """The work of `flink_join`: in one task, as another one without lines would hold watermarks."""
    often = {"parallelism.default": "1", "execution.checkpointing.interval": "1 s"}
    files, where = "'connector' = 'filesystem', 'path' =", folder.as_uri()
    ends = [
        "CREATE TEMPORARY TABLE nowhere (`number` INT) WITH ('connector' = 'blackhole')",
        "INSERT INTO nowhere VALUES (1)",
    ]
    statements = [
        f"CREATE TEMPORARY TABLE {name} ({columns}, event_time AS TO_TIMESTAMP_LTZ(`time`, 3),"
        f" WATERMARK FOR event_time AS event_time - INTERVAL '{DELAY_MINUTES}' MINUTE) WITH ({files}"
        f" '{where}/{name}', 'format' = 'json', 'source.monitor-interval' = '200 ms')"
        for name, columns in COLUMNS.items()
    ]
    statements += [
        f"CREATE TEMPORARY TABLE joined (query_id STRING, click_id STRING) WITH ({files} '{where}/joined',"
        " 'format' = 'parquet')",
        "INSERT INTO joined SELECT q.query_id, c.click_id FROM queries AS q LEFT JOIN clicks AS c"
        f" ON q.query_id = c.query_id AND {IN_TIME}",
    ]
    return {
        "configuration": COMMON | STATES["flink_heap"] | often | more,
        "warm_up": {"statements": ends, "checkpoints": str(folder / "warm_up")},
        "measured": {"statements": statements, "checkpoints": str(folder / "checkpoint")},
    }


def _add(folder: Path, number: int, step: Step) -> None:
    """Add each log's lines as a file, which is there at once and whole."""
    for name, lines in step.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / "to_come").write_text("".join(lines))
        (folder / "to_come").rename(folder / name / f"{number:03d}.jsonl")


def _rows(table: pa.Table) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


# Each with what helps it where a log is idle.
JOINS = {
    "Photon": (by_photon, "photon join --complete"),
    "Spark": (by_spark, "multipleWatermarkPolicy max"),
    "Flink": (by_flink, "table.exec.source.idle-timeout"),
}


def measure_outer(folder: Path, queries: int, seed: int, progress: Progress) -> list[dict[str, Any]]:
    """Each join of the logs of each ill, in turn; those of an idle log again with what helps against it."""
    found = []
    for ill, is_helped in [*((ill, False) for ill in ILLS), ("idle", True)]:
        steps = steps_of(ill, queries, seed)
        for name, (join, help_of) in JOINS.items():
            run: dict[str, Any] = {"join": name, "ill": f"{ill}, {help_of}" if is_helped else ill}
            (place := folder / f"{ill}_{is_helped:d}_{name}").mkdir()
            try:
                rows, seconds = join(place, steps, is_helped)
                run |= judge(rows, steps) | {"cpu_seconds": round(seconds, 1)}
            except JoinFailed as error:
                run["failed"] = str(error)
            found.append(run)
            progress(str(run))
    return found
