"""The sample that `photon init` judges logs by, and the types that it proposes for their columns."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from photon.profile.column_types import column_types
from photon.profile.sample import SideSample, read_sample, where_of

SAMPLE_BYTES = 2**17
LINES = 20_000


def write_plain(folder: Path, lines: bytes) -> Path:
    (folder / "b.jsonl").write_bytes(lines)
    return folder / "b.jsonl"


def write_gzip(folder: Path, lines: bytes) -> Path:
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(lines))
    return folder / "b.jsonl.gz"


def sampled(path: Path, sample_bytes: int = SAMPLE_BYTES) -> SideSample:
    (path.parent / "a.jsonl").write_text('{"a": 1}\n')
    _, where = where_of(str(path.parent / "a.jsonl"), str(path))
    return read_sample("foreign", where, sample_bytes)


@pytest.mark.parametrize("write", [write_plain, write_gzip])
def test_a_long_file_is_sampled_at_its_beginning_and_elsewhere(
    tmp_path: Path, write: Callable[[Path, bytes], Path]
) -> None:
    lines = b"".join(b'{"n": %d, "text": "%s"}\n' % (n, b"x" * 30) for n in range(LINES))
    sample = sampled(write(tmp_path, lines))
    numbers = [int(text) for text in sample.columns["n"].to_pylist()]
    assert not sample.is_whole
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 0
    assert numbers[-1] > LINES // 2
    assert sum(len(piece.data) for piece in sample.files[0].pieces) <= SAMPLE_BYTES
    for piece in sample.files[0].pieces:
        assert lines[piece.start_bytes : piece.start_bytes + len(piece.data)] == piece.data
        assert piece.data.startswith(b'{"n"')


def test_records_over_several_lines_are_sampled_whole_from_elsewhere_too(tmp_path: Path) -> None:
    rows = [f'c{n},"first, {n}\n\nc1,""no record"",1\n",{n}\n' for n in range(LINES)]
    path = tmp_path / "b.csv"
    path.write_text("click_id,note,n\n" + "".join(rows))
    sample = sampled(path)
    numbers = [int(text) for text in sample.columns["n"].to_pylist()]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] > LINES // 2
    notes = set(sample.columns["note"].to_pylist())
    assert notes == {f'first, {n}\n\nc1,"no record",1\n' for n in numbers}


def test_a_short_file_is_sampled_whole_and_each_of_its_lines_once(tmp_path: Path) -> None:
    lines = b'{"n": 1}\n\n{"n": 2}\nno JSON\n{"n": 1}\n{"n": 3}'
    sample = sampled(write_plain(tmp_path, lines))
    assert sample.is_whole
    assert sample.columns["n"].to_pylist() == ["1", "2", "3"]


def types(folder: Path, rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    return dict(column_types(sampled(write_plain(folder, text.encode()))))


def test_columns_of_json_lines_that_are_numbers_or_booleans_in_all_records_get_their_type(
    tmp_path: Path,
) -> None:
    rows = [
        {"n": 1, "share": 0.5, "is_new": True, "text": "a", "digits": "12", "mixed": 1, "part": {"n": 1}},
        {"n": -7, "share": 3, "is_new": None, "text": "b", "digits": "13", "mixed": "1", "part": {"n": 2}},
    ]
    assert types(tmp_path, rows) == {"n": "int64", "share": "float64", "is_new": "bool"}


def test_numbers_that_a_type_would_change_stay_text(tmp_path: Path) -> None:
    numbers = ('"big": 9223372036854775808', '"long": 0.1234567890123456789', '"huge": 1e400')
    text = ("{" + ", ".join((*numbers, '"id": 1896543210987654321')) + "}\n").encode()
    assert dict(column_types(sampled(write_plain(tmp_path, text)))) == {"id": "int64"}


def test_numbers_as_programs_print_them_get_their_type_however_long_they_are(tmp_path: Path) -> None:
    rows = [{"share": random.Random(n).random(), "ts": 1_767_607_200.123457 + n} for n in range(50)]
    assert types(tmp_path, rows) == {"share": "float64", "ts": "float64"}


def test_columns_of_csv_with_numbers_get_their_type_and_codes_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    path.write_text(
        "n,price,ok,zip,version,empty,flag\n1,1.50,true,01234,1.10.2,,T\n2,2,false,98765,2.0.0,,F\n3,,true,4,1,,T\n"
    )
    assert dict(column_types(sampled(path))) == {"n": "int64", "price": "float64", "ok": "bool"}


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (("1.9", "1.10", "2.0"), None),
        (("3.1", "3.10", "3.11"), None),
        (("10", "10.04", "10.1", "10.10"), None),
        (("1.50", "2.00", "3.75"), "float64"),
        (("1.5", "2.0", "3.25"), "float64"),
        (("0.1", "1e-05", "2.25"), "float64"),
    ],
)
def test_numbers_that_differ_in_a_last_zero_are_versions_and_stay_text(
    tmp_path: Path, texts: Sequence[str], kind: str | None
) -> None:
    path = tmp_path / "b.csv"
    path.write_text("name,version\n" + "".join(f"a,{text}\n" for text in texts))
    assert column_types(sampled(path)).get("version") == kind


def test_columns_that_a_table_can_not_tell_apart_get_no_type(tmp_path: Path) -> None:
    assert types(tmp_path, [{"User": 1, "user": 2, "n": 3}, {"a b": 1, "a_b": 2, "n": 4}]) == {"n": "int64"}


def test_files_whose_headers_differ_are_sampled_each_by_its_own(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for name, header in (("a", "id,n"), ("b", "n,id"), ("c", "id,other")):
        (tmp_path / "logs" / f"{name}.csv").write_text(f"{header}\n{name}1,{name}2\n")
    _, where = where_of(str(tmp_path / "a.csv"), str(tmp_path / "logs"))
    columns = read_sample("foreign", where).columns
    assert columns["id"].to_pylist() == ["a1", "b2", "c1"]
    assert columns["n"].to_pylist() == ["a2", "b1", None]
    assert columns["other"].to_pylist() == [None, None, "c2"]
