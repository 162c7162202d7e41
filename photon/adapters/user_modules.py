"""Modules of users: adapters, formats and functions that a pipeline file or a command names.

A module is looked for among the installed ones, then in the folder of the pipeline file.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType

from photon.process.errors import WrongUsage


def load_module(
    name: str, folder: Path | None, named_by: str, problem: type[WrongUsage] = WrongUsage
) -> ModuleType:
    """A user's module, also one in `folder`.

    Raises `problem` if it can't be had; the message begins with `named_by`, a key, and says what to do.
    """
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))  # last, so that a user's file can't stand in for a library
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            file = f"{name.partition('.')[0]}.py"
            beside = f" nor in {folder}; put {file} there, or mend the name" if folder is not None else ""
            why = f"no module {name!r} among the installed ones{beside}"
            raise problem(f"{named_by}: {why}") from error
        raise problem(f"{named_by}: module {name} can't be imported: {error}") from error
    except Exception as error:
        raise problem(f"{named_by}: module {name} raised {type(error).__name__}: {error}") from error
    if stands_in := _another_of_its_name(module, name, folder):
        raise problem(f"{named_by}: {stands_in}")
    return module


def _another_of_its_name(module: ModuleType, name: str, folder: Path | None) -> str:
    """Say that a library, or another pipeline's module, stands in for the one in `folder`; empty: none does.

    A copy of it, such as one that was packed for Spark, may.
    """
    own = None if folder is None else folder.joinpath(*name.split(".")).with_suffix(".py")
    if own is None or not own.is_file() or module.__file__ in (None, str(own)):
        return ""
    try:
        is_a_copy = inspect.getsource(module) == own.read_text(encoding="utf-8")
    except (OSError, TypeError):  # a module without a source: nobody can tell
        return ""
    return (
        ""
        if is_a_copy
        else (f"there is {own}, and Python takes {module.__file__} for {name}: give it another name")
    )
