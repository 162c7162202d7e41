"""How heavy the project is: `make weight` compares its lines of code and its words with the budgets.

Rooms of the product are those of ARCHITECTURE.md. A line of code is one that is not blank, and no comment,
docstring or import. Budgets are in weight.toml, and only a commit of its own raises one (CONTRIBUTING.md).
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUDGETS = ROOT / "weight.toml"
PRODUCT = ("photon", "jobs", "resources", "assets", "orchestration")
ROOMS_IN = "photon"  # each folder and file in it is a room of its own
TREES = ("tests", "bench", "examples", "infra")
DOCUMENTS = ("*.md", "docs/**/*.md", "examples/**/*.md")
OTHERS = "vendor"  # a folder of code that others wrote
PAGE_SUFFIXES = {".js", ".css", ".html"}
NO_PAGE_CODE = re.compile(r"\s*($|//|/?\*|<!--|import\b)")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}

Weights = Mapping[str, Mapping[str, int]]


def code_lines(source: str) -> int:
    """Count a Python file's lines of code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    text = source.splitlines()
    return sum(1 for number in lines if text[number - 1].strip())


def page_lines(source: str) -> int:
    """Count the lines of code of a file that a browser reads."""
    return sum(1 for line in source.splitlines() if not NO_PAGE_CODE.match(line))


def weights(root: Path) -> Weights:
    """Weigh a checkout: lines of code by room and by tree, and words of all documents."""
    rooms: Counter[str] = Counter()
    for package in PRODUCT:
        for file in _files(root / package):
            inside = file.relative_to(root).parts
            rooms["/".join(inside[: 2 if package == ROOMS_IN else 1])] += _lines(file)
    trees = {tree: sum(map(_lines, _files(root / tree))) for tree in TREES}
    pages = {page for pattern in DOCUMENTS for page in root.glob(pattern)}
    words = sum(len(page.read_text().split()) for page in pages)
    return {"lines": dict(sorted(rooms.items())), "trees": trees, "documents": {"words": words}}


def table(found: Weights, budgets: Weights) -> list[str]:
    """Print each weight beside its budget, which is 0 where there is none, with a sum for each kind."""
    lines = []
    for kind, parts in found.items():
        limits = {name: budgets.get(kind, {}).get(name, 0) for name in parts}
        lines.append(f"{kind:<24}{'now':>8}{'budget':>8}")
        for name, weight in parts.items():
            over = f"  {weight - limits[name]:,} above" if weight > limits[name] else ""
            lines.append(f"  {name:<22}{weight:>8,}{limits[name]:>8,}{over}")
        if len(parts) > 1:
            lines.append(f"  {'all':<22}{sum(parts.values()):>8,}{sum(limits.values()):>8,}")
    return lines


def excesses(found: Weights, budgets: Weights) -> list[str]:
    """Name what is heavier than its budget, or has none."""
    return [
        f"{kind}.{name}"
        for kind, parts in found.items()
        for name, weight in parts.items()
        if weight > budgets.get(kind, {}).get(name, 0)
    ]


def main() -> int:
    """Print the table, and end with 1 above a budget."""
    found, budgets = weights(ROOT), tomllib.loads(BUDGETS.read_text())
    print(*table(found, budgets), sep="\n")
    heavy = excesses(found, budgets)
    if heavy:
        print(
            f"too heavy: {', '.join(heavy)}. Take something away; or raise the budget in {BUDGETS.name},"
            " in a commit of its own that says what for",
            file=sys.stderr,
        )
    return 1 if heavy else 0


def _files(folder: Path) -> Iterator[Path]:
    for file in folder.rglob("*"):
        if file.suffix in {".py", *PAGE_SUFFIXES} and OTHERS not in file.parts:
            yield file


def _lines(file: Path) -> int:
    return (code_lines if file.suffix == ".py" else page_lines)(file.read_text())


if __name__ == "__main__":
    sys.exit(main())
