"""The runbook as the results of checks link to it: each check has a section of its name.

`links.runbook` of the pipeline file says where a team reads the page; without it the link is its path.
"""

from __future__ import annotations

from collections.abc import Mapping

from dagster import AssetCheckResult, MetadataValue

RUNBOOK = "docs/runbook.md"  # in the checkout


def section(links: Mapping[str, str], check: str) -> dict[str, MetadataValue]:
    """The metadata that names a check's section. `links`: of the pipeline file."""
    page = links.get("runbook")
    if page is None:
        return {"runbook": MetadataValue.path(f"{RUNBOOK}#{check}")}
    return {"runbook": MetadataValue.url(f"{page.partition('#')[0]}#{check}")}


def with_section(links: Mapping[str, str], result: AssetCheckResult) -> AssetCheckResult:
    """The result of a check that has the name of its section."""
    assert result.check_name is not None
    return result._replace(metadata={**(result.metadata or {}), **section(links, result.check_name)})
