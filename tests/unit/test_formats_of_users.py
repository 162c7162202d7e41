"""Formats of users' own: what a class may do, and what each line comes to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from photon.adapters.line_format import LineFormat
from photon.join.adapting import check_modules, fingerprint
from photon.logs.columns import parse_columns
from photon.logs.files import ByteRange, LogFile
from photon.logs.formats.line_formats import FormatNotFound
from photon.logs.parse import parse_ids, read_events
from photon.pipeline.file import Pipeline, PipelineError, load_pipeline
from photon.tracing.log_search import may_contain
from tests.simulation.world import World, assert_counts

PIPELINE = """
name: spans
datacenters: {east: {logs: logs}}
primary: {files: "q*.log", format: "FORMAT", id: trace, time: at}
foreign: {files: "c*.log", format: "FORMAT", id: span, key: trace, time: at, columns: {status: int64}}
"""
AT = 1_700_000_000  # the simulated clock begins here
NAME = "tests.unit.test_formats_of_users"
FILE = LogFile(1, "foreign", "c.log", 1, False, b"", 0, 0, b"")


class Pairs(LineFormat):
    """key=value, parted by blanks; fails as its lines ask it to."""

    def values(self, line: str) -> Mapping[str, str | None]:
        pairs = dict(pair.split("=", 1) for pair in line.split())
        match pairs.get("asks"):
            case "key":
                raise KeyError("no such thing")
            case "exit":
                raise SystemExit("done")
            case "number":
                return {"span": 7}  # type: ignore[dict-item]
            case "surrogate":
                return {**pairs, "note": "\ud800"}
            case "none":
                return {**pairs, "note": None}
        return pairs


class NoFormat:
    pass


class Needs(LineFormat):
    def __init__(self, more: int) -> None:
        self.more = more

    def values(self, line: str) -> Mapping[str, str | None]:
        return {}


def pipeline_of(folder: Path, form: str = f"{NAME}:Pairs", more: str = "") -> Pipeline:
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE.replace("FORMAT", form) + more)
    return load_pipeline(file)


def parsed(pipeline: Pipeline, *lines: str) -> tuple[list[str], list[str]]:
    """The ids of the events among some foreign lines, and the reasons of the dead letters."""
    data = "".join(line + "\n" for line in lines).encode()
    found = read_events(
        data, FILE, ByteRange(1, 0, len(data), 0, len(lines)), pipeline.foreign, pipeline.limits
    )
    return found.events["_id"].to_pylist(), found.dead_letters["reason"].to_pylist()


def test_each_line_is_an_event_with_the_values_that_the_class_gives(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path)
    ids, reasons = parsed(pipeline, "span=s1 trace=t1 at=1767607200", "", "  ", "span=s2 at=1767607201")
    assert (ids, reasons) == (["s1", "s2"], [])
    raws = pa.array([b"span=s1 trace=t1 status=200", b"span=s2 status=x", b"span=s3 asks=none"])
    columns = parse_columns(raws, b"", pipeline.foreign)
    assert columns.table["status"].to_pylist() == [200, None, None]
    assert columns.table["note"].to_pylist() == [None, None, None]
    assert columns.failures == {1: "column 'status': 'x' is not a value of type int64"}
    assert parse_ids(raws, FILE, pipeline.foreign).to_pylist() == ["s1", "s2", "s3"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("no pairs here", f"not {NAME}:Pairs: dictionary update sequence element #0 has length 1"),
        ("span=s1 asks=key", f"format {NAME}:Pairs: KeyError: 'no such thing'"),
        ("span=s1 asks=exit", f"format {NAME}:Pairs: SystemExit: done"),
        (
            "span=s1 asks=number",
            f"format {NAME}:Pairs: expected texts, or None as a value, got str 'span': int",
        ),
        ("span=s1 asks=surrogate", f"format {NAME}:Pairs: half a surrogate pair in 'note'"),
        ("trace=t1 at=1767607200", "no value for id column 'span'"),
        ("span=s1 trace=t1", "no value for time column 'at'"),
    ],
)
def test_a_line_that_the_class_does_not_understand_is_a_dead_letter_and_the_others_are_events(
    tmp_path: Path, line: str, reason: str
) -> None:
    ids, reasons = parsed(pipeline_of(tmp_path), "span=s0 at=1767607200", line)
    assert ids == ["s0"]
    assert len(reasons) == 1
    assert reasons[0].startswith(reason)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("nowhere:Pairs", "format: no module 'nowhere' among the installed ones nor in"),
        (f"{NAME}:Missing", "expected a subclass of photon.adapters.line_format.LineFormat in module"),
        (f"{NAME}:NoFormat", "expected a subclass of photon.adapters.line_format.LineFormat in module"),
        (f"{NAME}:Needs", "Needs() raised TypeError"),
    ],
)
def test_a_class_that_can_not_be_had_is_named_before_anything_starts(
    tmp_path: Path, form: str, said: str
) -> None:
    with pytest.raises(FormatNotFound) as refused:
        check_modules(pipeline_of(tmp_path, form))
    assert said in str(refused.value)


def test_another_word_is_refused_with_what_a_format_may_be(tmp_path: Path) -> None:
    with pytest.raises(
        PipelineError, match="expected csv, tsv, jsonl, combined, common, logfmt, or module:Class of a format"
    ):
        pipeline_of(tmp_path, "xml")


def test_a_module_beside_the_file_is_found_and_changes_the_fingerprint_of_rows(tmp_path: Path) -> None:
    module = tmp_path / "format_beside.py"
    module.write_text(f"from {NAME} import Pairs\n\nclass Mine(Pairs):\n    pass\n")
    pipeline = pipeline_of(tmp_path, "format_beside:Mine")
    check_modules(pipeline)
    before = fingerprint(pipeline)
    module.write_text(module.read_text() + "# another\n")
    assert fingerprint(pipeline) != before


def test_a_search_in_logs_reads_every_line_for_a_class_may_unescape_ids(tmp_path: Path) -> None:
    assert may_contain(b"span=%731", ["s1"], pipeline_of(tmp_path).foreign)


def test_events_of_such_lines_are_joined_and_a_late_primary_is_waited_for(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "c.log").write_text("".join(f"span=s{n} trace=t{n} at={AT} status={n}\n" for n in range(3)))
    (logs / "q.log").write_text(f"trace=t0 at={AT} url=/a\n")
    world = World.of(pipeline_of(tmp_path).file)
    assert_counts(world.join().counts, joined=1, pending=2)
    with (logs / "q.log").open("a") as late:
        late.write(f"trace=t2 at={AT} url=/c\n")
    assert_counts(world.join().counts, joined=2, pending=1)
    rows = {row["span"]: row for row in world.rows()}
    assert rows["s2"]["status"] == 2
    assert rows["s2"]["primary_url"] == "/c"
