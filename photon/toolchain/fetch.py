"""What Photon needs that pip can't install: find Java, fetch Delta's JARs for Spark and DynamoDB Local.

`python -m photon.toolchain.fetch` (part of `make setup`) fetches both into the environment that Photon is
installed in, with the Ivy that comes inside pyspark. `--check-java` runs on a bare Python, without packages.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from photon.errors import UserError

# These go together: Delta is built for one minor version of Spark; delta-spark is its Python half.
SPARK_SERIES = "4.2"
SCALA_SERIES = "2.13"
DELTA_VERSION = "4.4.0"
DYNAMODB_LOCAL_VERSION = "2.6.1"
SQLITE4JAVA_VERSION = "1.0.392"
_SQLITE = "io.github.ganadist.sqlite4java"

JAVA_AT_LEAST = 17
JAVA_REMEDY = (
    f"Install Java {JAVA_AT_LEAST} (for example: apt-get install openjdk-17-jre-headless) or set JAVA_HOME."
)

FETCH_ATTEMPTS = 3
RETRY_PAUSE_SECONDS = 3
FETCH_SECONDS = 900

# The file in each fetched folder that says what was asked for, so that a new version is fetched anew.
STAMP = "FETCHED"
_UNFINISHED = ".unfinished-"

# Not Ivy's default settings: they look into the user's home, where a half-filled cache can fail a fetch.
_IVY_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="public"/>
  <caches defaultCacheDir={cache}/>
  <resolvers><ibiblio name="public" m2compatible="true"/></resolvers>
</ivysettings>
"""
_IVY_FILE = """\
<ivy-module version="2.0">
  <info organisation="photon" module="fetch"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    {dependencies}
  </dependencies>
</ivy-module>
"""


class JavaMissing(UserError):
    """There is no Java that Spark and DynamoDB Local can run on; the message names the remedy."""


class FetchFailed(Exception):
    """An artifact could not be fetched; the message names it, the reason and what to do."""


@dataclass(frozen=True)
class Artifact:
    """One Maven artifact; `extension` is given where it is not a JAR."""

    organisation: str
    name: str
    version: str
    extension: str | None = None

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.version}"

    def as_xml(self) -> str:
        name = quoteattr(self.name)
        where = f"org={quoteattr(self.organisation)} name={name} rev={quoteattr(self.version)}"
        opening = f'<dependency {where} conf="default->default"'
        if self.extension is None:
            return opening + "/>"
        return f"{opening}><artifact name={name} type={quoteattr(self.extension)}/></dependency>"


@dataclass(frozen=True)
class Bundle:
    """A folder of files that are fetched together, with all that they depend on.

    `excluded` are names of artifacts to leave out wherever they appear.
    """

    title: str
    folder: Path
    artifacts: tuple[Artifact, ...]
    excluded: tuple[str, ...] = ()

    def ivy_file(self) -> str:
        """What is asked of Ivy, as its XML. Equal text means equal files."""
        wanted = [artifact.as_xml() for artifact in self.artifacts]
        unwanted = [f"<exclude module={quoteattr(name)}/>" for name in self.excluded]
        return _IVY_FILE.format(dependencies="\n    ".join([*wanted, *unwanted]))

    def stamp(self) -> str:
        """A short text that changes whenever the files would."""
        return hashlib.sha256(self.ivy_file().encode()).hexdigest()

    def is_fetched(self) -> bool:
        try:
            return (self.folder / STAMP).read_text() == self.stamp()
        except OSError:
            return False


def _share_dir() -> Path:
    return Path(sys.prefix) / "share" / "photon"


def spark_jars_dir() -> Path:
    """The folder of the JARs that Spark needs for Delta Lake beyond its own; may not exist yet."""
    return _share_dir() / "spark-jars"


def dynamodb_local_dir() -> Path:
    """The folder of DynamoDB Local: its JARs and the native libraries of its SQLite; may not exist yet."""
    return _share_dir() / "dynamodb-local"


def bundles() -> tuple[Bundle, ...]:
    """Everything there is to fetch."""
    delta = Artifact("io.delta", f"delta-spark_{SPARK_SERIES}_{SCALA_SERIES}", DELTA_VERSION)
    return (
        Bundle(
            title=f"Delta Lake {DELTA_VERSION} for Spark {SPARK_SERIES}",
            folder=spark_jars_dir(),
            artifacts=(delta,),
            # Delta's POM names older versions of what Spark brings along; a class path must not have two.
            excluded=artifact_names(path.name for path in _pyspark_jars_dir().glob("*.jar")),
        ),
        Bundle(
            title=f"DynamoDB Local {DYNAMODB_LOCAL_VERSION}",
            folder=dynamodb_local_dir(),
            artifacts=(
                Artifact("com.amazonaws", "DynamoDBLocal", DYNAMODB_LOCAL_VERSION),
                # DynamoDB Local's own list of native libraries has none for Apple's processors.
                Artifact(_SQLITE, "libsqlite4java-osx-aarch64", SQLITE4JAVA_VERSION, "dylib"),
            ),
            excluded=("junit", "mockito-core"),
        ),
    )


def missing() -> list[Bundle]:
    """What is not fetched yet, or is there in another version; empty when set-up is complete."""
    return [bundle for bundle in bundles() if not bundle.is_fetched()]


def artifact_names(file_names: Iterable[str]) -> tuple[str, ...]:
    """The artifact names of JAR files, sorted, each once: `jackson-core-2.21.2.jar` is `jackson-core`."""
    return tuple(sorted({re.sub(r"-\d[^_]*$", "", name.removesuffix(".jar")) for name in file_names}))


@functools.cache
def java_command() -> str:
    """The path of a `java` that is new enough: the one in JAVA_HOME if that is set, else the one on PATH.

    Raises JavaMissing, with the remedy, where there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    where = f"in JAVA_HOME ({home})" if home else "on PATH"
    if found is None:
        raise JavaMissing(f"There is no java {where}. {JAVA_REMEDY}")
    # The answer goes to standard error, by old custom.
    answer = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = java_version(answer.stderr)
    if answer.returncode != 0 or version is None:
        raise JavaMissing(f"{found} does not run. {JAVA_REMEDY}")
    if version < JAVA_AT_LEAST:
        raise JavaMissing(f"{found} is Java {version}, too old for Spark. {JAVA_REMEDY}")
    return found


def java_version(answer: str) -> int | None:
    """The major version in what `java -version` says, or None if it says none."""
    # Up to Java 8 versions were called 1.8 and the like.
    match = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(match[1]) if match else None


def _pyspark_jars_dir() -> Path:
    spec = importlib.util.find_spec("pyspark")  # without importing it: photon does not import pyspark
    if spec is None or spec.origin is None:
        raise FetchFailed(
            "pyspark is not installed in this environment, and its Ivy is needed. Run: make setup"
        )
    return Path(spec.origin).parent / "jars"


def fetch(bundle: Bundle) -> None:
    """Fetch a bundle into its folder, whole or not at all; an older one is replaced.

    Raises FetchFailed or JavaMissing; the folder is then as it was.
    """
    parent = bundle.folder.parent
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=parent) as unfinished:
        work = Path(unfinished)
        _run_ivy(bundle, work)
        (work / "files" / STAMP).write_text(bundle.stamp())
        if bundle.folder.exists():
            bundle.folder.rename(work / "replaced")
        (work / "files").rename(bundle.folder)


def _run_ivy(bundle: Bundle, work: Path) -> None:
    ivy = sorted(_pyspark_jars_dir().glob("ivy-*.jar"))
    if not ivy:
        raise FetchFailed(f"No ivy-*.jar in {_pyspark_jars_dir()}; reinstall pyspark: make clean setup")
    (work / "ivy.xml").write_text(bundle.ivy_file())
    (work / "settings.xml").write_text(_IVY_SETTINGS.format(cache=quoteattr(str(work / "cache"))))
    command = [
        java_command(),
        f"-Divy.default.ivy.user.dir={work / 'user'}",
        *("-jar", str(ivy[-1])),
        "-warn",
        *("-settings", str(work / "settings.xml")),
        *("-ivy", str(work / "ivy.xml")),
        *("-retrieve", str(work / "files" / "[artifact]-[revision](-[classifier]).[ext]")),
    ]
    reason = ""
    for attempt in range(FETCH_ATTEMPTS):  # what one attempt has fetched, the next finds in the cache
        time.sleep(RETRY_PAUSE_SECONDS if attempt else 0)
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            reason = f"not done after {FETCH_SECONDS} s"
            break
        if run.returncode == 0 and any((work / "files").glob("*.jar")):
            return
        reason = _ivy_reason(run.stdout + run.stderr)
    wanted = ", ".join(str(artifact) for artifact in bundle.artifacts)
    raise FetchFailed(
        f"{bundle.title} ({wanted}) could not be fetched: {reason}. Check that Java reaches Maven's central"
        " repository (a proxy goes into JAVA_TOOL_OPTIONS) and run again: make setup"
    )


def _ivy_reason(output: str) -> str:
    """The line of Ivy's output that says most, for it prints pages."""
    lines = [line.strip(" \t:") for line in output.splitlines()]
    # The network's error first: it is why something was not found.
    for telling in ("server access error", "exception", "download failed", "not found", ""):
        for line in lines:
            if line and telling in line.lower():
                return line
    return "Ivy said nothing"


def _fetch_missing(share: Path) -> None:
    """Fetch what is missing, one set-up at a time, and remove what a killed one left behind."""
    share.mkdir(parents=True, exist_ok=True)
    with (share / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in share.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left, ignore_errors=True)
        for bundle in missing():
            started = time.monotonic()
            print(f"fetching {bundle.title} ...", flush=True)
            fetch(bundle)
            print(f"fetched {bundle.title} in {time.monotonic() - started:.0f} s", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Fetch what is missing: 0 when all is there, else 1. With `--check-java` only find Java."""
    try:
        java_command()
        if "--check-java" not in arguments and missing():
            _fetch_missing(_share_dir())
    except (JavaMissing, FetchFailed) as error:
        print(f"photon.toolchain.fetch: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"photon.toolchain.fetch: cannot write into {_share_dir()}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
