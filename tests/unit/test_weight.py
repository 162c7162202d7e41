"""`make weight` counts lines of code alone, by room, and names what is above its budget."""

from __future__ import annotations

from pathlib import Path

from infra.weight import code_lines, excesses, page_lines, table, weights

SOURCE = '''"""A module
of two lines."""

from pathlib import (
    Path,
)


def first(folder: Path) -> str:  # counts
    """Say it."""
    import os  # does not

    # neither does this
    text = """a text

    of two lines"""
    return text + os.sep
'''


def test_blank_lines_comments_docstrings_and_imports_weigh_nothing() -> None:
    assert code_lines(SOURCE) == 4


def test_a_text_that_is_no_docstring_weighs_what_it_fills() -> None:
    assert code_lines('text = """a\n\nb"""\n') == 2


def test_code_of_the_page_weighs_too() -> None:
    assert page_lines('// why\nimport { ask } from "./ask.js";\n\nask();\n') == 1


def test_a_folder_of_photon_is_a_room_and_other_packages_are_one_each(tmp_path: Path) -> None:
    for name in (
        "photon/logs/tail.py",
        "photon/logs/formats/text.py",
        "photon/errors.py",
        "jobs/local/a.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    (tmp_path / "README.md").write_text("Three plain words.\n")
    found = weights(tmp_path)
    assert found["lines"] == {"jobs": 1, "photon/errors.py": 1, "photon/logs": 2}
    assert found["documents"] == {"words": 3}


def test_what_is_above_its_budget_or_has_none_is_named() -> None:
    found = {"lines": {"jobs": 3, "photon/logs": 2, "photon/new": 1}}
    budgets = {"lines": {"jobs": 2, "photon/logs": 2}}
    assert excesses(found, budgets) == ["lines.jobs", "lines.photon/new"]
    assert any(line.endswith("1 above") for line in table(found, budgets))
