"""Commands in sentences that the page offers to be copied: those that `photon` itself understands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import click

# These take something away, or take it for lost, for good: a person types them, and thinks.
FINAL = ("acknowledge", "retire", "registry gc", "registry init", "registry repair")
MOST_WORDS = 16  # of a command
CommandNamed = Callable[[str], click.Command | None]

_BEGIN = re.compile(r"(?<![\w/.-])photon (?=[a-z])")
_WORD = re.compile(r"""'[^']*'(?:"'"'[^']*')*\S*|\S+""")  # quoted as a whole, as shlex does
_END = re.compile(r"[:;,.)\"]+$")
_CONTINUE = re.compile(r"\bkill -CONT \d+\b")


def offered_in(text: str, pipeline_file: Path, command_named: CommandNamed) -> list[str]:
    """The commands on a pipeline in a text, each once; also the one that has a stopped process go on.

    A command ends before the first word that its own parser does not take.
    """
    texts = (text[at.end() :] for at in _BEGIN.finditer(text))
    found = [command for each in texts for command in _command(each, pipeline_file, command_named)]
    return list(dict.fromkeys([*found, *_CONTINUE.findall(text)]))


def _command(text: str, pipeline_file: Path, command_named: CommandNamed) -> Iterator[str]:
    """The longest command at the beginning, unless it is final."""
    words = list(_words(text))
    for count in range(len(words), 1, -1):
        try:
            arguments = shlex.split(" ".join(words[:count]))
        except ValueError:
            continue
        if _is_understood(command_named(arguments[0]), arguments[1:], pipeline_file):
            name = " ".join(arguments[: 2 if arguments[0] == "registry" else 1])
            if name not in FINAL or "--dry-run" in arguments:
                yield f"photon {' '.join(words[:count])}"
            return


def _words(text: str) -> Iterator[str]:
    """The words as far as the end of a clause."""
    for found, _ in zip(_WORD.finditer(text), range(MOST_WORDS), strict=False):
        yield (bare := _END.sub("", found[0]))
        if bare != found[0]:
            return


def _is_understood(command: click.Command | None, rest: list[str], pipeline_file: Path) -> bool:
    """Whether a command's own parser takes all the rest, with the pipeline file as such."""
    if isinstance(command, click.Group) and rest:
        command, rest = command.commands.get(rest[0]), rest[1:]
    if command is None:
        return False
    context = click.Context(command, **command.context_settings)
    try:
        values, left, _ = command.make_parser(context).parse_args(rest)
    except click.UsageError:
        return False
    files = values.get("pipeline_file", values.get("words"))  # words: a file, and a number of ledgers
    if left or not isinstance(files, tuple):
        return False
    return [word for word in files if not word.isdecimal() or "pipeline_file" in values] == [
        str(pipeline_file)
    ]
