"""The rulebook is complete: every code that is cited has a rule, and every rule tests or an honest word.

Also: each rule that is left out is noticed by something.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.documents import wrong_in
from tests.simulation.whole.variants import VARIANTS

ROOT = Path(__file__).parents[2]
PROTOCOL = ROOT / "docs" / "protocol.md"
PRODUCT = ("photon", "jobs", "resources", "assets", "orchestration")
SOURCES = sorted(
    source
    for folder in (*PRODUCT, "bench", "examples", "tests")
    for source in (ROOT / folder).rglob("*.py")
    if source != Path(__file__)
)
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LEFT_OUT_MARKS = re.compile(r"pytest\.mark\.(?:long|slow|browser|services)\b")
CODE = re.compile(r"\b[A-GLRU]\d{1,2}\b")
TEXT_TOKENS = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
NOT_KEPT = "not kept yet"


@dataclass(frozen=True)
class Rule:
    """One rule of docs/protocol.md."""

    code: str
    text: str

    @property
    def tests(self) -> list[tuple[str, str]]:
        """File and function of each test that the rule names: of itself, or of a Photon without it."""
        named = " ".join(re.findall(r"^- (?:Tests|Left out): (.*(?:\n  .*)*)", self.text, re.MULTILINE))
        found: list[tuple[str, str]] = []
        file = ""
        for word in re.findall(r"`(\S+?)`", named):
            if word.startswith("tests/"):
                file = word
            else:
                found.append((file, word))
        return found

    @property
    def is_kept(self) -> bool:
        """Say whether the code keeps the rule, at least in part."""
        return NOT_KEPT not in self.text.lower()


def rules_of(text: str) -> list[Rule]:
    """The rules of a page: a heading like `### A11. ...` each, up to the next heading."""
    parts = re.split(r"^#{2,3} ", text, flags=re.MULTILINE)
    return [Rule(part.split(".")[0], part) for part in parts if re.match(r"[A-GLRU]\d+\. ", part)]


RULES = rules_of(PROTOCOL.read_text())
CODES = {rule.code for rule in RULES}


def cited_in(source: Path) -> set[str]:
    """The codes in the comments and texts of a source; in all of a document."""
    if source.suffix != ".py":
        return set(CODE.findall(source.read_text()))
    tokens = tokenize.generate_tokens(io.StringIO(source.read_text()).readline)
    return {code for token in tokens if token.type in TEXT_TOKENS for code in CODE.findall(token.string)}


@cache
def functions_of(file: str) -> dict[str, bool]:
    """Say for each name that pytest may find in a file whether `make test` leaves it out."""
    path = ROOT / file
    found: dict[str, bool] = {}
    text = path.read_text() if path.is_file() else ""
    marks_all = re.findall(r"^pytestmark = .*", text, re.MULTILINE)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            marks = " ".join([*map(ast.unparse, node.decorator_list), *marks_all])
            found[node.name] = bool(LEFT_OUT_MARKS.search(marks))
        elif isinstance(node, ast.Assign):  # a state machine of hypothesis: TestX = X.TestCase
            found.update(dict.fromkeys((ast.unparse(target) for target in node.targets), False))
        elif isinstance(node, ast.Dict):  # a table of stories by their names
            found.update((key.value, False) for key in node.keys if isinstance(key, ast.Constant))
    return found


def test_the_rules_of_each_section_are_in_order_and_no_number_comes_twice() -> None:
    numbers = {
        section: [int(rule.code[1:]) for rule in RULES if rule.code[0] == section] for section in "ABCDEFGLRU"
    }
    assert all(numbers.values())
    assert numbers == {section: sorted(set(found)) for section, found in numbers.items()}


def test_every_code_that_is_cited_is_a_rule() -> None:
    cited = {source: cited_in(source) for source in [*SOURCES, *DOCUMENTS]}
    assert set().union(*cited.values()) & CODES  # the search finds something
    unknown = {str(source.relative_to(ROOT)): codes - CODES for source, codes in cited.items()}
    assert {source: sorted(codes) for source, codes in unknown.items() if codes} == {}


def test_no_source_cites_a_rule_that_is_not_kept_yet() -> None:
    open_rules = {rule.code for rule in RULES if not rule.is_kept}
    product = [source for source in SOURCES if source.relative_to(ROOT).parts[0] in PRODUCT]
    cited = {str(source.relative_to(ROOT)): sorted(cited_in(source) & open_rules) for source in product}
    assert {source: codes for source, codes in cited.items() if codes} == {}


def test_no_source_cites_a_document_that_is_not_in_the_repository() -> None:
    elsewhere = re.compile(r"\b(?:design|specification|issue),? section", re.IGNORECASE)
    cited = [source for source in [*SOURCES, *DOCUMENTS] if elsewhere.search(source.read_text())]
    assert [str(source.relative_to(ROOT)) for source in cited] == []


def test_a_rule_names_a_test_or_says_that_it_is_not_kept_yet() -> None:
    assert {rule.code: bool(rule.tests) for rule in RULES} == {rule.code: rule.is_kept for rule in RULES}


KEPT = [rule.code for rule in RULES if rule.is_kept]
KEPT_BY_CODE = [code for code in KEPT if code[0] != "F"]
RULE_OF = {rule.code: rule for rule in RULES}


def test_the_code_that_keeps_a_rule_cites_it() -> None:
    product = [source for source in SOURCES if source.relative_to(ROOT).parts[0] in PRODUCT]
    cited = set().union(*(cited_in(source) for source in product))
    assert [code for code in KEPT_BY_CODE if code not in cited] == []


def missing(tests: list[tuple[str, str]]) -> list[str]:
    return [f"{file}: {name}" for file, name in tests if name not in functions_of(file)]


def test_every_test_that_a_rule_names_exists() -> None:
    assert wrong_in(RULE_OF, lambda code: missing(RULE_OF[code].tests)) == {}


def test_make_test_runs_a_test_of_every_rule_that_is_kept() -> None:
    def is_run(code: str) -> bool:
        return any(not functions_of(file).get(name, True) for file, name in RULE_OF[code].tests)

    assert [code for code in KEPT if not is_run(code)] == []


NOTICED = {
    rule.code: rule.text.partition("- Left out: ")[2].partition("\n- ")[0]
    for rule in RULES
    if "- Left out: " in rule.text
}


def unnoticed(code: str) -> list[str]:
    """Say what is wrong with the tests that notice that a rule is left out."""
    noticed = NOTICED.get(code, "")
    variants = re.findall(r"\*(.+?)\*", noticed)
    tests = re.findall(r"`(tests/\S+)`: `(\S+)`", noticed)
    if not variants and not tests:
        return ["nothing notices it"]
    return [name for name in variants if VARIANTS[name].rule != code] + missing(tests)


def test_a_rule_that_is_left_out_is_noticed_by_a_test_or_a_variant() -> None:
    assert wrong_in(KEPT_BY_CODE, unnoticed) == {}


def test_every_variant_of_whole_datacenters_stands_beside_its_rule() -> None:
    assert [name for name, variant in VARIANTS.items() if f"*{name}*" not in NOTICED[variant.rule]] == []


def test_a_page_is_read_as_it_is_meant() -> None:
    page = (
        "## A. Title\n### A1. Kept\n- Kept in: `photon/x.py`\n- Tests: `tests/a.py`: `test_b`,\n  `test_c`;\n"
        "  `tests/d.py`: `test_e`\n- Open: `more`\n### A2. Open\n- Not kept yet: later.\n## B. Title\ntext\n"
    )
    kept, still_open = rules_of(page)
    assert kept.tests == [("tests/a.py", "test_b"), ("tests/a.py", "test_c"), ("tests/d.py", "test_e")]
    assert kept.is_kept
    assert (still_open.code, still_open.tests, still_open.is_kept) == ("A2", [], False)
