"""Every command in the documents is run by a test, or at least parsed: there is such a command and option."""

from __future__ import annotations

import re

import click
import pytest

from photon.cli.main import main
from tests.documents import DOCUMENTS, ROOT, blocks, calls, lines_of_shell, wrong_in

# Blocks of shell that a test runs, from the first to the last, in an empty folder.
RUN = {
    "README.md": "tests/e2e/test_documents.py",
    "docs/access-logs.md": "tests/services/test_first_pages.py",
    "docs/formats-and-adapters.md": "tests/e2e/test_documents.py",
    "docs/landing.md": "tests/services/test_first_pages.py",
    "docs/objects.md": "tests/services/test_first_pages.py",
    "docs/own-logs.md": "tests/e2e/test_documents.py",
    "docs/runbook.md": "tests/e2e/test_documents.py",
    "docs/sql.md": "tests/e2e/test_documents.py",
    "docs/tutorial.md": "tests/e2e/test_documents.py",
}
BACKUPS = "docs/operations/backups.md"
COPIES = ("Make a copy", "Put a copy of the state back", "Put a copy of all back")
# These sections have blocks that another test runs, or that need something that no test has.
RUN_IN_SECTIONS = {
    **{(BACKUPS, copy): "tests/e2e/test_backups.py" for copy in COPIES},
    (BACKUPS, "A row that the registry does not know"): "tests/e2e/test_hold_and_retire.py",
    ("docs/deployment.md", "On a laptop"): "tests/e2e/test_deployment.py",
    ("docs/deployment.md", "On a laptop, with lakes on MinIO"): "tests/e2e/test_deployment.py",
    ("docs/deployment.md", "On a cluster"): "tests/e2e/test_deployment.py",
}
ONLY_PARSED = {
    ("docs/deployment.md", "On AWS"): "an account",
    ("docs/deployment.md", "On several machines"): "several machines",
    ("docs/deployment.md", "On Kubernetes"): "a cluster",
}


def sections_with_shell(document: str) -> set[str]:
    return {block.section for block in blocks(document) if block.language in ("bash", "sh", "shell")}


def test_a_block_of_shell_is_run_by_a_test_or_named_here() -> None:
    with_shell = {(page, section) for page in DOCUMENTS for section in sections_with_shell(page)}
    known = {*RUN_IN_SECTIONS, *ONLY_PARSED}
    assert known - with_shell == set(), "a section that is named here has no block any more"
    assert {(page, section) for page, section in with_shell - known if page not in RUN} == set()


@pytest.mark.parametrize(
    ("page", "test"), [*RUN.items(), *((at[0], test) for at, test in RUN_IN_SECTIONS.items())]
)
def test_the_test_that_runs_a_page_names_it(page: str, test: str) -> None:
    assert page.rpartition("/")[2] in (ROOT / test).read_text()


def unknown_to(
    command: click.Command, arguments: list[str], above: click.Context | None = None
) -> str | None:
    """Say what is wrong with a call, by the command's own parser; values are not looked at."""
    context = click.Context(command, above, command.name, **command.context_settings)
    try:
        found, rest, _ = command.make_parser(context).parse_args(list(arguments))
    except click.UsageError as error:
        message = error.format_message()
        return None if message.endswith("requires an argument.") else message  # an option that is only named
    files = found.get("pipeline_file")
    if isinstance(files, tuple) and len(files) > 1:
        return f"too many arguments: {files}"
    if not isinstance(command, click.Group):
        return f"too many arguments: {rest}" if rest else None
    if not rest or not re.match(r"[a-z]", rest[0]):  # a call of the group itself, or `photon COMMAND --help`
        return None
    inner = command.get_command(context, rest[0])
    return f"no command {rest[0]}" if inner is None else unknown_to(inner, rest[1:], context)


def wrong_calls(document: str) -> list[str]:
    wrong = {" ".join(call): unknown_to(main, call) for call in calls(document, "photon")}
    return [f"photon {call}: {why}" for call, why in wrong.items() if why]


def test_documents_call_photon_as_it_can_be_called() -> None:
    assert wrong_in(DOCUMENTS, wrong_calls) == {}


def names_of_the_checkout(document: str) -> list[str]:
    return [line for line in lines_of_shell(document) if re.search(r"\.venv/(?!dbt/|bin/activate$)", line)]


def test_documents_call_programs_as_who_has_installed_photon_types_them() -> None:
    assert wrong_in(DOCUMENTS, names_of_the_checkout) == {}


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


def test_ci_calls_targets_that_make_has() -> None:
    called = re.findall(
        r"(?:^|\s)make ((?:--jobs \d )?[a-z -]+)$", (ROOT / ".ci/run").read_text(), re.MULTILINE
    )
    named = {word for call in called for word in call.split() if word[0].isalpha()}
    assert {"check", "test", "test-all"} <= named
    assert named - make_targets() == set()


def test_documents_name_targets_that_make_has() -> None:
    targets = make_targets()
    named = {page: {word for call in calls(page, "make") for word in call} for page in DOCUMENTS}
    assert wrong_in(DOCUMENTS, lambda page: [n for n in named[page] - targets if "=" not in n]) == {}


def missing_files(document: str) -> list[str]:
    pattern = r"(?<![\w/.-])(?:infra|examples|bench|tests)/[\w/-]+(?:\.\w+)?(?![\w*/])"
    named = {name for line in lines_of_shell(document) for name in re.findall(pattern, line)}
    made = {"logs", "lake", "state"}
    return sorted(name for name in named if not (ROOT / name).exists() and made.isdisjoint(name.split("/")))


def test_files_of_the_project_in_commands_are_there() -> None:
    assert wrong_in(DOCUMENTS, missing_files) == {}


def test_a_call_that_no_command_understands_is_noticed() -> None:
    assert unknown_to(main, ["verify", "PIPELINE", "--no-such"]) is not None
    assert unknown_to(main, ["no-such"]) is not None
    assert unknown_to(main, ["registry", "gc", "PIPELINE", "ANOTHER"]) is not None
    assert unknown_to(main, ["registry", "repair", "PIPELINE", "--endpoint", "URL"]) is None
