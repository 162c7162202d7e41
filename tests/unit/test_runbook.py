"""The runbook has a section for each alarm that the code can raise, and for no other one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

import pytest
import yaml
from dagster import AssetCheckResult

from examples.demo.traffic import Traffic
from photon.assets.pipeline_files import CHECK as SERVED_CHECK
from photon.assets.runbook import section_text, with_section
from photon.cli import ending
from photon.health.alerts import Kind
from photon.health.judge import PROMISES
from photon.pipeline.file import load_pipeline
from photon.process import errors
from photon.process.errors import DEFECT
from tests.documents import ROOT, wrong_in

RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
ORCHESTRATED = json.loads((ROOT / "tests" / "orchestration" / "definitions.json").read_text())
SAYS_STATUS = (
    "photon/health/headline.py",
    "photon/cli/status.py",
    "photon/verification/availability/budget.py",
)
SIGNALED = {"143"}  # a shell's own: 128 + SIGTERM


def sections(part: str) -> dict[str, str]:
    """The text of each section of a part, by its heading."""
    text = RUNBOOK.partition(f"\n## {part}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^### (.+?)\n(.*?)(?=^### |\Z)", text, flags=re.DOTALL | re.MULTILINE))


def checks_in_dagster(asset: str) -> set[str]:
    """The checks of an asset as `definitions.json` has them, without the datacenter's name."""
    found = [one["checks"] for name, one in ORCHESTRATED["assets"].items() if asset in name.split("/")]
    return {re.sub("^(east|west)__", "", check) for checks in found for check in checks}


def in_capitals(sources: Iterable[str]) -> set[str]:
    """The words in capitals by which texts of the code ask for somebody, without places to be filled in."""
    texts = [text for source in sources for text in re.findall(r'"[^"\n]*"', (ROOT / source).read_text())]
    words = {word for text in texts for word in re.findall(r"\b[A-Z]+(?: [A-Z]+)+\b|\b[A-Z]{4,}\b", text)}
    return words - {"PIPELINE"}


def test_every_check_of_a_datacenter_has_a_section() -> None:
    assert set(sections("Checks of `health`")) == set(PROMISES) == checks_in_dagster("health")


@pytest.mark.parametrize(
    ("part", "asset"),
    [
        ("Checks of `verification_report`", "verification_report"),
        ("Checks of the registry", "registry_state"),
        ("Check of `pipeline_files`", "pipeline_files"),
    ],
)
def test_every_other_check_has_a_section(part: str, asset: str) -> None:
    assert set(sections(part)) == checks_in_dagster(asset)


def test_every_other_kind_of_alert_has_a_section() -> None:
    assert {*sections("What else Dagster tells"), "check"} == set(get_args(Kind))


def test_no_check_is_of_an_asset_that_the_runbook_does_not_know() -> None:
    headings = set(re.findall(r"^### (.+)$", RUNBOOK, flags=re.MULTILINE))
    names = {asset.split("/")[-1] for asset in ORCHESTRATED["assets"]} - {
        "search_clicks"
    }  # the asset that a pipeline file is
    assert {check for name in names for check in checks_in_dagster(name)} <= headings
    assert SERVED_CHECK in headings


def test_the_name_of_a_check_is_the_anchor_of_its_section_and_of_no_other_one() -> None:
    """Letters become small, and `_` stays. A second heading of it would be `-1`, or `_1` on the site."""
    anchors = [name.lower() for name in re.findall(r"^#+ (.+)$", RUNBOOK, flags=re.MULTILINE)]
    names = {check for asset in ORCHESTRATED["assets"] for check in checks_in_dagster(asset)} | {SERVED_CHECK}
    assert {name: anchors.count(name) for name in names} == dict.fromkeys(names, 1)
    assert all(re.fullmatch("[a-z_]+", name) for name in names)


@pytest.mark.parametrize("page", ["https://wiki/runbook.html", "https://wiki/runbook.html#first-look"])
def test_the_result_of_a_check_links_to_its_section(tmp_path: Path, page: str) -> None:
    file = Traffic(1).write_pipeline(tmp_path, more=f"links: {{runbook: '{page}'}}\n")
    bare = AssetCheckResult(check_name="nothing_twice", passed=True, metadata={"count": 0})
    result = with_section(load_pipeline(file), bare)
    assert {name: value.value for name, value in (result.metadata or {}).items()} == {
        "count": 0,
        "runbook": "https://wiki/runbook.html#nothing_twice",
    }


def test_where_nobody_says_where_the_runbook_is_read_each_check_has_a_text() -> None:
    names = {check for asset in ORCHESTRATED["assets"] for check in checks_in_dagster(asset)} | {SERVED_CHECK}
    assert [name for name in names if not section_text(name).startswith("- **Means**: ")] == []


def test_whatever_status_says_in_capitals_has_a_section() -> None:
    assert set(sections("What `photon status` says")) == in_capitals(SAYS_STATUS)


def test_every_alert_of_prometheus_is_in_its_table() -> None:
    rules = yaml.safe_load((ROOT / "infra" / "prometheus" / "photon-alerts.yml").read_text())["groups"][0][
        "rules"
    ]
    table = RUNBOOK.partition("\n## Alerts of Prometheus\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE) == [rule["alert"] for rule in rules]


def test_every_exit_status_has_a_section() -> None:
    of_errors = {str(value) for name, value in vars(errors).items() if name.isupper()}
    ends = {"1", str(DEFECT), str(ending.INTERRUPTED), str(ending.NOBODY_READS)} | SIGNALED
    assert {name.removeprefix("Status ") for name in sections("Exit statuses")} == of_errors | ends


def left_open(heading: str) -> list[str]:
    section = RUNBOOK.partition(f"\n### {heading}\n")[2].partition("\n#")[0].lower()
    return [part for part in ("**means**", "**remedy**") if part not in section]


def test_a_section_says_what_the_alarm_means_and_what_to_do() -> None:
    headings = re.findall(r"^### (.+)$", RUNBOOK, flags=re.MULTILINE)
    assert wrong_in(headings, left_open) == {}
