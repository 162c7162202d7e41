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
TEST = re.compile(r"`(test_\w+)`")
CODE = re.compile(r"\b[A-GKLRU]\d{1,2}\b")
TEXT_TOKENS = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
NOT_KEPT = "not kept yet"


@dataclass(frozen=True)
class Rule:
    """One rule of docs/protocol.md."""

    code: str
    text: str

    @property
    def tests(self) -> list[str]:
        """The tests that the rule names: of itself, or of a Photon without it."""
        return TEST.findall(self.text)

    @property
    def noticed_by(self) -> list[str]:
        """The tests that the rule names of a Photon without it."""
        return TEST.findall(self.text.partition("\n- Without: ")[2].partition("\n- ")[0])

    @property
    def is_kept(self) -> bool:
        """Say whether the code keeps the rule, at least in part."""
        return NOT_KEPT not in self.text.lower()


def rules_of(text: str) -> list[Rule]:
    """The rules of a page: a heading like `### A11. ...` each, up to the next heading."""
    parts = re.split(r"^#{2,3} ", text, flags=re.MULTILINE)
    return [Rule(part.split(".")[0], part) for part in parts if re.match(r"[A-GKLRU]\d+\. ", part)]


RULES = rules_of(PROTOCOL.read_text())
CODES = {rule.code for rule in RULES}


@cache
def cited_in(source: Path) -> set[str]:
    """The codes in the comments and texts of a source; in all of a document."""
    text = source.read_text()
    if source.suffix != ".py" or not CODE.search(text):
        return set(CODE.findall(text))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {code for token in tokens if token.type in TEXT_TOKENS for code in CODE.findall(token.string)}


@cache
def all_tests() -> dict[str, bool]:
    """Say for each function that pytest may find whether `make test` leaves it out."""
    found: dict[str, bool] = {}
    for source in (ROOT / "tests").rglob("test_*.py"):
        text = source.read_text()
        marks_all = re.findall(r"^pytestmark = .*", text, re.MULTILINE)
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                marks = " ".join([*map(ast.unparse, node.decorator_list), *marks_all])
                found[node.name] = found.get(node.name, True) and bool(LEFT_OUT_MARKS.search(marks))
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


def test_every_test_that_a_rule_names_exists() -> None:
    there = all_tests()
    assert wrong_in(RULE_OF, lambda code: [name for name in RULE_OF[code].tests if name not in there]) == {}


def test_make_test_runs_a_test_of_every_rule_that_is_kept() -> None:
    def is_run(code: str) -> bool:
        return any(not all_tests().get(name, True) for name in RULE_OF[code].tests)

    assert [code for code in KEPT if not is_run(code)] == []


def test_a_photon_without_a_rule_is_noticed_by_a_test_or_is_a_variant() -> None:
    """Each variant of whole datacenters leaves out one rule; `test_variants.py` holds that it is noticed."""
    of_variants = {variant.rule for variant in VARIANTS.values()}
    assert of_variants <= set(KEPT)
    assert [code for code in KEPT_BY_CODE if not RULE_OF[code].noticed_by and code not in of_variants] == []


def test_a_page_is_read_as_it_is_meant() -> None:
    page = (
        "## A. Title\n### A1. Kept\n- Without: `more` rows. `test_b`,\n  `test_c`\n"
        "- Tests: `test_d`\n- Open: a part\n"
        "### A2. Open\n- Not kept yet: later.\n## B. Title\ntext\n"
    )
    kept, still_open = rules_of(page)
    assert (kept.tests, kept.noticed_by) == (["test_b", "test_c", "test_d"], ["test_b", "test_c"])
    assert kept.is_kept
    assert (still_open.code, still_open.tests, still_open.is_kept) == ("A2", [], False)
