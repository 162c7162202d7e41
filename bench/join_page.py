"""The page of a comparison of joins: its tables, as Markdown, from what `measure_joins` found."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from bench.join_flink import STATES, WATERMARK_HOURS
from bench.join_measurement import LITTLE_PER_TRIGGER
from bench.join_plot import AXES, cost_curve, cpu_us, draw_curves, draw_throughput

TITLES = {
    "photon": "Photon, one datacenter",
    "photon_racing": "Photon, two datacenters racing",
    "stream_memory": "Spark stream-stream join, state in memory",
    "stream_rocksdb": "Spark stream-stream join, state in RocksDB",
    "batch": "Spark batch join",
    "flink_heap": "Flink SQL interval join, state on the heap",
    "flink_rocksdb": "Flink SQL interval join, state in RocksDB",
}
SCENARIOS = {
    "late": "one query in 20 comes at the end, an hour late or more",
    "out_of_order": "files come in another order than their events",
    "idle": "one file of queries has some of the first and grows no more",
    "kill": "kill -9 in the middle, then a start",
}
FLINK = (
    f"Flink's watermark waits for {WATERMARK_HOURS} hours, longer than the logs span, since its source reads"
    " the files of a folder in no order. So it loses nothing, and keeps both logs in its state. In a trial"
    " with the 10 minutes of Spark's streams it lost 5,995 of 10,000 rows."
)
Found = Mapping[str, Any]


def write_page(page: Path, found: Found, command: str) -> None:
    """Write the page, its numbers as JSON and its plots; what is written by hand stays in its own file."""

    def beside(what: str) -> Path:
        return page.with_name(f"{page.stem}-{what}")

    page.with_suffix(".json").write_text(json.dumps(found, indent=2) + "\n")
    for what in ("throughput.svg", "curves.svg"):
        beside(what).unlink(missing_ok=True)  # an earlier run's
    links = [f"- [All numbers, and settings beyond the defaults]({page.with_suffix('.json').name})"]
    if found["runs"]:
        draw_throughput(found, TITLES, beside("throughput.svg"))
    if found["curves"]:
        draw_curves(found, beside("curves.svg"))
    pictures = {
        "throughput.svg": (bool(found["runs"]), "Throughput of each join"),
        "curves.svg": (bool(found["curves"]), "Photon's cost by history, files and cores"),
        "live.svg": (beside("live.svg").is_file(), "Live delay, by `python -m bench live --plot`"),
    }
    links += [f"- [{text}]({beside(what).name})" for what, (there, text) in pictures.items() if there]
    if beside("notes.md").is_file():
        links.append(f"- [Notes by hand]({beside('notes.md').name}), also of other runs")
    page.write_text(page_of(found, command) + "\n".join(["", "## Beside this page", "", *links, ""]))


def page_of(found: Found, command: str) -> str:
    """The tables of one run."""
    sizes = found["sizes"]
    parts = [
        "# Benchmarks",
        f"`{command}` writes this page: one run on one machine, each join in turn.",
        "## Joining complete logs",
        f"{sizes['primary']:,} queries and {sizes['foreign']:,} clicks in JSON lines of 20 columns,"
        f" {found['bytes'] / 1e6:,.0f} MB. One click in 100 is logged twice, and is to be joined once."
        " All columns of both are in the rows, which are compared with those that the generator knows.",
        "*Seconds* go from the moment when all files are there to the commit of the last row, in a session"
        " that has joined before. *CPU* is that of all processes meanwhile, the registry's included. *Load*"
        " is the load average before; the join before it is some 2 to 3 of that. Two datacenters that race"
        " have a full copy of the logs each, on the same cores.",
        _table(list(_rows(found))),
        *([FLINK] if any(run["contender"] in STATES for run in found["runs"]) else []),
        *(_hurts(found) if found["hurts"] else []),
        *(_curves(found) if found["curves"] else []),
        *([_left_out(found["left_out"])] if found["left_out"] else []),
        "## Where and with what",
        _table(list(_circumstances(found))),
    ]
    return "\n\n".join(parts) + "\n"


def _left_out(left_out: Mapping[str, str]) -> str:
    """One sentence for each reason."""
    runs = {why: ", ".join(run for run in left_out if left_out[run] == why) for why in left_out.values()}
    return " ".join(f"Left out: {of_it} ({why})." for why, of_it in runs.items())


def _hurts(found: Found) -> list[str]:
    sizes = found["sizes"]
    return [
        "## What hurts",
        f"Late, out of order, and idle: {sizes['late_primary']:,} queries and {sizes['late_foreign']:,}"
        f" clicks, of which a stream of Spark's takes {LITTLE_PER_TRIGGER} files of each log at a time."
        " A kill comes at half of the time that the join took above; the seconds hold the new start.",
        _table(list(_hurt_rows(found))),
    ]


def _curves(found: Found) -> list[str]:
    sizes = found["sizes"]
    return [
        "## What Photon costs by history, files and cores",
        f"One datacenter, {sizes['late_primary']:,} queries and {sizes['late_foreign']:,} clicks. Each part"
        " of the table changes one thing alone.",
        _table(list(_curve_rows(found))),
    ]


def _curve_rows(found: Found) -> Iterator[Sequence[str]]:
    yield "by", "", "seconds", "CPU a query, us", "lost, doubled, wrong"
    for axis, words in AXES.items():
        for value, run in cost_curve(found, axis):
            yield words, f"{value:,}", f"{run['seconds']:.1f}", _number(cpu_us(found, run)), _faults(run)


def _rows(found: Found) -> Iterator[Sequence[str]]:
    yield "join", "seconds", "CPU", "load", "events/s", "times the faster stream", "lost, doubled, wrong"
    names = dict.fromkeys(run["contender"] for run in found["runs"])
    for name in names:
        runs = [run for run in found["runs"] if run["contender"] == name]
        yield (
            TITLES[name],
            " and ".join(f"{run['seconds']:.1f}" for run in runs),
            " and ".join(_number(run["cpu_seconds"]) for run in runs),
            " and ".join(_number(run["load_average"]) for run in runs),
            f"{mean(run['events_per_second'] for run in runs):,.0f}",
            _number(found["ratios"][name].get("faster_stream"), 2),
            " and ".join(dict.fromkeys(_faults(run) for run in runs)),
        )


def _hurt_rows(found: Found) -> Iterator[Sequence[str]]:
    yield "what", "join", "seconds", "lost, doubled, wrong"
    said = None
    for run in found["hurts"]:
        what = SCENARIOS[run["scenario"]]
        yield what if what != said else "", TITLES[run["contender"]], f"{run['seconds']:.1f}", _faults(run)
        said = what


def _circumstances(found: Found) -> Iterator[Sequence[str]]:
    machine, loads = found["machine"], [run["load_average"] for run in all_runs(found)]
    yield "", ""
    yield "when", f"{found['measured_at']}, {found['took_seconds'] / 60:.0f} minutes"
    yield (
        "machine",
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}",
    )
    if loads:
        yield "load average before the runs", f"{min(loads):.1f} to {max(loads):.1f}"
    yield "versions", ", ".join(f"{name} {text}" for name, text in found["versions"].items())


def all_runs(found: Found) -> list[Found]:
    """All runs of a comparison."""
    return [*found["runs"], *found["hurts"], *(one["run"] for one in found["curves"])]


def _faults(run: Found) -> str:
    found = run["found"]
    faults = [found["lost"], found["doubled"], found["wrong"]]
    return ", ".join(f"{count:,}" for count in faults) if any(faults) else "none"


def _number(value: float | None, digits: int = 1) -> str:
    return "?" if value is None else f"{value:.{digits}f}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    """One Markdown table; its first row names the columns."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "| " + " | ".join("---" for _ in rows[0]) + " |", *lines[1:]])
