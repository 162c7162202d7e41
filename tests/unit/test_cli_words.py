"""A command reads its words and the pipeline file, before anything is started."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from photon.cli.main import main
from photon.dispatcher.shift import people
from photon.registry.register import Members, Register
from tests.support.commands import photon
from tests.support.pipelines import PIPELINE


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("retries", "retries: {}"),
        ("retry.unjoinable_after", "retry: {unjoinable_after: 250 parsecs}"),
        ("home", "home: soon"),
    ],
)
def test_a_wrong_pipeline_file_is_one_message_with_the_key_and_nothing_is_started(
    pipeline_file: Path, key: str, line: str
) -> None:
    pipeline_file.write_text(PIPELINE + line + "\n")
    done = photon("join", pipeline_file)
    assert done.exit_code == 2
    assert key in done.output
    assert str(pipeline_file) in done.output
    assert list(pipeline_file.parent.iterdir()) == [pipeline_file]


def test_a_column_that_is_in_no_header_is_named_and_nothing_is_started(pipeline_file: Path) -> None:
    folder = pipeline_file.parent / "logs" / "east" / "clicks"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text("click,search,at\nc1,q1,5\n")
    done = photon("join", pipeline_file)
    assert done.exit_code == 2
    assert "query" in done.output
    assert not (pipeline_file.parent / "state").exists()


def test_json_lines_that_are_called_csv_are_told_once_by_their_format(pipeline_file: Path) -> None:
    folder = pipeline_file.parent / "logs" / "east" / "clicks"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text('{"click": "c1", "query": "q1", "at": 5}\n')
    done = photon("join", pipeline_file)
    assert done.exit_code == 2
    (message,) = done.stderr.splitlines()
    assert "foreign.format: expected the format of" in message
    assert "looks like jsonl" in message


def test_a_pipeline_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = photon("join", tmp_path / "nowhere.yaml")
    assert done.exit_code == 2
    assert "nowhere.yaml" in done.output


def test_an_adapter_that_is_not_there_is_named_and_nothing_is_started(pipeline_file: Path) -> None:
    pipeline_file.write_text(PIPELINE + "adapter: nowhere:nothing\n")
    done = photon("join", pipeline_file)
    assert done.exit_code == 2
    assert "nowhere" in done.output
    assert not (pipeline_file.parent / "state").exists()


def test_an_unknown_datacenter_is_refused_with_those_that_there_are(pipeline_file: Path) -> None:
    done = photon("join", pipeline_file, "-d", "north")
    assert done.exit_code == 2
    assert "east, west" in done.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["availability", "-d", "east"], "--minute"),
        (["availability", "--minute", "2026-01-31T10:42", "--most", "0"], "--most"),
        (["recover", "--reason", "broken"], "--dead-letters"),
        (["recover", "--recorded", "--dead-letters"], "leave one out"),
        (["recover", "--event", "c1", "--dead-letters"], "leave one out"),
        (["recover", "--day", "2026-01-31", "--recorded"], "leave one out"),
        (["backfill", "-d", "east", "--day", "2026-01-31", "--rebuild", "--wait"], "--wait"),
    ],
)
def test_an_option_that_would_have_no_effect_is_refused(
    pipeline_file: Path, words: list[str], told: str
) -> None:
    command, *options = words
    done = photon(command, pipeline_file, *options)
    assert done.exit_code == 2
    assert told in done.stderr
    assert not (pipeline_file.parent / "state").exists()


def test_a_join_ends_in_one_way(pipeline_file: Path) -> None:
    done = photon("join", pipeline_file, "--until-idle", "--complete")
    assert done.exit_code == 2
    assert "--complete" in done.output


@pytest.mark.parametrize(
    "command",
    [
        ["status"],
        ["recover", "--recorded"],
        ["hold", "east"],
        ["resume", "east"],
        ["backfill", "-d", "east", "--day", "2026-01-31"],
    ],
)
def test_a_file_that_lacks_a_datacenter_of_the_registry_is_refused(
    pipeline_file: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    register = Register("searches", "", Members(1, ("a",)), epochs={"north": 1})
    monkeypatch.setattr(people, "register_of", lambda _: register)
    done = photon(command[0], pipeline_file, *command[1:])
    assert done.exit_code == 3
    assert "knows datacenter north" in done.output
    assert f"photon retire {pipeline_file} north" in done.output


# -- the pipeline file may be left out


@pytest.fixture
def here(pipeline_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in the folder of `pipeline.yaml`."""
    monkeypatch.chdir(pipeline_file.parent)
    return pipeline_file.parent


def parsed(*words: str) -> dict[str, object]:
    """Return the words of a command, which is not run."""
    command: click.Command = main
    context, rest = click.Context(main, info_name="photon", **main.context_settings), list(words)
    while isinstance(command, click.Group):
        found = command.get_command(context, rest.pop(0))
        assert found is not None
        command = found
    return command.make_context(command.name, rest, parent=context).params


@pytest.mark.parametrize(
    ("words", "file", "others"),
    [
        (["status"], "pipeline.yaml", {}),
        (["status", "other.yaml"], "other.yaml", {}),
        (["hold", "east"], "pipeline.yaml", {"datacenter": "east"}),
        (["hold", "other.yaml", "east"], "other.yaml", {"datacenter": "east"}),
        (["hold", "--json", "other.yaml", "east"], "other.yaml", {"datacenter": "east"}),
        (["trace", "c42"], "pipeline.yaml", {"event_id": "c42"}),
        (["trace", "c42.yaml"], "pipeline.yaml", {"event_id": "c42.yaml"}),
        (["trace", "other.yaml", "pipeline.yaml"], "other.yaml", {"event_id": "pipeline.yaml"}),
        (["trace", "--no-logs", "--", "-c42"], "pipeline.yaml", {"event_id": "-c42"}),
        (["backfill", "-d", "east", "--day", "2026-01-31"], "pipeline.yaml", {"datacenter": "east"}),
    ],
)
def test_the_last_words_are_filled_first_and_the_pipeline_file_may_be_left_out(
    here: Path, words: list[str], file: str, others: dict[str, str]
) -> None:
    found = parsed(*words)
    assert found["pipeline_file"] == Path(file)
    assert others.items() <= found.items()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ("pipeline.yaml", None)),
        (["4"], ("pipeline.yaml", 4)),
        (["./4"], ("./4", None)),
        (["other.yaml"], ("other.yaml", None)),
        (["4", "8"], ("4", 8)),
        (["other.yaml", "4"], ("other.yaml", 4)),
    ],
)
def test_a_number_alone_is_that_of_the_ledgers(
    here: Path, words: list[str], expected: tuple[str, int | None]
) -> None:
    file, ledgers = expected
    assert parsed("registry", "reshard", *words)["words"] == (Path(file), ledgers)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["status", "a.yaml", "b.yaml"], "expected one pipeline file, got 2: a.yaml, b.yaml"),
        (["hold", "a.yaml", "east", "west"], "expected one pipeline file, got 2: a.yaml, east"),
        (["hold"], "Missing argument 'DATACENTER'"),
        (["registry", "reshard", "a.yaml", "four"], "'four' is not a valid integer"),
        (["registry", "reshard", "65"], "65 is not in the range"),
    ],
)
def test_words_too_many_or_too_few_are_refused(here: Path, words: list[str], told: str) -> None:
    done = photon(*words)
    assert (done.exit_code, told in done.stderr) == (2, True), done.stderr


def test_a_datacenter_that_is_called_like_a_file_of_this_folder_is_the_datacenter(here: Path) -> None:
    (here / "east").write_text("no pipeline")
    assert parsed("hold", "east")["datacenter"] == "east"


def test_a_folder_without_a_pipeline_file_is_told_with_the_way_to_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = photon("trace", "c42")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"photon: there is no pipeline.yaml in {tmp_path}: name the pipeline file")
    assert "photon init PRIMARY FOREIGN" in done.stderr
    assert photon("trace", "--help").exit_code == 0


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["trace", "c 42", "--no-logs"], "photon trace folder/my.yaml 'c 42' --no-logs"),
        (["hold", "east"], "photon hold folder/my.yaml east"),
        (["registry", "reshard", "4"], "photon registry reshard folder/my.yaml 4"),
        (["status"], "photon status folder/my.yaml"),
    ],
)
def test_the_command_that_names_a_pipeline_file_has_all_words_that_were_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"as in {command}, or write one" in photon(*words).stderr


def test_a_trace_before_the_very_first_join_says_so_and_proposes_to_retire_nobody(
    pipeline_file: Path,
) -> None:
    """Broken variant: each table is not there, and the lakes are to be given up as gone."""
    done = photon("trace", pipeline_file, "c1")
    assert done.exit_code == 0
    assert "has never joined" in done.stdout
    assert "retire" not in done.stdout
    assert "no table joined_events" not in done.stdout


def test_a_trace_of_no_id_is_wrong_usage(pipeline_file: Path) -> None:
    done = photon("trace", pipeline_file, "")
    assert done.exit_code == 2
    assert "EVENT_ID is empty" in done.output


def test_a_trace_of_bytes_that_are_no_text_is_wrong_usage(pipeline_file: Path) -> None:
    done = photon("trace", pipeline_file, b"\xff-1".decode(errors="surrogateescape"))
    assert done.exit_code == 2
    assert "is no UTF-8" in done.output
