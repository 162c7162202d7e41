"""The YAML of a pipeline file with the line of each key, and what is wrong with it in words."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from photon.pipeline.values import A_FORMAT

KeyPath = tuple[str | int, ...]
Problem = tuple[int, str]  # line, what is wrong
_DEEPEST = 20
_TOO_DEEP = f"nested more than {_DEEPEST} levels deep"
_PLAIN_TAGS = ("null", "bool", "int", "float", "str")


@dataclass(slots=True)
class Document:
    """A YAML file as plain values, with the line (from 1) of each key and list entry."""

    value: object = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def problem(self, path: KeyPath, what: str) -> Problem:
        """Say what is wrong with a key, by line: `foreign.columns.amount: expected ...`."""
        place = path
        while place and place not in self.lines:  # a key that is missing: the line of what should hold it
            place = place[:-1]
        return self.lines.get(place, 1), f"{'.'.join(map(str, path))}: {what}"


def read_document(text: str) -> Document:
    """Read the document in `text`; its problems name the parts that can't be read."""
    document = Document()
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is not None:
            document.value = _value(loader, node, (), document)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(part for part in (error.context, error.problem) if part)
        document.problems.append((mark.line + 1 if mark else 1, f"not valid YAML: {what}"))
    except yaml.YAMLError as error:
        document.problems.append((1, f"not valid YAML: {' '.join(str(error).split())}"))
    except RecursionError:
        document.problems.append((1, _TOO_DEEP))
    return document


def _value(loader: yaml.SafeLoader, node: yaml.Node, path: KeyPath, document: Document) -> object:
    line = node.start_mark.line + 1
    document.lines.setdefault(path, line)
    if len(path) > _DEEPEST:  # an anchor that holds itself never ends
        document.problems.append((line, _TOO_DEEP))
        return None
    if isinstance(node, yaml.MappingNode):
        return _mapping(loader, node, path, document)
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, item, (*path, i), document) for i, item in enumerate(node.value)]
    tag = node.tag.rpartition(":")[2]
    if node.tag.startswith("tag:yaml.org,2002:") and tag in _PLAIN_TAGS:
        try:
            return loader.construct_object(node)
        except ValueError:
            document.problems.append((line, f"{node.value!r} is not of the type {tag}"))
            return None
    if tag != "timestamp":
        document.problems.append((line, f"a tag such as {node.tag} can't be used here"))
    return node.value  # a date is text


def _mapping(
    loader: yaml.SafeLoader, node: yaml.MappingNode, path: KeyPath, document: Document
) -> dict[str, object]:
    values: dict[str, object] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            document.problems.append((line, "a key must be a word, not a list or a mapping"))
            continue
        key = key_node.value
        if key in values:
            again = f"this key was there before, in line {document.lines[*path, key]}"
            document.problems.append((line, document.problem((*path, key), again)[1]))
            continue
        document.lines[*path, key] = line
        values[key] = _value(loader, value_node, (*path, key), document)
    return values


# These keys expect more than their type alone says.
_EXPECTED = {
    "name": "lower-case letters, digits, _ and -, a letter first, 63 at most",
    "datacenters": "a mapping such as {east: {logs: logs/east}}",
    "logs": "the folder with this datacenter's copy of the logs",
    "primary": "a mapping with files, format, id and time",
    "foreign": "a mapping with files, format, id, key and time",
    "files": "a glob below the logs folder, such as clicks/**/*.jsonl",
    "format": A_FORMAT,
    "id": "a column's name, or a list of different ones",
    "key": "the column that holds the id of the primary event",
    "time": "a column's name, or a list of two: that of the day and that of the time of day",
    "encoding": "utf-8, latin-1 or cp1252; for UTF-16 convert the files: iconv -f UTF-16 -t UTF-8 FILE > NEW",
    "endpoints": "`local` or a list of {url, region}",
    "profile": "the name of a profile in AWS's configuration files",
    "role": "the ARN of a role, such as arn:aws:iam::123456789012:role/photon",
    "columns": "a mapping of columns to types, such as {amount: int64}",
}
_IN_ANY_KEY = {
    "value_error": "{error}",
    "string_type": "text (in quotes, if it looks like a number or like yes and no)",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
}
_BY_TYPE = {
    "path_type": "the path of a folder",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
    "too_short": "at least one",
}


def describe(error: ValidationError, document: Document, root: type[BaseModel]) -> list[Problem]:
    """Say in words what the models refuse."""
    paths = [(detail, _key_path(detail, document.value)) for detail in error.errors()]
    return [document.problem(path, _message(detail, path, root)) for detail, path in paths]


def unknown_key(path: KeyPath, known: list[str]) -> str:
    """Say what is wrong with a key that means nothing."""
    key = str(path[-1])
    close = difflib.get_close_matches(key, known, 1)
    return f"unknown key; did you mean {close[0]}?" if close else f"unknown key; there are {', '.join(known)}"


def fields_by_key(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a model by their keys in the file, which need not be the names of the fields."""
    fields = model.model_fields.items()
    return {str(field.validation_alias or name): field for name, field in fields if not field.exclude}


def _key_path(detail: ErrorDetails, value: object) -> KeyPath:
    """Pydantic's location, without parts that no file has, such as the names of a union's branches."""
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
        return unknown_key(path, _known_keys(path, root))
    if kind == "missing":
        return f"missing; expected {_EXPECTED.get(key, 'a value')}"
    return f"expected {_expected(detail, key)}, got {_shown(detail['input'])}"


def _expected(detail: ErrorDetails, key: str) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in _IN_ANY_KEY:
        return _IN_ANY_KEY[kind].format_map(context)
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
    """The keys that are known beside the last one of `path`."""
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
