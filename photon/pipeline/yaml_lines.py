"""YAML with line numbers: plain values, and where in the file each of them stands.

What the values mean belongs in `pipeline`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import yaml

KeyPath = tuple[str | int, ...]
_DEEPEST = 20
_PLAIN_TAGS = ("null", "bool", "int", "float", "str")


@dataclass(slots=True)
class Document:
    """A YAML file as plain values, with the line (from 1) of each key and list entry."""

    value: object = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[tuple[int, str]] = field(default_factory=list)  # line, what is wrong

    def line_of(self, path: KeyPath) -> int:
        """The line of a key; of one that is not there, the line of what should hold it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_document(text: str) -> Document:
    """The document in `text`; what can't be read is among its problems."""
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
    return document


def _value(loader: yaml.SafeLoader, node: yaml.Node, path: KeyPath, document: Document) -> object:
    line = node.start_mark.line + 1
    document.lines.setdefault(path, line)
    if len(path) > _DEEPEST:  # an anchor that holds itself never ends
        document.problems.append((line, f"nested more than {_DEEPEST} levels deep"))
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
            dotted = ".".join(map(str, (*path, key)))
            first = document.lines[*path, key]
            document.problems.append((line, f"{dotted}: this key was there before, in line {first}"))
            continue
        document.lines[*path, key] = line
        values[key] = _value(loader, value_node, (*path, key), document)
    return values
