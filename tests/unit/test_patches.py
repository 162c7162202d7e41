"""Tests replace names of the product at boundaries only, and elsewhere less and less often.

A boundary is a limit (a constant in capitals, which a small test lowers), or a rule that is left out on
purpose, to show that something notices.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
PRODUCT = ("photon", "jobs", "resources", "assets", "orchestration")
PATCHES = (".setattr", "patch.object")
BROKEN_ON_PURPOSE = {
    *TESTS.rglob("test_broken_*.py"),
    TESTS / "contract" / "test_s3_requests.py",
    TESTS / "registry" / "test_exploration.py",
    TESTS / "registry" / "test_frees.py",
    TESTS / "releases" / "test_foreign_carried.py",
    TESTS / "simulation" / "test_foreign_histories.py",
    TESTS / "simulation" / "test_reused_histories.py",
    TESTS / "simulation" / "test_rows_acknowledged.py",
    TESTS / "simulation" / "test_rows_taken.py",
    TESTS / "simulation" / "whole" / "variants.py",
}
# Lower a number when you take a patch away. Never raise one: hand the thing in, or make the condition real.
MOST_OTHERS = {"landing": 2, "orchestration": 7, "registry": 3, "releases": 11, "simulation": 32, "unit": 45}


def names_of_the_product(tree: ast.Module) -> set[str]:
    """Return the names by which a test file knows modules and things of the product."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PRODUCT:
            found.update(each.asname or each.name for each in node.names)
        elif isinstance(node, ast.Import):
            names = (each for each in node.names if each.name.split(".")[0] in PRODUCT)
            found.update(each.asname or each.name.split(".")[0] for each in names)
    return found


def patched_names(tree: ast.Module) -> Iterator[str]:
    """Yield the name of each thing of the product that a test replaces, without its module."""
    known = {*names_of_the_product(tree), *PRODUCT}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(PATCHES) and len(node.args) > 1:
            target, name, *_ = node.args
            if isinstance(target, ast.Constant):  # "module.name"
                owner, _, patched = str(target.value).rpartition(".")
            else:
                owner, patched = ast.unparse(target), str(getattr(name, "value", ast.unparse(name)))
            if owner.split(".")[0] in known:
                yield patched


def test_names_of_the_product_are_replaced_at_boundaries_and_elsewhere_less_and_less_often() -> None:
    others: Counter[str] = Counter()
    for file in sorted({*TESTS.rglob("*.py")} - BROKEN_ON_PURPOSE):
        text = file.read_text()
        names = patched_names(ast.parse(text)) if any(patch in text for patch in PATCHES) else ()
        others[file.relative_to(TESTS).parts[0]] += sum(not name.isupper() for name in names)
    too_many = {folder: count for folder, count in others.items() if count > MOST_OTHERS.get(folder, 0)}
    assert too_many == {}


def test_a_patch_is_found_however_it_is_written() -> None:
    text = (
        "from photon.registry import fold\nimport os\n"
        "monkeypatch.setattr(fold, '_free', free)\nmonkeypatch.setattr(os, 'open', free)\n"
        "patch.setattr('photon.storage.s3.RETRIES', 0)\nwith patch.object(fold.Holds, 'find', free): ...\n"
    )
    assert list(patched_names(ast.parse(text))) == ["_free", "RETRIES", "find"]
