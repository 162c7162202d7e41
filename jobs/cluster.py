"""Give tasks on other machines what they need: Photon's code, the user's adapter and formats, JARs.

Packages (PyArrow, NumPy, ...) are on the machines, in an image or in a packed environment
(docs/deployment.md).
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import photon
from photon.pipeline.file import Pipeline
from photon.toolchain.maven import spark_jars_dir

PYTHON = "python3"  # on the machines, unless `spark.pyspark.python` says otherwise
_folders: list[tempfile.TemporaryDirectory[str]] = []  # executors fetch from them until this process ends
_MADE_AT = (1980, 1, 1, 0, 0, 0)  # so that the same code is the same archive


def is_cluster(master: str) -> bool:
    """Whether tasks run on other machines than the driver."""
    return not master.startswith("local")


def code_archive(pipeline: Pipeline) -> Path:
    """A zip of Photon's code and the user's modules, named by its content."""
    files = sorted(_files(pipeline))
    content = hashlib.sha256()
    for name, path in files:
        content.update(f"{name}\0".encode() + path.read_bytes())
    _folders.append(tempfile.TemporaryDirectory(prefix="photon-code-"))
    archive = Path(_folders[-1].name) / f"photon-{content.hexdigest()[:16]}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as sink:
        for name, path in files:
            sink.writestr(zipfile.ZipInfo(name, _MADE_AT), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return archive


def settings_of(archive: Path) -> dict[str, str]:
    """Spark's settings for a cluster whose executors get this archive."""
    return {
        "spark.jars": ",".join(sorted(map(str, spark_jars_dir().glob("*.jar")))),
        # Executors fetch the archive into the folder that they run in, before their first task.
        "spark.executorEnv.PYTHONPATH": archive.name,
    }


def _files(pipeline: Pipeline) -> Iterator[tuple[str, Path]]:
    """The files of the archive, with their names in it."""
    yield from _modules(Path(photon.__path__[0]))
    beside = pipeline.file.parent
    of_users = (pipeline.adapter, pipeline.primary.format, pipeline.foreign.format)
    for top in sorted({spec.partition(":")[0].partition(".")[0] for spec in of_users}):
        if (module := beside / f"{top}.py").is_file():
            yield module.name, module
        elif (beside / top).is_dir():
            yield from _modules(beside / top)


def _modules(package: Path) -> Iterator[tuple[str, Path]]:
    for folder, _, names in os.walk(package, followlinks=True):  # a checkout links `photon/jobs`
        for path in (Path(folder) / name for name in names if name.endswith(".py")):
            yield str(path.relative_to(package.parent)), path
