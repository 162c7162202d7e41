"""What lies in infra: definitions that say the same as the code, scripts that refuse what they can't do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from photon.registry.address import table_name
from photon.registry.operations.directory import DIRECTORY, TABLE_DEFINITION

INFRA = Path(__file__).parents[2] / "infra"
TABLES: dict[str, dict[str, Any]] = {
    name: resource["Properties"]
    for name, resource in yaml.safe_load((INFRA / "aws-registry.yaml").read_text())["Resources"].items()
    if resource["Type"] == "AWS::DynamoDB::Table"
}


@pytest.mark.parametrize("name", ["Directory", "Ids"])
def test_tables_on_aws_are_defined_as_init_makes_them(name: str) -> None:
    assert {key: TABLES[name][key] for key in TABLE_DEFINITION} == TABLE_DEFINITION


def test_tables_on_aws_are_named_as_init_names_them() -> None:
    assert TABLES["Directory"]["TableName"] == DIRECTORY
    assert TABLES["Ids"]["TableName"] == {"Fn::Sub": table_name("${Pipeline}", "${Incarnation}")}


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
