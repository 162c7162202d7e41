"""The files that a browser is sent: those of others are unchanged, ours keep to the page's policy."""

from __future__ import annotations

import hashlib
import re
import tomllib
from glob import glob
from pathlib import Path

import photon
from tests.documents import ROOT

STATIC = Path(photon.__file__).parent / "page" / "static"
VENDOR = STATIC / "vendor"
OURS = [path for path in STATIC.rglob("*.*") if VENDOR not in path.parents]
MOST_LINES = 400


def test_what_others_wrote_is_what_was_fetched() -> None:
    listed = dict(re.findall(r"^([0-9a-f]{64})  (\S+)$", (VENDOR / "README.md").read_text(), re.MULTILINE))
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDOR.iterdir()}
    del found["README.md"]
    assert found == {name: digest for digest, name in listed.items()}


def test_the_page_needs_nothing_from_elsewhere_and_has_no_script_or_style_within_its_markup() -> None:
    """A policy of `default-src 'self'` would silently leave such a thing out."""
    html = (STATIC / "index.html").read_text()
    assert re.findall(r"<style|style=|\son\w+=|<script>|javascript:", html) == []
    addresses = [url for path in OURS for url in re.findall(r"https?://[^\"' ]+", path.read_text())]
    assert set(addresses) == {"http://www.w3.org/2000/svg"}  # a name, and nobody goes there


def test_no_script_makes_markup_or_code_of_text() -> None:
    """Logs hold whatever people send; only `textContent` and attributes of ours are set."""
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|new Function|srcdoc"
    )
    found = {path.name: re.findall(forbidden, path.read_text()) for path in OURS if path.suffix == ".js"}
    assert len(found) > 1
    assert not any(found.values()), found


def test_each_file_of_the_page_is_short_and_installed() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in OURS}
    assert {name: n for name, n in lengths.items() if n > MOST_LINES} == {}
    installed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    shipped = {
        path
        for pattern in installed["photon.page"]
        for path in glob(pattern, root_dir=STATIC.parent, recursive=True)
    }
    assert {str(path.relative_to(STATIC.parent)) for path in STATIC.rglob("*")} <= shipped


def test_the_manual_has_each_shape_of_what_happened_with_its_words() -> None:
    legend = " ".join((ROOT / "docs/operations/watching.md").read_text().split())
    shapes = re.findall(r'glyph: "(.)", words: "([\w ]+)"', (STATIC / "js" / "marks.js").read_text())
    assert len(shapes) > 10
    told = {"breaks a promise": "a verification that found something", "release": "a release"}
    assert [words for glyph, words in shapes if f"{glyph} {told.get(words, words)}" not in legend] == []
