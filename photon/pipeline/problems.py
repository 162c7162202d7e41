"""What is wrong with a pipeline file, in words: each problem with its line, its key and what was expected.

Turns what the models of `pipeline` refuse into messages; what they refuse is decided there.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from photon.pipeline.yaml_lines import Document, KeyPath

# What stands for a key, where its type alone does not say it.
_EXPECTED = {
    "name": "lower-case letters, digits, _ and -, a letter first, 63 at most",
    "datacenters": "a mapping such as {east: {logs: logs/east}}",
    "logs": "the folder with this datacenter's copy of the logs",
    "primary": "a mapping with files, format, id and time",
    "foreign": "a mapping with files, format, id, key and time",
    "files": "a glob below the logs folder, such as clicks/**/*.jsonl",
    "format": "csv, tsv or jsonl",
    "id": "a column's name, or a list of different ones",
    "key": "the column that holds the id of the primary event",
    "time": "a column's name",
    "endpoints": "`local` or a list of {url, region}",
    "columns": "a mapping of columns to types, such as {amount: int64}",
}
_BY_TYPE = {
    "string_type": "text (in quotes, if it looks like a number or like yes and no)",
    "int": "a whole number",
    "bool": "true or false",
    "path_type": "the path of a folder",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
    "too_short": "at least one",
}


def describe(error: ValidationError, document: Document, root: type[BaseModel]) -> list[tuple[int, str]]:
    """The problems of a file as (line, message), the message with its dotted key."""
    problems = []
    for detail in error.errors():
        path = _key_path(detail, document.value)
        problems.append((document.line_of(path), f"{dotted(path)}: {_message(detail, path, root)}"))
    return problems


def dotted(path: KeyPath) -> str:
    """A key as it is written in messages: `foreign.columns.amount`, `registry.endpoints.0.url`."""
    return ".".join(map(str, path))


def unknown_key(key: str, known: list[str]) -> str:
    """What to say of a key that means nothing."""
    close = difflib.get_close_matches(key, known, 1)
    return f"unknown key; did you mean {close[0]}?" if close else f"unknown key; there are {', '.join(known)}"


def fields_by_key(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """What may be in a mapping of the file: its keys, which need not be the names of the fields."""
    fields = model.model_fields.items()
    return {str(field.validation_alias or name): field for name, field in fields if not field.exclude}


def _key_path(detail: ErrorDetails, value: object) -> KeyPath:
    """Pydantic's location without what is in no file, as the names of a union's branches."""
    path: list[str | int] = []
    location = detail["loc"]
    for i, part in enumerate(location):
        inside: Any = value
        is_entry = isinstance(inside, list) and isinstance(part, int) and part < len(inside)
        if is_entry or (isinstance(inside, Mapping) and part in inside):
            value = inside[part]
        elif detail["type"] != "missing" or i < len(location) - 1:
            continue
        path.append(part)
    return tuple(path)


def _message(detail: ErrorDetails, path: KeyPath, root: type[BaseModel]) -> str:
    kind, key = detail["type"], str(path[-1]) if path else ""
    if kind == "extra_forbidden":
        return unknown_key(key, _known_keys(path, root))
    if kind == "missing":
        return f"missing; expected {_EXPECTED.get(key, 'a value')}"
    return f"expected {_expected(detail, key)}, got {_shown(detail['input'])}"


def _expected(detail: ErrorDetails, key: str) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_type":
        return _BY_TYPE["string_type"]
    if kind == "greater_than_equal":
        return f"at least {context['ge']}"
    if kind == "less_than_equal":
        return f"at most {context['le']}"
    if kind.startswith(("int_", "bool_")):
        return _BY_TYPE[kind.partition("_")[0]]
    if key in _EXPECTED:
        return _EXPECTED[key]
    if kind == "literal_error":
        return str(context["expected"]).replace("'", "")
    return _BY_TYPE.get(kind, detail["msg"])


def _shown(value: object) -> str:
    """A value as it looks in the file, cut short."""
    if value is None:
        return "nothing"
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= 80 else text[:80] + "..."


def _known_keys(path: KeyPath, root: type[BaseModel]) -> list[str]:
    """The keys that may stand beside the last one of `path`."""
    model = root
    for part in path[:-1]:
        field = fields_by_key(model).get(str(part))
        models = _models_in(field.annotation) if field else []
        model = models[0] if models else model
    return list(fields_by_key(model))


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models named in a type such as `dict[str, Datacenter]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in _models_in(part)]
