"""Definitions in infra say the same as the code, and its scripts refuse what they can't do."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from photon.registry.address import table_name
from photon.registry.stores.dynamo import LEDGER_TABLE
from photon.registry.stores.dynamo_directory import DIRECTORY, DIRECTORY_TABLE

INFRA = Path(__file__).parents[2] / "infra"
PRODUCTION = INFRA / "production"
TABLES: dict[str, dict[str, Any]] = {
    name: resource["Properties"]
    for name, resource in yaml.safe_load((INFRA / "aws-registry.yaml").read_text())["Resources"].items()
    if resource["Type"] == "AWS::DynamoDB::Table"
}


@pytest.mark.parametrize(("name", "made"), [("Directory", DIRECTORY_TABLE), ("Ledgers", LEDGER_TABLE)])
def test_tables_on_aws_are_defined_as_init_makes_them(name: str, made: dict[str, Any]) -> None:
    assert {key: TABLES[name][key] for key in made} == made


def test_tables_on_aws_are_named_as_init_names_them() -> None:
    assert TABLES["Directory"]["TableName"] == DIRECTORY
    assert TABLES["Ledgers"]["TableName"] == {"Fn::Sub": table_name("${Pipeline}", "${Incarnation}")}


def test_no_table_on_aws_forgets_by_itself_or_is_replicated_behind_our_back() -> None:
    for table in TABLES.values():
        assert not {"TimeToLiveSpecification", "Replicas", "StreamSpecification"} & set(table)


@pytest.mark.parametrize("script", ["dynamodb-local", "dynoxide"])
def test_a_start_script_says_how_it_is_used(script: str) -> None:
    path = INFRA / script
    assert os.access(path, os.X_OK)
    asked = subprocess.run([path, "--help"], capture_output=True, text=True, check=False)
    assert asked.returncode == 2
    assert asked.stderr.startswith(f"usage: infra/{script} [PORT] [FOLDER]")


def test_the_environment_of_production_has_what_its_files_read_and_is_in_its_page() -> None:
    """The file has no other variable, but for those that the code location reads."""
    lines = (PRODUCTION / "photon.env").read_text().splitlines()
    shown = {line.split("=")[0] for line in lines if line and not line.startswith("#")}
    texts = [path.read_text() for path in PRODUCTION.iterdir() if path.suffix in (".service", ".yaml")]
    read = {
        name for text in texts for name in re.findall(r"\$\{(\w+)\}|\{env: (\w+)\}", text) for name in name
    }
    assert shown == (read - {""}) | {"DAGSTER_HOME", "PHOTON_PIPELINES", "PHOTON_DATACENTERS"}


@pytest.mark.parametrize("unit", sorted(PRODUCTION.glob("*.service")), ids=lambda path: path.stem)
def test_a_unit_is_started_again_and_runs_as_nobody_in_particular(unit: Path) -> None:
    lines = unit.read_text().splitlines()
    assert {"Restart=always", "User=photon", "EnvironmentFile=/etc/photon/photon.env"} <= set(lines)
