"""axe-core: it finds what a screen reader, a keyboard or weak eyes can't use on a page."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from photon.toolchain.fetched import share_dir
from photon.toolchain.npm import NpmProgram

AXE = NpmProgram(
    title="axe-core 4.14.1",
    folder=share_dir() / "axe-core",
    package="axe-core",
    version="4.14.1",
    sha512="FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
    file="package/axe.min.js",
)
SERIOUS = ("serious", "critical")


def serious_violations(page: Page) -> list[str]:
    """Ask axe for serious problems of the page as it is now: each rule with the elements that break it."""
    if not AXE.is_there():
        AXE.fetch()
    # The debugger may add it; the page's policy lets no other script in.
    page.evaluate((AXE.folder / "axe.min.js").read_text())
    found: list[dict[str, Any]] = page.evaluate("axe.run().then(found => found.violations)")
    return [
        f"{one['id']}: {one['help']}: {node['target']} {node['failureSummary']}"
        for one in found
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]
