"""The runbook as the results of checks have it: each check has a section of its name.

`links.runbook` of the pipeline file says where a team reads the page. Without it the section itself is shown,
with commands that name this pipeline.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from dagster import AssetCheckResult, MetadataValue

from photon.pipeline.file import Pipeline, dagster_name

RUNBOOK = Path(__file__).parents[1] / "docs" / "runbook.md"
_ASIDE = re.compile(r"\s+\(\[[^]]*\]\([^)]*\)\)")  # a link in brackets, to more that nothing serves here
_EXAMPLE = re.compile(r"(?<![A-Za-z0-9])east(?![A-Za-z0-9])")  # the datacenter in the runbook's commands
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")


def section(check: str, pipeline: Pipeline | None = None, datacenter: str = "") -> dict[str, MetadataValue]:
    """The metadata that has a check's section. `pipeline` None: its file can't be read."""
    page = pipeline.links.get("runbook") if pipeline is not None else None
    if page is not None:
        return {"runbook": MetadataValue.url(f"{page.partition('#')[0]}#{check}")}
    text = section_text(check)
    if pipeline is not None:
        text = text.replace("PIPELINE__", f"{dagster_name(pipeline.name)}__")
        text = text.replace("pipeline.yaml", pipeline.typed)
        text = _EXAMPLE.sub(datacenter, text) if datacenter else text
    return {"runbook": MetadataValue.md(text)} if text else {}


@cache
def section_text(check: str) -> str:
    """The section's text, without links."""
    _, _, found = RUNBOOK.read_text().partition(f"\n### {check}\n")
    return _LINK.sub(r"\1", _ASIDE.sub("", re.split(r"\n##+ ", found)[0])).strip()


def with_section(pipeline: Pipeline, result: AssetCheckResult) -> AssetCheckResult:
    """The result of a check that has its section."""
    assert result.check_name is not None
    return result._replace(metadata={**(result.metadata or {}), **section(result.check_name, pipeline)})
