"""`photon dead-letters`: what it prints and what it leaves."""

import json
from pathlib import Path

import pytest
from click.testing import Result

from photon.dispatcher.recovery.orders import waiting_orders
from tests.simulation.mending_stories import BAD, world_with_a_bad_line
from tests.simulation.world import World
from tests.support.commands import photon

MEND = """
def comma(line, reason):
    return line.decode().replace('7 "at"', '7, "at"')

def nothing(line, reason):
    return None
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "mends.py").write_text(MEND)
    world = world_with_a_bad_line(World(tmp_path))
    world.log("east", "clicks", *(f"no record {number}\n" for number in range(3)))
    world.join()
    return world


def run(world: World, *options: str) -> Result:
    return photon("dead-letters", world.pipeline.file, *options)


def test_the_list_is_counted_by_reason_and_bounded(world: World) -> None:
    said = run(world, "--most", "1").output
    assert said.startswith("east: 4 dead letters of the foreign log\n")
    assert f"    {BAD}\n" in said
    assert "  and 3 more: --most shows more of them" in said
    assert "no record" not in said


def test_the_list_says_where_each_letter_is_and_why(world: World) -> None:
    value = json.loads(run(world, "--json", "--reason", "char").stdout)["east"]
    assert value["count"] == sum(value["reasons"].values()) == len(value["letters"])
    first = value["letters"][0]
    assert (first["file"], first["line"], first["event_id"]) == ("clicks/a.jsonl", BAD, None)
    assert first["occurrence"].endswith(f":{first['offset']}")


def test_a_dry_run_shows_before_and_after_and_orders_nothing(world: World) -> None:
    said = run(world, "--mend", "mends:comma", "--dry-run").output
    assert f"    before  {BAD}\n" in said
    assert f"    after   {BAD.replace('7 ', '7, ')}\n" in said
    assert "a record: id c1, key q1, time 2023-11-14" in said
    assert "it joins the primary event at queries/a.jsonl, offset 0" in said
    assert "1 mended line would be looked at again, 0 dead letters are left as they are" in said
    assert "3 not: still no record: " in said
    assert waiting_orders(world.state()) == []


def test_a_function_mends_what_it_returns(world: World) -> None:
    assert "1 mended line is looked at again" in run(world, "--mend", "mends:comma").output
    assert world.join().counts.of("joined") == 2
    left = run(world, "--mend", "mends:nothing").output
    assert left == "east: 0 mended lines are looked at again, 3 dead letters are left as they are\n"


def test_run_and_dry_run_tell_the_same_of_each_line(world: World) -> None:
    words = ("--mend", "mends:comma", "--json")
    would, did = (json.loads(run(world, *words, *more).stdout) for more in (["--dry-run"], []))
    assert (would["dry_run"], did["dry_run"]) == (True, False)
    assert would["datacenters"]["east"]["lines"] == did["datacenters"]["east"]["lines"]
    assert did["datacenters"]["east"]["lines"][0]["join"].startswith("it joins the primary event at")


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_lines_that_wait_in_an_order_are_told_and_not_ordered_again(world: World, more: list[str]) -> None:
    run(world, "--mend", "mends:comma")
    said = run(world, "--mend", "mends:comma", *more).output
    assert "0 mended lines " in said
    assert (
        "  1 mended line ordered before and not taken up yet: the datacenter does that when it runs" in said
    )
    assert len(waiting_orders(world.state())) == 1
    assert world.join().counts.of("joined") == 2


def test_what_was_exported_and_edited_is_mended(world: World, tmp_path: Path) -> None:
    file = tmp_path / "letters.jsonl"
    assert run(world, "--export", str(file)).output == f"east: 4 dead letters are in {file}\n"
    file.write_text(file.read_text().replace('7 \\"at', '7, \\"at'))
    value = json.loads(run(world, "--mend-file", str(file), "--json").stdout)["datacenters"]["east"]
    assert (value["ordered"], value["left_as_they_are"], value["problems"]) == (1, 3, {})
    assert world.join().counts.of("joined") == 2


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("--mend", "mends:comma", "--export", "x"), 2, "expected one of --mend, --mend-file and --export"),
        (("--dry-run",), 2, "--dry-run goes with --mend or --mend-file"),
        (("--mend", "mends:none"), 2, "has no function 'none'"),
        (("--export", "{file}"), 2, "is there already; expected a new file"),
        (("-d", "north"), 2, "has no datacenter 'north'"),
    ],
)
def test_wrong_usage_is_told(world: World, options: tuple[str, ...], status: int, said: str) -> None:
    result = run(world, *(option.format(file=world.pipeline.file) for option in options))
    assert result.exit_code == status
    assert said in result.output


def test_a_datacenter_without_a_state_is_told(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert "east: " in run(world).output
    assert "start the datacenter first" in run(world).output
