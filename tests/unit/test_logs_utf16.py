"""UTF-16 is not read: its file is told with the command that converts it, and holds back as others do."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

import pytest

from photon.pipeline.sections import Limits
from tests.unit.tailing_world import World

TEXT = "id,t,note\n" + "".join(f"{i},{i},ਊ{chr(0x0A00 + i)}😀\n" for i in range(1, 60))


@pytest.mark.parametrize("name", ["a b.csv", "a b.csv.gz"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_a_file_in_utf_16_is_unread_until_the_command_that_tells_of_it_was_typed(
    tmp_path: Path, name: str, encoding: str
) -> None:
    world = World(tmp_path / "logs", "**/*.csv", "csv", Limits())
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    stored = (mark + TEXT).encode(encoding)
    world.write(name, gzip.compress(stored) if name.endswith(".gz") else stored)
    assert world.read(final=True) == {}
    (problem,) = world.last_seen.problems
    assert problem.reason.startswith("it is UTF-16; convert it when nobody writes it any more, for iconv ")
    assert [each.path for each in world.last_seen.seen_files.unread] == [name]

    subprocess.run(problem.reason.split("`")[1], shell=True, check=True)
    assert b"".join(world.read(final=True).values()) == TEXT.partition("\n")[2].encode()
    assert not world.last_seen.problems
    assert not world.last_seen.seen_files.unread


def test_a_gzip_file_in_utf_16_that_iconv_can_not_convert_is_kept(tmp_path: Path) -> None:
    world = World(tmp_path / "logs", "**/*.csv", "csv", Limits())
    stored = gzip.compress(TEXT.encode("utf-16") + b"\x00\xd8x\x00")  # half a character at its end
    world.write("a.csv.gz", stored)
    assert world.read(final=True) == {}
    command = world.last_seen.problems[0].reason.split("`")[1]
    assert subprocess.run(command, shell=True, check=False, capture_output=True).returncode != 0
    assert (tmp_path / "logs/a.csv.gz").read_bytes() == stored


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_an_encoding_of_a_byte_a_character_takes_no_utf_16_for_text(tmp_path: Path, encoding: str) -> None:
    world = World(tmp_path / "logs", "**/*.csv", "csv", Limits())
    world.log = world.log.model_copy(update={"encoding": encoding})
    world.restart()
    world.write("a.csv", TEXT.encode("utf-16"))
    assert world.read(final=True) == {}
    assert "it is UTF-16; " in world.last_seen.problems[0].reason
