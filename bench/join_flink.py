"""Flink SQL's interval join of the logs of `join_logs`: its settings and its statements.

They are run by `flink_join`, in Flink's own environment.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from bench.join_logs import FOREIGN_INTEGERS, LONGEST_LAG_MS, PREFIX, PRIMARY_INTEGERS, JoinLogs

CORES = os.cpu_count() or 1  # all, as the others
# More than all logs span. Its source reads the files of a folder in no order: with 10 minutes, as Spark's
# streams have, the watermark passed most events before they were read, and 5,995 of 10,000 rows were lost.
WATERMARK_HOURS = 5
LAG_SECONDS = LONGEST_LAG_MS // 1_000

COMMON = {
    "parallelism.default": str(CORES),
    "pipeline.object-reuse": "true",
    "execution.runtime-mode": "streaming",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "execution.checkpointing.interval": "30 s",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "taskmanager.memory.managed.size": "2 gb",
    "taskmanager.memory.network.max": "256 mb",
    "taskmanager.memory.network.min": "256 mb",
}
STATES = {
    "flink_heap": {"state.backend.type": "hashmap"},
    "flink_rocksdb": {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.predefined-options": "FLASH_SSD_OPTIMIZED",
        "state.backend.rocksdb.timer-service.factory": "HEAP",
        "execution.checkpointing.incremental": "true",
    },
}
IN_TIME = f"c.event_time BETWEEN q.event_time AND q.event_time + INTERVAL '{LAG_SECONDS}' SECOND(3)"
# Flink orders by the time of reading, without mini-batches: with them it may take back rows, and fail.
FIRST_OF_EACH = (
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY click_id ORDER BY seen ASC) AS number"
    " FROM clicks) WHERE number = 1"
)
_INTEGERS = {"queries": PRIMARY_INTEGERS, "clicks": FOREIGN_INTEGERS}


def configuration_of(name: str) -> dict[str, str]:
    """The settings that Flink is given beyond its defaults."""
    return COMMON | STATES[name]


def told() -> dict[str, str]:
    """All else that a reader has to know to run the same join."""
    return {
        "watermark of both logs": f"{WATERMARK_HOURS} hours: the source reads files in no order",
        "join": IN_TIME,
        "duplicates": FIRST_OF_EACH,
        "sink": "filesystem, parquet: files are visible as soon as a checkpoint is complete",
    }


def plan_of(name: str, folder: Path) -> dict[str, Any]:
    """The work of `flink_join` for a contender in its folder."""
    return {
        "configuration": configuration_of(name),
        "warm_up": {
            "statements": statements(folder / "warm_up", folder / "warm_up_table"),
            "checkpoints": str(folder / "warm_up_checkpoint"),
        },
        "measured": {
            "statements": statements(folder / "measured", folder / "table"),
            "checkpoints": str(folder / "checkpoint"),
        },
    }


def statements(logs: Path, table: Path) -> list[str]:
    """Two logs as tables, the table of rows, and the join that fills it."""
    clicks, queries = _columns("clicks"), _columns("queries")
    rows = clicks | {PREFIX + name: kind for name, kind in queries.items()}
    wanted = [f"c.`{name}`" for name in clicks] + [f"q.`{name}`" for name in queries]
    return [
        _log(logs, "queries"),
        _log(logs, "clicks"),
        f"CREATE TEMPORARY TABLE joined ({_declared(rows)})"
        f" WITH ('connector' = 'filesystem', 'path' = '{table.as_uri()}', 'format' = 'parquet')",
        f"INSERT INTO joined SELECT {', '.join(wanted)} FROM ({FIRST_OF_EACH}) AS c JOIN queries AS q"
        f" ON c.query_id = q.query_id AND {IN_TIME}",
    ]


def _log(logs: Path, name: str) -> str:
    return (
        f"CREATE TEMPORARY TABLE {name} ({_declared(_columns(name))}, seen AS PROCTIME(),"
        " event_time AS TO_TIMESTAMP_LTZ(`time`, 3),"
        f" WATERMARK FOR event_time AS event_time - INTERVAL '{WATERMARK_HOURS}' HOUR)"
        f" WITH ('connector' = 'filesystem', 'path' = '{logs.as_uri()}', 'format' = 'json',"
        f" 'source.path.regex-pattern' = '.*/{name}-.*')"
    )


def _declared(columns: dict[str, str]) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def _columns(name: str) -> dict[str, str]:
    none, nothing = JoinLogs(primary=1, foreign=0), np.arange(0)
    table = none.queries(nothing) if name == "queries" else none.clicks(nothing)
    return {column: "BIGINT" if column in _INTEGERS[name] else "STRING" for column in table.column_names}
