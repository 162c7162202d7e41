"""The archive that the machines of a Spark cluster are sent: Photon's code and the user's modules."""

from __future__ import annotations

import gc
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from examples.demo.traffic import Traffic
from photon.jobs import worker_daemon
from photon.jobs.cluster import code_archive
from photon.pipeline.file import Pipeline, load_pipeline

ADAPTER = "from photon.adapters import Adapter\nfrom sent_pkg.words import WORD\nown = Adapter()\n"


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """A pipeline whose adapter is a package beside it."""
    package = tmp_path / "sent_pkg"
    package.mkdir()
    (package / "__init__.py").write_text(ADAPTER)
    (package / "words.py").write_text("WORD = 1\n")
    return load_pipeline(Traffic(1).write_pipeline(tmp_path, more="adapter: sent_pkg:own\n"))


def test_a_machine_with_the_archive_alone_runs_tasks_and_finds_the_adapter(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    archive = code_archive(pipeline)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / archive.name).write_bytes(archive.read_bytes())
    asked = (
        "import photon.jobs.worker_daemon, photon.join.tasks as tasks\n"
        "from photon.join.adapting import load_adapter\n"
        "load_adapter('sent_pkg:own')\n"
        "import sent_pkg\n"
        "print(tasks.__file__, sent_pkg.__file__)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", asked],
        cwd=elsewhere,
        env={"PYTHONPATH": archive.name},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    own = str(elsewhere / archive.name)
    assert [each.startswith(own) for each in told.stdout.split()] == [True, True]


def test_the_same_code_is_the_same_archive_and_other_code_another(pipeline: Pipeline) -> None:
    first, second = code_archive(pipeline), code_archive(pipeline)
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()
    (pipeline.file.parent / "sent_pkg" / "words.py").write_text("WORD = 2\n")
    assert code_archive(pipeline).name != first.name


def test_a_format_of_ones_own_is_sent_too(pipeline: Pipeline) -> None:
    text = pipeline.file.read_text()
    pipeline.file.write_text(text.replace("format: jsonl", "format: sent_format:Pairs", 1))
    (pipeline.file.parent / "sent_format.py").write_text("")
    with zipfile.ZipFile(code_archive(load_pipeline(pipeline.file))) as archive:
        assert "sent_format.py" in archive.namelist()


def test_no_more_is_sent_than_code(pipeline: Pipeline) -> None:
    (pipeline.file.parent / "sent_pkg" / "secret.env").write_text("password")
    (pipeline.file.parent / "other.py").write_text("")
    with zipfile.ZipFile(code_archive(pipeline)) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names} == {"photon", "sent_pkg"}
    assert all(name.endswith(".py") for name in names)


def test_what_a_run_says_of_spark_comes_before_what_the_file_says(pipeline: Pipeline) -> None:
    first = pipeline.on_spark("spark://a:1", {"x": "1", "y": "1"})
    assert first.on_spark(None, {"y": "2"}).spark.master == "spark://a:1"
    assert first.on_spark("spark://b:1", {"y": "2"}).spark.master == "spark://b:1"
    assert first.on_spark(None, {"y": "2"}).spark.settings == {"x": "1", "y": "2"}


def test_workers_look_for_no_garbage_in_the_modules_that_they_share(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    monkeypatch.setattr(worker_daemon, "manager", lambda: left.append(len(gc.get_objects())))
    try:
        worker_daemon.main()
    finally:
        gc.unfreeze()
    assert left[0] < 1_000
