"""Lines of access logs and of logfmt, by themselves and in a join."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from photon.logs.formats.line_formats import OWN
from photon.pipeline.file import load_pipeline
from tests.support.commands import photon

APACHE = (
    r'127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a?q=x%c3%a9&page=2&q=y HTTP/1.0" 200 2326 '
    r'"http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;\"Nav\")"'
)


def combined(line: str) -> dict[str, str | None]:
    return dict(OWN["combined"].record(line.encode()))


def logfmt(line: str) -> dict[str, str | None]:
    return dict(OWN["logfmt"].record(line.encode()))


def test_a_line_has_its_values_and_the_parts_of_its_request() -> None:
    assert combined(APACHE) == {
        "host": "127.0.0.1",
        "identity": None,
        "user": "frank",
        "time": "10/Oct/2000:13:55:36 -0700",
        "request": "GET /a?q=x%c3%a9&page=2&q=y HTTP/1.0",
        "method": "GET",
        "target": "/a?q=x%c3%a9&page=2&q=y",
        "protocol": "HTTP/1.0",
        "status": "200",
        "bytes": "2326",
        "referrer": "http://www.example.com/start.html",
        "agent": 'Mozilla/4.08 [en] (Win98; I ;"Nav")',
    }


@pytest.mark.parametrize(
    ("name", "value"), [("query.q", "y"), ("query.page", "2"), ("query.none", None), ("status", "200")]
)
def test_a_parameter_of_the_address_is_had_by_its_name(name: str, value: str | None) -> None:
    assert OWN["combined"].value(combined(APACHE), name) == value


def test_what_follows_has_names_of_its_own_and_a_hyphen_is_no_value() -> None:
    record = combined(f'{APACHE} "-" 0.004 6f1e')
    assert [record[f"extra_{n}"] for n in (1, 2, 3)] == [None, "0.004", "6f1e"]
    common = OWN["common"].record(APACHE.encode())
    assert common["extra_2"] == record["agent"]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r"caf\xC3\xA9 \"x\"", 'café "x"'),
        (r"\xFF\xFE", r"\xFF\xFE"),
        (r"a\\xC3", r"a\xC3"),
        (r"tab\there", "tab\there"),
    ],
)
def test_escapes_of_both_servers_are_read(written: str, value: str) -> None:
    assert combined(f'h - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "{written}"')[
        "agent"
    ] == (value)


@pytest.mark.parametrize("request_line", [r"\x16\x03\x01", "", "GET /only"])
def test_a_request_that_is_none_has_no_parts_and_its_line_counts(request_line: str) -> None:
    record = combined(f'h - - [10/Oct/2000:13:55:36 +0000] "{request_line}" 400 0 "-" "-"')
    assert (record["method"], record["status"]) == (None, "400")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("h - - [10/Oct/2000:13:55:36 +0000]", "9 values or more, got 4"),
        ('h - - 10/Oct/2000 "GET / HTTP/1.1" 200 1 "-" "-"', "a time in"),
        ('h - - [10/Oct/2000:13:55:36 +0000] GET / HTTP/1.1 200 1 "-" "-"', "a request in quotes"),
    ],
)
def test_another_line_is_refused_with_what_was_expected(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        combined(line)


def test_pairs_have_values_in_quotes_empty_ones_and_none() -> None:
    found = logfmt(r'at=info msg="a \"b\" \u00e9" empty= alone at=warn url=/x?a=1')
    assert found == {"at": "warn", "msg": 'a "b" é', "empty": "", "alone": None, "url": "/x?a=1"}


@pytest.mark.parametrize("line", ['a="x', '="x"', 'a="x"b', r'a="\ud800"', r'a="\q"'])
def test_half_a_pair_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"expected name=value|half a surrogate|JSON's quotes"):
        logfmt(line)


def test_an_access_log_joins_the_answers_of_its_service_by_what_init_proposes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests of nginx with an id behind them, and a service's logfmt."""
    monkeypatch.chdir(tmp_path)
    for name in ("requests", "answers"):
        (tmp_path / "logs" / name).mkdir(parents=True)
    with (tmp_path / "logs/requests/access.log").open("w") as log:
        for n in range(300):
            when = f"05/Jan/2026:10:{n // 60:02}:{n % 60:02} +0100"
            log.write(f'10.0.0.{n % 9} - - [{when}] "GET /s?q={n} HTTP/1.1" 200 {n} "-" "curl" req-{n:06}\n')
    with (tmp_path / "logs/answers/app.log").open("w") as log:
        for n in range(300):
            log.write(
                f'ts=2026-01-05T09:{n // 60:02}:{n % 60:02}.5Z id=ans-{n} request=req-{n:06} msg="o k"\n'
            )
    done = photon("init", "logs/requests", "logs/answers")
    assert done.exit_code == 0, done.output
    pipeline = load_pipeline("pipeline.yaml")
    assert (pipeline.primary.format, pipeline.foreign.format) == ("combined", "logfmt")
    assert (pipeline.primary.id, pipeline.foreign.key) == (("extra_1",), ("request",))
    done = photon("join", "pipeline.yaml", "--complete", "--json")
    assert done.exit_code == 0, done.output
    assert '"joined": 300' in done.output


@pytest.mark.parametrize("format_", OWN)
def test_a_line_that_is_none_has_no_value_of_any_name(format_: str) -> None:
    """A line within a stack trace, or one that a rotation has cut."""
    lines = pa.array(['Caused by: x="', "garbage = line"], pa.binary())
    found = OWN[format_].texts(lines, ["id", "query.id", "a.b"])
    assert set(found.failures) == {0, 1}
    assert [column.to_pylist() for column in found.columns] == [[None, None]] * 3


def test_a_broken_line_of_an_access_log_is_a_dead_letter_and_stops_nothing(tmp_path: Path) -> None:
    for name in ("access", "app"):
        (tmp_path / "logs" / name).mkdir(parents=True)
    with (tmp_path / "logs/access/a.log").open("w") as log:
        for n in range(30):
            log.write(f'h - - [05/Jan/2026:10:00:{n:02} +0000] "GET /?id=r{n} HTTP/1.1" 200 {n} "-" "-"\n')
        log.write("garbage line\n" * 3)
    with (tmp_path / "logs/app/a.log").open("w") as log:
        log.writelines(f"ts=2026-01-05T09:59:00Z id=r{n}\n" for n in range(30))
    (tmp_path / "pipeline.yaml").write_text(
        """name: c
datacenters: {here: {logs: logs}}
primary: {files: "app/*.log", format: logfmt, id: id, time: ts, time_unit: iso8601}
foreign: {files: "access/*.log", format: combined, id: query.id, key: query.id, time: time,
  time_unit: iso8601}
"""
    )
    done = photon("join", tmp_path / "pipeline.yaml", "--complete", "--engine", "local", "--json")
    assert done.exit_code == 0, done.output
    assert '"joined": 30' in done.output
    assert '"dead_letters": 3' in done.output
