"""A folder whose marker or files come in another order loses rows, or shows half of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from photon.feed.folder import FedFolder
from photon.feed.step import Step
from photon.process.faults import fault_point, watched
from photon.releases.release import Release
from photon.storage.store import content
from tests.feed.made_steps import FED, row, step
from tests.feed.test_folder import files, lines_of

STEPS = [step(1), step(2, [row(2, at) for at in range(5)])]


class MarkerFirst(FedFolder):
    def deliver(self, steps: Sequence[Step]) -> Release | None:
        for each in steps:
            self._mark(each)
            fault_point("follow.after_cursor")
            self._put(f"{each.release.number:012d}.jsonl", each)
        return self.cursor()


class FilesGrowInPlace(FedFolder):
    def _put(self, name: str, step: Step) -> None:
        if not (self._folder / name).exists():  # type: ignore[operator]
            with (self._folder / name).open("wb") as file:  # type: ignore[union-attr]
                for page in step.pages():
                    content(lines_of(step)[: 10 * page.num_rows])(file)
                    file.flush()
                    fault_point("disk.before_sync")


class Killed(Exception):
    pass


@pytest.mark.parametrize(
    ("broken", "at"), [(MarkerFirst, "follow.after_cursor"), (FilesGrowInPlace, "disk.before_sync")]
)
def test_without_the_rule_a_file_is_lacking_or_half(tmp_path: Path, broken: type[FedFolder], at: str) -> None:
    def die(point: str, _: object) -> None:
        if point == at:
            raise Killed

    for kind in (broken, FedFolder):
        folder = tmp_path / kind.__name__
        with closing(kind(folder, FED)) as sink, pytest.raises(Killed), watched(die):
            sink.deliver(STEPS)
        with closing(kind(folder, FED)) as sink:
            last = sink.cursor()
            sink.deliver(STEPS if last is None else STEPS[last.number :])
        whole = {f"{one.release.number:012d}.jsonl": lines_of(one) for one in STEPS}
        assert (files(folder) == whole) is (kind is FedFolder)
