"""JARs from Maven's central repository, fetched with the Ivy that comes inside pyspark."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from photon.process.errors import UserError
from photon.process.lifeline import bound_to_this_thread
from photon.toolchain import fetched
from photon.toolchain.fetched import Fetched, FetchFailed, share_dir
from photon.toolchain.java import java_command

# These go together: Delta is built for one minor version of Spark; delta-spark is its Python half.
SPARK_SERIES = "4.2"
SCALA_SERIES = "2.13"
DELTA_VERSION = "4.4.0"
# Spark's own Hadoop, and what that Hadoop was built with. Its POM asks for the SDK of all of AWS, 600 MB in
# one JAR; these parts of it are 13 MB with what they need.
HADOOP_VERSION = "3.5.0"
AWS_SDK_VERSION = "2.35.4"
AWS_SDK_PARTS = ("s3", "s3-transfer-manager", "sts", "apache-client")
S3_ACCELERATOR_VERSION = "1.3.1"
DYNAMODB_LOCAL_VERSION = "2.6.1"
SQLITE4JAVA_VERSION = "1.0.392"
KAFKA_VERSION = "3.9.1"
_AMAZON = "software.amazon"
_SQLITE = "io.github.ganadist.sqlite4java"

FETCH_SECONDS = 900
# The SHA-256 of each file that is fetched, as sha256sum writes it: a mirror may hand out another one.
DIGESTS = Path(__file__).with_name("jars.sha256")

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


class DynamoDBLocalMissing(UserError):
    """DynamoDB Local is not fetched; the message names the remedy."""


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
class Jars(Fetched):
    """Artifacts that are fetched together, with all that they depend on.

    `excluded` are names of artifacts to leave out wherever they appear.
    """

    artifacts: tuple[Artifact, ...]
    excluded: tuple[str, ...] = ()

    def ivy_file(self) -> str:
        """The request to Ivy, as its XML. Equal text means equal files."""
        wanted = [artifact.as_xml() for artifact in self.artifacts]
        unwanted = [f"<exclude module={quoteattr(name)}/>" for name in self.excluded]
        return _IVY_FILE.format(dependencies="\n    ".join([*wanted, *unwanted]))

    def stamp(self) -> str:
        """See `Fetched`."""
        return hashlib.sha256(self.ivy_file().encode()).hexdigest()

    def fill(self, files: Path, work: Path) -> None:
        """See `Fetched`. JavaMissing if there is no Java to run Ivy on."""
        ivy = sorted(_pyspark_jars_dir().glob("ivy-*.jar"))
        if not ivy:
            raise FetchFailed(
                f"No ivy-*.jar in {_pyspark_jars_dir()}; install pyspark anew: pip uninstall pyspark, then: "
                "pip install 'photon-join[spark]'"
            )
        (work / "ivy.xml").write_text(self.ivy_file())
        (work / "settings.xml").write_text(_IVY_SETTINGS.format(cache=quoteattr(str(work / "cache"))))
        command = [
            java_command(),
            f"-Divy.default.ivy.user.dir={work / 'user'}",
            *("-jar", str(ivy[-1])),
            "-warn",
            *("-settings", str(work / "settings.xml")),
            *("-ivy", str(work / "ivy.xml")),
            *("-retrieve", str(files / "[artifact]-[revision](-[classifier]).[ext]")),
        ]
        reason = ""
        for attempt in range(fetched.FETCH_ATTEMPTS):
            # Files that one attempt has fetched are in the cache for the next.
            time.sleep(fetched.RETRY_PAUSE_SECONDS if attempt else 0)
            try:
                run = subprocess.run(
                    bound_to_this_thread(command),
                    capture_output=True,
                    text=True,
                    timeout=FETCH_SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                reason = f"not done after {FETCH_SECONDS} s"
                break
            if run.returncode == 0 and any(files.glob("*.jar")):
                return self._refuse_others(files)
            reason = _ivy_reason(run.stdout + run.stderr)
        wanted = ", ".join(str(artifact) for artifact in self.artifacts)
        raise FetchFailed(
            f"{self.title} ({wanted}) could not be fetched: {reason}. Check that Java reaches Maven's central"
            " repository (a proxy goes into JAVA_TOOL_OPTIONS) and run again: photon setup"
        )

    def _refuse_others(self, files: Path) -> None:
        """Refuse files that are not those that Photon was tested with. FetchFailed."""
        lines = (line.split() for line in DIGESTS.read_text().splitlines())
        pinned = {name: digest for digest, name in lines}
        for file in sorted(files.iterdir()):
            found = hashlib.sha256(file.read_bytes()).hexdigest()
            if found != pinned.get(file.name):
                raise FetchFailed(
                    f"{self.title}: {file.name} is not the file that Photon was tested with: its SHA-256 is"
                    f" {found}, not {pinned.get(file.name, 'one that is known')}. Look at what stands"
                    " between this machine and Maven's central repository, and run again: photon setup"
                )


def spark_jars_dir() -> Path:
    """Return the folder of JARs that Spark needs for Delta Lake and S3; it may not exist yet."""
    return share_dir() / "spark-jars"


def dynamodb_local_jars() -> Path:
    """Return the folder of DynamoDB Local: its JARs and the native libraries of its SQLite.

    Raises DynamoDBLocalMissing.
    """
    folder = dynamodb_local().folder
    if not folder.is_dir():
        raise DynamoDBLocalMissing("There is no DynamoDB Local. Run: make dynamodb-local")
    return folder


def delta() -> Jars:
    """Delta Lake for Spark, and S3A, by which Spark reads it on S3."""
    return Jars(
        title=f"Delta Lake {DELTA_VERSION} and S3A {HADOOP_VERSION} for Spark {SPARK_SERIES}",
        folder=spark_jars_dir(),
        artifacts=(
            Artifact("io.delta", f"delta-spark_{SPARK_SERIES}_{SCALA_SERIES}", DELTA_VERSION),
            Artifact("org.apache.hadoop", "hadoop-aws", HADOOP_VERSION),
            Artifact(f"{_AMAZON}.s3.analyticsaccelerator", "analyticsaccelerator-s3", S3_ACCELERATOR_VERSION),
            *(Artifact(f"{_AMAZON}.awssdk", part, AWS_SDK_VERSION) for part in AWS_SDK_PARTS),
        ),
        # Their POMs name older versions of what Spark brings along; a class path must not have two.
        excluded=("bundle", *artifact_names(path.name for path in _pyspark_jars_dir().glob("*.jar"))),
    )


def dynamodb_local() -> Jars:
    """DynamoDB Local, the slower server for the local registry."""
    return Jars(
        title=f"DynamoDB Local {DYNAMODB_LOCAL_VERSION}",
        folder=share_dir() / "dynamodb-local",
        artifacts=(
            Artifact("com.amazonaws", "DynamoDBLocal", DYNAMODB_LOCAL_VERSION),
            # DynamoDB Local's own list of native libraries has none for Apple's processors.
            Artifact(_SQLITE, "libsqlite4java-osx-aarch64", SQLITE4JAVA_VERSION, "dylib"),
        ),
        excluded=("junit", "mockito-core"),
    )


def kafka() -> Jars:
    """A broker of Kafka, for tests of landing."""
    return Jars(
        title=f"Kafka {KAFKA_VERSION}",
        folder=share_dir() / "kafka",
        artifacts=(Artifact("org.apache.kafka", f"kafka_{SCALA_SERIES}", KAFKA_VERSION),),
        excluded=("zookeeper-jute", "scala-reflect", "jose4j", "caffeine", "reload4j", "slf4j-reload4j"),
    )


def artifact_names(file_names: Iterable[str]) -> tuple[str, ...]:
    """Return the artifact names of JAR files, sorted: `jackson-core-2.21.2.jar` is `jackson-core`."""
    return tuple(sorted({re.sub(r"-\d[^_]*$", "", name.removesuffix(".jar")) for name in file_names}))


def _pyspark_jars_dir() -> Path:
    spec = importlib.util.find_spec("pyspark")  # without importing it: photon does not import pyspark
    if spec is None or spec.origin is None:
        raise FetchFailed("pyspark is not installed: pip install 'photon-join[spark]', then: photon setup")
    return Path(spec.origin).parent / "jars"


def _ivy_reason(output: str) -> str:
    """Return the line of Ivy's output that says most, for it prints pages."""
    lines = [line.strip(" \t:") for line in output.splitlines()]
    # The network's error first: it is why something was not found.
    for telling in ("server access error", "exception", "download failed", "not found", ""):
        for line in lines:
            if line and telling in line.lower():
                return line
    return "Ivy said nothing"
