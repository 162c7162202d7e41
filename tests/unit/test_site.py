"""The documents as a site: it builds without a warning, has every page, and is read without a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from photon.cli.commands import COMMANDS

ROOT = Path(__file__).parents[2]
PICTURES = sorted((ROOT / "docs" / "images").glob("*.svg"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make docs` does: links and headings that are not there are errors."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        check=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    return folder


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    fetched = r'<(?:script|img|iframe|source|link)[^>]* (?:src|href)="?((?:https?:)?//[^">]+)'
    pages = [page.read_text() for page in site.rglob("*.html")]
    assert len(pages) > 60
    assert [found for page in pages for found in re.findall(fetched, page)] == []


def test_every_option_of_every_command_is_on_a_page(site: Path) -> None:
    page = (site / "options.html").read_text()
    assert [name for name in COMMANDS if f'id="photon-{name}"' not in page] == []
    assert "--until-idle" in page


def test_pages_outside_the_folder_of_documents_are_in_the_site_and_linked(site: Path) -> None:
    assert (site / "ARCHITECTURE.html").is_file()
    assert 'href="ARCHITECTURE.html#words"' in (site / "concepts.html").read_text()
    assert 'href="proof.html"' in (site / "ARCHITECTURE.html").read_text()


def test_links_of_the_readme_which_is_no_page_of_the_site_lead_somewhere(site: Path) -> None:
    links = re.findall(r"\]\(([^)#\s:]+)#?([^)]*)\)", (ROOT / "README.md").read_text())
    assert [target for target, _ in links if not (ROOT / target).exists()] == []
    to_headings = [(target, anchor) for target, anchor in links if anchor]
    pages = {target: site / target.removeprefix("docs/").replace(".md", ".html") for target, _ in links}
    assert [at for at in to_headings if f'id="{at[1]}"' not in pages[at[0]].read_text()] == []


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_a_picture_says_in_words_what_it_shows_and_bears_a_dark_page(picture: Path) -> None:
    text = picture.read_text()
    root = ElementTree.fromstring(text)
    title = root.find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text == root.attrib["aria-label"]
    assert "prefers-color-scheme: dark" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
