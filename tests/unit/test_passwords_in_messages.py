"""A password of a URL is told nowhere: neither in an error, nor in what a command prints."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from click.testing import CliRunner

from photon.cli.main import main
from photon.cli.output import LineFormatter
from photon.logs.source import LogsUnavailable
from photon.process.errors import UserError, WrongUsage, without_passwords

SECRETS = {
    "http://user:pass@127.0.0.1:1": "http://user:***@127.0.0.1:1",
    "postgresql://me:pa/ss@db:5432/fed": "postgresql://me:***@db:5432/fed",
    "s3://k:pass@store/bucket and https://:pass@x": "s3://k:***@store/bucket and https://:***@x",
    "['http://user:pass@127.0.0.1:1']": "['http://user:***@127.0.0.1:1']",
}
PLAIN = (
    "http://127.0.0.1:8000/a",
    "mail to me@example.org",
    "s3://bucket/a@b",
    "a:b@c",
    "postgresql://me@db/x",
)


@pytest.mark.parametrize("said", SECRETS)
def test_a_message_has_stars_for_a_password_wherever_it_goes(said: str) -> None:
    for kind in (UserError, WrongUsage, LogsUnavailable):
        assert str(kind(f"{said}: gone")) == f"{SECRETS[said]}: gone"
    record = logging.LogRecord("photon", logging.ERROR, "", 1, "no answer of %s", (said,), None)
    assert LineFormatter("%(message)s").format(record).endswith(f"no answer of {SECRETS[said]}")


@pytest.mark.parametrize("said", PLAIN)
def test_text_without_a_password_stays(said: str) -> None:
    assert without_passwords(said) == said


@pytest.mark.parametrize("command", [["status"], ["status", "--json"], ["join", "--complete"], ["verify"]])
def test_a_command_tells_no_password_of_an_endpoint(tmp_path: Path, command: list[str]) -> None:
    file = tmp_path / "pipeline.yaml"
    log = {"files": "*.jsonl", "format": "jsonl", "id": "id", "time": "t"}
    endpoint = {"url": "http://user:hunter2@127.0.0.1:1", "region": "eu-west-1"}
    pipeline = {
        "name": "clicks",
        "datacenters": {"east": {"logs": "logs"}},
        "primary": log,
        "foreign": {**log, "key": "k"},
        "registry": {"endpoints": [endpoint]},
    }
    file.write_text(json.dumps(pipeline))
    (tmp_path / "logs").mkdir()
    done = CliRunner().invoke(main, [*command, str(file)])
    assert done.exit_code != 0
    assert "http://user:***@127.0.0.1:1" in done.output
    assert "hunter2" not in done.output
