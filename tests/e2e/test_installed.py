"""Pip installs the product with all files that it reads; it joins, shows and verifies far from a checkout."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
import zipfile
from os.path import dirname, normpath
from pathlib import Path

import pytest

from examples.demo.traffic import Traffic
from tests.documents import ROOT
from tests.support.wheel import (
    Environment,
    build_wheel,
    installed_beside_our_packages,
    installed_from_the_index,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
TRAFFIC = Traffic(5, ("east", "west"), 20, 5, duration_seconds=20)
FOLDERS = ("photon", "jobs", "resources", "assets", "orchestration")
JOINED = TRAFFIC.expected_outcomes().joined_total


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_pip_installs_one_package_at_the_top_which_no_dagster_project_has(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"photon"}


def test_pip_installs_every_file_that_lies_in_a_package(wheel: Path) -> None:
    there = {f"photon/{page.relative_to(ROOT)}" for page in (ROOT / "docs").rglob("*.md")}
    there |= {
        str(Path("photon") / file.relative_to(ROOT / "photon" if folder == "photon" else ROOT))
        for folder in FOLDERS
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert there <= set(zipfile.ZipFile(wheel).namelist())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return installed_beside_our_packages(wheel, tmp_path_factory.mktemp("environment"))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A folder of a user's, with logs."""
    TRAFFIC.write_all(tmp_path)
    return tmp_path


def succeeds(environment: Environment, *command: str | Path, cwd: Path) -> str:
    done = environment.run(*command, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def joined(environment: Environment, logs: Path, *engine: str) -> None:
    """From logs to a joined table, as a new user comes to it."""
    places = [f"-d{name}=logs/{name}" for name in TRAFFIC.datacenters]
    succeeds(environment, "photon", "init", "queries", "clicks", *places, "-o", "pipeline.yaml", cwd=logs)
    succeeds(environment, "photon", "join", "--complete", *engine, cwd=logs)


def joined_once(environment: Environment, folder: Path, *engine: str) -> Path:
    """Return a folder of logs that are joined, for tests that only read it."""
    TRAFFIC.write_all(folder)
    joined(environment, folder, *engine)
    return folder


@pytest.fixture(scope="module")
def ready(installed: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return joined_once(installed, tmp_path_factory.mktemp("ready"), "--engine", "local")


def test_an_installed_photon_is_its_own_and_says_its_version(installed: Environment, tmp_path: Path) -> None:
    where = succeeds(installed, "python", "-c", "import photon; print(photon.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.folder)
    assert re.fullmatch(
        r"photon, version \d+\.\d+\.\d+\n", succeeds(installed, "photon", "--version", cwd=tmp_path)
    )


def test_links_of_installed_pages_lead_to_installed_files(wheel: Path) -> None:
    """But for examples, which a checkout alone has."""
    with zipfile.ZipFile(wheel) as files:
        there = set(files.namelist())
        pages = {name: files.read(name).decode() for name in there if name.endswith(".md")}
    assert "photon/docs/landing.md" in pages
    meant = {
        (page, normpath(f"{dirname(page)}/{link}"))
        for page, text in pages.items()
        for link in re.findall(r"\]\(([^)#\s:]+)[#)]", text)
    }
    assert [at for at in sorted(meant) if at[1] not in there and "/examples/" not in at[1]] == []


def test_it_goes_from_logs_to_rows_that_are_read_followed_and_verified(
    installed: Environment, ready: Path
) -> None:
    counted = succeeds(
        installed, "photon", "sql", "select count(*) n from joined", "--format", "json", cwd=ready
    )
    assert f'"n":{JOINED}' in counted.replace(" ", "")
    assert len(succeeds(installed, "photon", "follow", "--once", cwd=ready).splitlines()) == JOINED
    assert json.loads(succeeds(installed, "photon", "verify", "--json", cwd=ready))["ok"]


def test_its_page_answers(installed: Environment, ready: Path) -> None:
    command = [installed.folder / "bin" / "photon", "ui", "--port", "0"]
    with subprocess.Popen(
        command, cwd=ready, env=installed.variables, stderr=subprocess.PIPE, text=True
    ) as page:
        try:
            assert page.stderr is not None
            (url,) = re.findall(r"is at (http://\S+),", page.stderr.readline())
            for file in ("", "js/main.js"):
                with urllib.request.urlopen(url + file) as answer:
                    assert answer.status == 200
        finally:
            page.terminate()


@pytest.mark.spark
def test_setup_readies_spark_and_a_join_takes_it(installed: Environment, logs: Path) -> None:
    assert "Spark is ready" in succeeds(installed, "photon", "setup", cwd=logs)
    joined(installed, logs)
    assert json.loads(succeeds(installed, "photon", "verify", "--json", cwd=logs))["ok"]


COMPONENT = """\
type: photon.orchestration.component.PhotonPipelineComponent
attributes:
  pipelines: [../../../pipeline.yaml]
"""
DEFINITIONS = """\
from pathlib import Path
from dagster import Definitions, load_from_defs_folder
from assets.of_ours import a_table
from jobs import OURS
assert OURS == "ours"
defs = Definitions.merge(
    load_from_defs_folder(path_within_project=Path(__file__).parent), Definitions(assets=[a_table])
)
"""
TABLE = "from dagster import asset\n\n@asset\ndef a_table() -> None: ...\n"


@pytest.fixture
def project(logs: Path) -> Path:
    """A Dagster project whose packages have the names of Photon's folders."""
    TRAFFIC.write_pipeline(logs)
    files = {
        "pyproject.toml": '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "ours"\n',
        "ours/__init__.py": "",
        "ours/definitions.py": DEFINITIONS,
        "ours/defs/photon/defs.yaml": COMPONENT,
        "assets/__init__.py": "",
        "assets/of_ours.py": TABLE,
        "jobs/__init__.py": 'OURS = "ours"\n',
        "resources/__init__.py": "raise SystemExit('nobody asked for it')\n",
    }
    for name, text in files.items():
        (logs / name).parent.mkdir(parents=True, exist_ok=True)
        (logs / name).write_text(text)
    return logs


@pytest.mark.parametrize("module", ["photon.orchestration.definitions", "ours.definitions"])
def test_dagster_serves_it_beside_packages_that_are_named_as_its_folders(
    installed: Environment, project: Path, module: str
) -> None:
    (project / "dagster").mkdir()
    served = Environment(installed.folder)
    validate = ["-m", "dagster", "definitions", "validate", "-m", module, "-d", str(project)]
    done = subprocess.run(
        [served.python, *validate],
        cwd=project,
        env={
            **served.variables,
            "DAGSTER_HOME": str(project / "dagster"),
            "PHOTON_PIPELINES": str(project / "pipeline.yaml"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module", params=["newest", "oldest"])
def core(
    wheel: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Environment:
    return installed_from_the_index(wheel, tmp_path_factory.mktemp("core"), request.param)


@pytest.fixture(scope="module")
def ready_by_core(core: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return joined_once(core, tmp_path_factory.mktemp("ready"))


def test_its_core_needs_neither_spark_nor_dagster(core: Environment, ready_by_core: Path) -> None:
    asked = "import pkgutil; print(*(m.name for m in pkgutil.iter_modules()))"
    there = succeeds(core, "python", "-c", asked, cwd=ready_by_core).split()
    assert {"pyspark", "dagster", "pandas", "matplotlib", "psycopg2"}.isdisjoint(there)
    assert "nothing to fetch" in succeeds(core, "photon", "setup", cwd=ready_by_core)
    assert json.loads(succeeds(core, "photon", "verify", "--json", cwd=ready_by_core))["ok"]


@pytest.mark.parametrize("core", ["newest"], indirect=True)  # which extra it is hangs on no version
@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (("join", "--engine", "spark"), "spark"),
        (("backfill", "-deast", "--day", "2026-01-05", "--rebuild"), "spark"),
        (("follow", "--once", "--to", "postgresql://localhost/none"), "postgres"),
    ],
)
def test_its_core_names_the_extra_that_a_command_needs(
    core: Environment, ready_by_core: Path, command: tuple[str, ...], extra: str
) -> None:
    done = core.run("photon", *command, cwd=ready_by_core)
    assert done.returncode == 3
    assert f"pip install 'photon-join[{extra}]'" in done.stderr.strip().splitlines()[-1]
