"""The pipeline file that `photon init` is to write: its name and folders, and what it must spare."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from photon.pipeline.file import Pipeline, load_pipeline, pipelines_beside
from photon.pipeline.values import PIPELINE_NAME
from photon.process.errors import WrongUsage
from photon.profile.proposal import TABLES_AND_STATE
from photon.profile.sample import CannotPropose, Where, below, where_of


def places_of(
    primary: str, foreign: str, datacenters: Iterable[str]
) -> tuple[Mapping[str, Path], tuple[Where, Where]]:
    """Each datacenter's folder of logs, and where the two samples are taken: in the first. CannotPropose.

    `datacenters`: `NAME=LOGS` each, as a person says them; none of them is one datacenter, `here`.
    """
    folders: dict[str, Path] = {}
    for each in datacenters:
        name, equals, folder = each.partition("=")
        if not (name and equals and folder):
            raise CannotPropose(f"--datacenter {each}: expected NAME=LOGS, such as east=logs/east")
        if not Path(folder).is_dir():
            raise CannotPropose(f"--datacenter {each}: {folder} is no folder; expected that of its logs")
        folders[name] = Path(folder)
    if folders:
        logs = next(iter(folders.values()))
        globs = [below(logs, str(logs / glob)) for glob in (primary, foreign)]
        places = Where(logs, globs[0]), Where(logs, globs[1])
    else:
        places = where_of(primary, foreign)
        folders = {"here": places[0].logs}
    if places[0].glob == places[1].glob:
        raise CannotPropose(
            f"PRIMARY and FOREIGN are both {places[0].logs / places[0].glob}; expected two folders, "
            "or a glob for each"
        )
    return folders, places


@dataclass(frozen=True)
class NewFile:
    """A pipeline file to come."""

    path: Path
    name: str  # name of the pipeline
    datacenters: tuple[str, ...]

    def checked(self, is_tried_only: bool, may_write_over: bool) -> str:
        """The folder that tables and states need before a datacenter's name. WrongUsage.

        `is_tried_only`: nothing is written, so that other pipelines don't matter.
        """
        is_careful = not (is_tried_only or may_write_over)
        if is_careful:
            self._refuse_to_write_over()
        others = [] if is_tried_only else pipelines_beside(self.path)
        self._check_name(others)
        before = self._before_datacenters(others)
        if is_careful:
            self._refuse_tables_of_another(self._tables(before))
        return before

    def loaded(self, text: str) -> Pipeline:
        """The pipeline of a text that is not written yet. PipelineError."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / self.path.name
            path.write_text(text)
            return load_pipeline(path)

    def _refuse_to_write_over(self) -> None:
        if self.path.exists():
            other = self.path.with_name(f"{self.name}.yaml")
            shown = other if other != self.path else self.path.with_name("FILE")
            raise WrongUsage(
                f"{self.path} is there already: --force writes over it, --output {shown} writes another "
                "beside it"
            )

    def _check_name(self, others: Iterable[Pipeline]) -> None:
        """Refuse what is no name, and another pipeline's: both would have one registry."""
        if not re.match(PIPELINE_NAME, self.name):
            raise WrongUsage(
                f"--name {self.name!r}: expected a small letter, then small letters, digits, - and _, 63 at "
                "most, such as queries_clicks"
            )
        for other in others:
            if other.name.replace("-", "_") == self.name.replace("-", "_"):
                raise WrongUsage(
                    f"the pipeline of {other.file} is called {other.name}; expected a name of its own for "
                    "this one: say --name NAME"
                )

    def _before_datacenters(self, others: Iterable[Pipeline]) -> str:
        """Nothing, or `NAME/` beside another pipeline.

        Two pipelines in the same folders would be one: each counts, and joins, what the other has read.
        """
        taken = {
            place.resolve(): other.file
            for other in others
            for each in other.datacenters.values()
            for place in (each.lake, each.state, other.registry_folder)
            if isinstance(place, Path)
        }
        for before in ("", f"{self.name}/"):
            own = self._tables(before)
            near = [place for place in taken if any(_is_one_within_the_other(place, each) for each in own)]
            if not near:
                return before
        raise WrongUsage(
            f"{near[0]} is a folder of {taken[near[0]]}, and one of {', '.join(map(str, own))} is or lies in "
            "it; expected folders of its own for this pipeline: say another --name"
        )

    def _tables(self, before: str) -> list[Path]:
        """The folders of tables, and of states."""
        folder = self.path.parent.resolve()
        return [folder / f"{kind}/{before}{each}" for each in self.datacenters for kind in TABLES_AND_STATE]

    def _refuse_tables_of_another(self, tables: Iterable[Path]) -> None:
        """Refuse folders that are there while this file is not: another pipeline has joined into them."""
        if there := [folder for folder in tables if folder.exists()]:
            raise WrongUsage(
                f"{min(there)} is there already, and {self.path} is not: it has what another pipeline has "
                f"joined. Write this one into another folder, such as --output "
                f"{self.path.stem}/{self.path.name}, or remove what is there; --force writes it all the same"
            )


def _is_one_within_the_other(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)
