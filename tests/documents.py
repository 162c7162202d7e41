"""The commands that documents show: blocks of shell, and calls of `photon` and `make` within the text."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
)
FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^ *```", flags=re.DOTALL | re.MULTILINE)
ASSIGNMENT = re.compile(r"\w+=\S*$")


def wrong_in(
    names: Iterable[str], wrong_with: Callable[[str], Sequence[object]]
) -> dict[str, Sequence[object]]:
    """Return what is wrong with each document, key or rule, by its name: one test looks at all of them."""
    return {name: found for name in names if (found := wrong_with(name))}


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    section: str  # the nearest heading above it
    language: str
    text: str


def blocks(document: str) -> list[Block]:
    """The fenced blocks of a document, in order."""
    text = (ROOT / document).read_text()
    found = []
    for match in FENCED.finditer(text):
        headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text[: match.start()]), flags=re.MULTILINE)
        found.append(Block(headings[-1] if headings else "", match[2], textwrap.dedent(match[3])))
    return found


def lines_of_shell(document: str) -> list[str]:
    """Return the code that a document shows: in blocks of shell, indented, and within a line."""
    shell = [block.text for block in blocks(document) if block.language == "bash"]
    rest = FENCED.sub("", (ROOT / document).read_text())
    shell += re.findall(r"^    (?! ).+$", rest, flags=re.MULTILINE)
    shell += re.findall(r"`([^`\n]+)`", rest)
    return "\n".join(shell).replace("\\\n", " ").replace("\\|", "|").splitlines()


def calls(document: str, program: str) -> list[list[str]]:
    """The arguments of each call of a program that a document shows."""
    found = []
    for line in lines_of_shell(document):
        words = _words(line)
        if words and words[0] == program:
            found.append(words[1:])
    return found


def _words(line: str) -> list[str]:
    """One simple command, without a comment, assignments before it, and what is behind a pipe or the like."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # no shell
        return []
    while words and ASSIGNMENT.match(words[0]):
        del words[0]
    ends = [at for at, word in enumerate(words) if word in ("|", "||", "&", "&&", ";", ">", ">>", "2>")]
    return words[: min(ends, default=len(words))]
