"""Pages of the site that are not in docs/: mkdocs calls this (`hooks` in mkdocs.yml).

A page of docs/ may link to any file of the project, as on a Git host. Here such a file becomes part of the
site at its own path, and links in both directions are made to fit. One page is written from the commands
themselves: every option of each. What pages say does not belong here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from os.path import normpath, relpath
from pathlib import Path, PurePosixPath

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from photon.cli.main import main

ROOT = Path(__file__).parents[1]
DOCS = "docs/"
OUTSIDE = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md")
OPTIONS = "options.md"
LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[#)])")
HELP_WIDTH = 100


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page of options, and files outside docs/ that pages link to, also over one another."""
    todo = [*OUTSIDE, *(f"{DOCS}{page.src_uri}" for page in files.documentation_pages())]
    while todo:
        path = todo.pop()
        if not path.startswith(DOCS):
            if files.get_file_from_path(path) is not None:
                continue
            files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
        if path.endswith(".md"):
            linked = (_meant(path, link) for link in LINK.findall((ROOT / path).read_text()))
            todo += [target for target in linked if not target.startswith(DOCS) and (ROOT / target).is_file()]
    files.append(File.generated(config, OPTIONS, content=options_page()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Give links between docs/ and what lies outside the form that they have within the site."""
    at = page.file.src_uri
    path = f"{DOCS}{at}" if (ROOT / DOCS / at).is_file() else at
    folder = PurePosixPath(at).parent
    return LINK.sub(lambda link: relpath(_meant(path, link[1]).removeprefix(DOCS), folder), markdown)


def _meant(path: str, link: str) -> str:
    """Which file of the project a link of a page means."""
    return normpath(PurePosixPath(path).parent / link)


def options_page() -> str:
    """A page of what `--help` of each command prints."""
    helps = [f"## {name}\n\n```text\n{text}\n```\n" for name, text in _helps("photon", main, None)]
    return "# Every option\n\nWhat `photon COMMAND --help` prints, for each command.\n\n" + "\n".join(helps)


def _helps(name: str, command: click.Command, above: click.Context | None) -> Iterator[tuple[str, str]]:
    """The help of a command and of those below it, by their full names."""
    context = click.Context(command, above, name, max_content_width=HELP_WIDTH, terminal_width=HELP_WIDTH)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            if found is not None and not found.hidden:
                yield from _helps(inner, found, context)
