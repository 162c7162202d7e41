"""Modules of users: adapters, formats and functions that a pipeline file or a command names.

A module is looked for among the installed ones, then in the folder of the pipeline file.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType

from photon.errors import WrongUsage


class ModuleUnusable(WrongUsage):
    """A user's module can't be had; the message says which, why, and what to do."""


def load_module(name: str, folder: Path | None, named_by: str) -> ModuleType:
    """A user's module, also one in `folder`. ModuleUnusable, whose message begins with `named_by`, a key."""
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))  # last, so that a user's file can't stand in for a library
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            file = f"{name.partition('.')[0]}.py"
            beside = f" nor in {folder}; put {file} there, or mend the name" if folder is not None else ""
            why = f"no module {name!r} among the installed ones{beside}"
            raise ModuleUnusable(f"{named_by}: {why}") from error
        raise ModuleUnusable(f"{named_by}: module {name} can't be imported: {error}") from error
    except Exception as error:
        raise ModuleUnusable(f"{named_by}: module {name} raised {type(error).__name__}: {error}") from error
    _refuse_another_of_its_name(module, name, folder, named_by)
    return module


def _refuse_another_of_its_name(module: ModuleType, name: str, folder: Path | None, named_by: str) -> None:
    """ModuleUnusable where a library, or another pipeline's module, stands in for the one in `folder`.

    A copy of it, such as one that was packed for Spark, may.
    """
    own = None if folder is None else folder.joinpath(*name.split(".")).with_suffix(".py")
    if own is None or not own.is_file() or module.__file__ in (None, str(own)):
        return
    try:
        is_a_copy = inspect.getsource(module) == own.read_text(encoding="utf-8")
    except (OSError, TypeError):  # without a source nobody can tell
        return
    if not is_a_copy:
        raise ModuleUnusable(
            f"{named_by}: there is {own}, and Python takes {module.__file__} for {name}: give it another name"
        )
