"""The documents say what the code says: keys and defaults, commands, fault points and files.

Their links are checked where `tests/unit/test_site.py` builds the site.
"""

from __future__ import annotations

import ast
import importlib
import re
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest
from pydantic import BaseModel

from photon.cli.commands import COMMANDS
from photon.pipeline.document import fields_by_key
from photon.pipeline.file import Pipeline, load_pipeline
from photon.pipeline.values import parse_duration, parse_size
from photon.process import errors
from photon.process.faults import ALL_FAULT_POINTS
from photon.verification.report import MEANINGS
from tests.documents import DOCUMENTS, ROOT, wrong_in

PIPELINE_FILE = (ROOT / "docs" / "pipeline-file.md").read_text()
MESSAGES = (ROOT / "docs" / "operations" / "messages.md").read_text()


def models_in(annotation: Any) -> Iterator[tuple[str, type[BaseModel]]]:
    """The models within an annotation; with `.NAME` where they are the values of a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield "", annotation
        return
    suffix = ".NAME" if getattr(annotation, "__origin__", None) is dict else ""
    for part in get_args(annotation):
        yield from ((suffix + inner, model) for inner, model in models_in(part))


def keys_of(model: type[BaseModel], prefix: str = "", defaults: object = None) -> Iterator[tuple[str, Any]]:
    """Every key of the pipeline file as `a.b.c`, with its default: that of its section, if it has one."""
    fields = {id(field): name for name, field in model.model_fields.items()}
    for name, field in fields_by_key(model).items():
        key = prefix + name
        default = field.get_default(call_default_factory=True)
        if isinstance(defaults, model):
            default = getattr(defaults, fields[id(field)])
        yield key, default
        for suffix, inner in models_in(field.annotation):
            yield from keys_of(inner, key + suffix + ".", default)


KEYS = dict(keys_of(Pipeline))
MOST_KEYS = 85  # a person who reads the page once can know them; what nobody sets is a constant


def documented_defaults() -> dict[str, str]:
    """The second cell of each row of the tables, by each key in the first."""
    rows = re.findall(r"^\| (`.+?`) \| (.+?) \|", PIPELINE_FILE, flags=re.MULTILINE)
    return {key: default.strip("`") for cell, default in rows for key in re.findall(r"`(.+?)`", cell)}


DOCUMENTED = documented_defaults()


def test_the_file_has_few_keys() -> None:
    """A section does not count as a key, and a key of both logs counts once."""
    each = {re.sub("^(primary|foreign)", "log", key) for key in KEYS}
    kept = [key for key in each if not any(other.startswith(f"{key}.") for other in each)]
    assert len(kept) <= MOST_KEYS
    assert f"of {len(kept)}, are set in most pipelines" in PIPELINE_FILE


def test_every_key_of_the_pipeline_file_is_documented_and_no_other() -> None:
    assert set(DOCUMENTED) == set(KEYS)


def default_of(default: object, documented: str) -> object:
    """A documented default as a value of the code."""
    if isinstance(default, timedelta):
        return parse_duration(documented)
    if isinstance(default, bool):
        return {"true": True, "false": False}.get(documented)
    if isinstance(default, float):
        return float(documented)
    if isinstance(default, int):
        return parse_size(int(documented) if documented.isdigit() else documented)
    return documented


def test_a_documented_default_is_that_of_the_code() -> None:
    simple = {key: value for key, value in KEYS.items() if isinstance(value, timedelta | int | float | str)}
    assert len(simple) > 40
    documented = {key: default_of(value, DOCUMENTED[key]) for key, value in simple.items()}
    assert documented == simple


@pytest.mark.parametrize("document", ["docs/own-logs.md", "docs/pipeline-file.md"])
def test_a_pipeline_file_that_is_shown_is_accepted(document: str, tmp_path: Path) -> None:
    blocks = re.findall(
        r"^ *```yaml\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL | re.MULTILINE
    )
    assert blocks
    for block in blocks:
        path = tmp_path / "pipeline.yaml"
        path.write_text(textwrap.dedent(block))
        assert load_pipeline(path).datacenters


def test_the_adapters_that_are_shown_work() -> None:
    text = (ROOT / "docs" / "pipeline-file.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    shown: dict[str, Any] = {}
    exec(block, shown)
    foreign, primary = pa.table({"position": [2]}), pa.table({"text": ["garden"]})
    both = {"query": ["garden"], "position": [2]}
    assert shown["my_adapter"].combine(foreign, primary).table.to_pydict() == both
    assert shown["MyArrowAdapter"]().combine(foreign, primary).to_pydict() == both


def missing_sources(document: str) -> list[str]:
    pattern = r"`((?:photon|jobs|tests|bench|examples|infra|docs|orchestration)/[\w/.-]*\w\.\w+)`"
    named = set(re.findall(pattern, (ROOT / document).read_text()))
    return sorted(name for name in named if not (ROOT / name).exists())


def test_every_source_file_that_a_document_names_exists() -> None:
    assert wrong_in(DOCUMENTS, missing_sources) == {}


def functions_in(source: Path) -> set[str]:
    """The functions and classes of a file, and `Class.method` for each method."""
    found = set()
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return found


def test_every_file_and_function_that_the_tour_names_is_there() -> None:
    tour = (ROOT / "docs" / "tour.md").read_text()
    named = re.findall(r"`((?:photon|jobs)/[\w/]+\.py):([\w.]+)`", tour)
    assert len(named) > 30
    there = {file: functions_in(ROOT / file) for file, _ in named if (ROOT / file).exists()}
    assert [f"{file}:{name}" for file, name in named if name not in there.get(file, ())] == []
    methods = re.findall(r"`([A-Z]\w+\.\w+)`", tour.replace("ARCHITECTURE.md", ""))
    every = {name for names in there.values() for name in names}
    assert [name for name in methods if name not in every] == []


def test_make_test_goes_through_every_folder_of_tests() -> None:
    """A folder left out there runs only its fastest tests: nobody would miss the others."""
    given = re.search(r"^FOLDERS = .*?[^\\]\n", (ROOT / "Makefile").read_text(), re.MULTILINE | re.DOTALL)
    folders = {path.parent.relative_to(ROOT).parts[1] for path in (ROOT / "tests").rglob("test_*.py")}
    assert given is not None
    left_out = folders - set(re.findall(r"tests/([a-z0-9]+)", given[0]))
    assert left_out == {"browser"}, "make test-all has a line for it"


@pytest.mark.parametrize("mark", ["browser", "services"])
def test_make_test_all_looks_for_a_mark_in_the_folder_that_has_all_of_its_tests(mark: str) -> None:
    marked = [path for path in (ROOT / "tests").rglob("test_*.py") if f"mark.{mark}" in path.read_text()]
    assert marked
    assert [path for path in marked if path.parent != ROOT / "tests" / mark] == []


def test_a_page_shows_every_command_and_every_make_target_that_is_helped() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    assert [name for name in COMMANDS if f"`photon {name}" not in page] == []
    helped = re.findall(r'@echo "make ([a-z0-9-]+)', (ROOT / "Makefile").read_text())
    assert [target for target in helped if not re.search(rf"`make {target}\b(?!-)", page)] == []


def test_the_readme_begins_with_two_commands() -> None:
    begin = (ROOT / "README.md").read_text().partition("## A joined table")[0]
    assert re.findall(r"^    make ([a-z]+)", begin, flags=re.MULTILINE) == ["demo", "test"]


def long_cells(document: str) -> list[str]:
    rows = [row for row in (ROOT / document).read_text().splitlines() if row.startswith("|")]
    return [cell for row in rows for cell in row.split(" | ") if len(cell.split()) > 60]


def test_no_cell_of_a_table_is_a_paragraph() -> None:
    assert wrong_in(DOCUMENTS, long_cells) == {}


def test_every_document_that_a_source_names_exists() -> None:
    folders = ("photon", "jobs", "resources", "assets", "orchestration", "bench", "examples")
    sources = [source for folder in folders for source in (ROOT / folder).rglob("*.py")]
    named = {name for source in sources for name in re.findall(r"\bdocs/[\w/-]+", source.read_text())}
    assert named
    assert sorted(name for name in named if not list(ROOT.glob(f"{name}*.md"))) == []


def test_every_fault_point_is_in_the_life_of_a_batch() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert [point for point in ALL_FAULT_POINTS if f"`{point}`" not in text] == []


def layers_from_the_ground_up(contract: str) -> list[list[str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if one["id"] == contract)
    return [re.split(r" *[|:] *", layer) for layer in reversed(layers)]


def rooms_of_the_contracts() -> list[set[str]]:
    """The rooms by floor, from the ground up, as folders of the checkout."""
    floors = layers_from_the_ground_up("rooms")
    return [{room if (ROOT / room).is_dir() else f"photon/{room}" for room in floor} for floor in floors]


def test_every_room_is_a_row_of_the_architecture_on_its_floor() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text().partition("## Rooms")[2].partition("\n## ")[0]
    documented: dict[int, set[str]] = {}
    for floor, cell in re.findall(r"^\| (\d+) \| (`.+?) \|", text, flags=re.MULTILINE):
        rooms = [name.removesuffix(".py") for name in re.findall(r"`(.+?)`", cell)]
        inside = [room if "/" in room or (ROOT / room).is_dir() else f"photon/{room}" for room in rooms]
        documented.setdefault(int(floor), set()).update(inside)
    assert documented == dict(enumerate(rooms_of_the_contracts(), start=1))


def test_the_architecture_names_the_rooms_of_the_registry_from_the_ground_up() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    (cell,) = re.findall(r"^\| \d+ \| `photon/registry` \| (.+?) \|", text, flags=re.MULTILINE)
    rooms = [room for floor in layers_from_the_ground_up("registry") for room in floor]
    folders = [room for room in rooms if (ROOT / "photon" / "registry" / room).is_dir()]
    assert re.findall(r"`(.+?)`", cell) == folders


def test_every_error_that_ends_a_command_is_in_the_operations_guide() -> None:
    for source in (ROOT / "photon").rglob("*.py"):
        importlib.import_module(
            ".".join(source.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        )
    # An error that derives from a documented one ends a command under that one's name.
    bases = (errors.UserError, errors.WrongUsage)
    direct = {error for base in bases for error in base.__subclasses__()} - {errors.WrongUsage}
    linked = tuple(f"photon.{folder}." for folder in ("jobs", "resources", "assets", "orchestration"))
    engine = [one for one in direct if one.__module__.startswith("photon.")]
    raised = {error.__name__ for error in engine if not error.__module__.startswith(linked)}
    assert sorted(error for error in raised if f"`{error}`" not in MESSAGES) == []


def texts_in_the_code() -> list[str]:
    """Every text in the sources, with `...` where a value goes in."""
    texts = []
    for source in [*(ROOT / "photon").rglob("*.py"), *(ROOT / "jobs").rglob("*.py")]:
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [str(p.value) if isinstance(p, ast.Constant) else "..." for p in node.values]
                texts.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(re.sub("%[ds]", "...", node.value))
    return texts


def has_in_order(text: str, parts: Sequence[str]) -> bool:
    at = 0
    for part in parts:
        if (found := text.find(part, at)) < 0:
            return False
        at = found + len(part)
    return True


def test_every_message_that_the_operations_guide_explains_is_one_of_the_code() -> None:
    tables = re.findall(r"^\| (?:message|problem|reason) \|.*\n(?:\|.*\n)+", MESSAGES, flags=re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()[2:]]
    messages = [message for row in rows for message in re.findall(r"`(.+?)`", row.split(" | ")[0])]
    said = texts_in_the_code()

    def is_said(message: str) -> bool:
        if any(has_in_order(text, message.split("...")) for text in said):
            return True
        prefix, _, rest = message.partition("cannot ")  # f"cannot {doing}: ...", where `doing` is a text too
        return prefix == "" and any(text.startswith("cannot ...: ") for text in said) and is_said(rest)

    assert len(tables) == 3
    assert [message for message in messages if not is_said(message)] == []


def test_every_finding_of_a_verification_is_explained_and_whether_it_is_a_violation() -> None:
    page = (ROOT / "docs/operations/verification.md").read_text()
    lists = re.findall(r"^(?:V|No v)iolations: (.+?)\.\n\n", page, re.DOTALL | re.MULTILINE)
    named = [set(re.findall(r"`(\w+)`", kinds)) for kinds in lists]
    assert named == [{kind for kind, m in MEANINGS.items() if m.violation is one} for one in (True, False)]


RECORDS = sorted((ROOT / "docs" / "adr").glob("0*.md"))
RECORD_LIST = (ROOT / "docs" / "adr" / "README.md").read_text()


def test_the_decision_records_are_listed_by_number() -> None:
    numbers = re.findall(r"^(\d+)\. \[", RECORD_LIST, flags=re.MULTILINE)
    assert [int(number) for number in numbers] == [int(record.name[:4]) for record in RECORDS]


def test_decision_records_have_all_parts() -> None:
    parts = ("## Decision", "## Reasons", "## Rejected")
    for record in RECORDS:
        text = record.read_text()
        assert [part for part in parts if part not in text] == [], record.name


def test_a_decision_record_has_status_and_date_and_fits_about_a_screen() -> None:
    status = r"^# \d+\. .+\n\nAccepted, \d{4}-\d\d-\d\d\."
    assert [record.name for record in RECORDS if not re.match(status, record.read_text())] == []
    assert [record.name for record in RECORDS if len(record.read_text().splitlines()) > 60] == []


def test_the_list_of_decision_records_has_each_with_its_title() -> None:
    titles = [(record.name, record.read_text().splitlines()[0].partition(". ")[2]) for record in RECORDS]
    assert [name for name, title in titles if f"[{title}]({name})" not in RECORD_LIST] == []
