"""Set-up fetches programs, here with a stand-in for `java` and an npm registry in a folder.

So these tests need neither a network nor Java.
"""

import hashlib
import os
import platform
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from photon.toolchain import dynoxide, fetch, fetched, maven
from photon.toolchain.java import JavaMissing, java_command, java_version
from tests.unit.npm_folder import NpmFolder

# Answers `-version`, and as Ivy puts one file where it is told to and counts the call.
WORKING_JAVA = """\
#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17.0.15" 2025-04-15' >&2; exit 0; fi
while [ "$1" != -retrieve ]; do shift; done
folder=$(dirname "$2")
mkdir -p "$folder"
echo content > "$folder/some-1.0.jar"
echo call >> "$CALLS"
"""

OFFLINE_JAVA = """\
#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17.0.15" 2025-04-15' >&2; exit 0; fi
echo call >> "$CALLS"
echo ':: problems summary ::'
echo '  module not found: io.delta#delta-spark'
echo '  Server access error at url somewhere (java.net.ConnectException: Connection refused)'
exit 1
"""


class Java:
    """A JAVA_HOME whose `java` is a script of the test's choice."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.calls = home / "calls"
        (home / "bin").mkdir(parents=True)

    def is_(self, script: str) -> None:
        command = self.home / "bin" / "java"
        command.write_text(script)
        command.chmod(0o755)
        java_command.cache_clear()

    def says(self, version_line: str, status: int = 0) -> None:
        self.is_(f"#!/bin/sh\necho '{version_line}' >&2\nexit {status}\n")

    def count_of_calls(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0


@pytest.fixture
def java(tmp_path, monkeypatch):
    stand_in = Java(tmp_path / "jdk")
    monkeypatch.setenv("JAVA_HOME", str(stand_in.home))
    monkeypatch.setenv("CALLS", str(stand_in.calls))
    monkeypatch.setattr(fetched, "RETRY_PAUSE_SECONDS", 0)
    java_command.cache_clear()
    yield stand_in
    java_command.cache_clear()


@pytest.fixture(autouse=True)
def npm(tmp_path, monkeypatch):
    """An npm registry with a dynoxide for this machine, whatever machine it is."""
    folder = NpmFolder(tmp_path / "npm", monkeypatch)
    package = folder.publish("@dynoxide/this-machine", "1.0.0", {"package/dynoxide": "#!/bin/sh\n"})
    here = (platform.system(), platform.machine())
    monkeypatch.setattr(dynoxide, "_PREBUILT", {here: package})
    return folder


@pytest.fixture
def share(tmp_path, monkeypatch):
    """The folder that everything is fetched into, of an environment of the test's own."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    digests = tmp_path / "jars.sha256"
    digests.write_text(hashlib.sha256(b"content\n").hexdigest() + "  some-1.0.jar\n")
    monkeypatch.setattr(maven, "DIGESTS", digests)
    return tmp_path / "env" / "share" / "photon"


def test_java_missing_from_path_is_one_line_with_the_remedy(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    java_command.cache_clear()
    with pytest.raises(JavaMissing) as raised:
        java_command()
    assert str(raised.value).startswith("There is no java on PATH. Install Java 17 ")
    assert "\n" not in str(raised.value)


def test_java_missing_from_java_home_names_that_folder(java):
    with pytest.raises(JavaMissing) as raised:
        java_command()
    assert f"no java in JAVA_HOME ({java.home})" in str(raised.value)


def test_java_that_is_too_old_is_refused_with_its_version(java):
    java.says('java version "1.8.0_402"')
    with pytest.raises(JavaMissing, match="is Java 8, too old"):
        java_command()


def test_java_that_does_not_run_is_refused(java):
    java.says("No Java runtime present", status=1)
    with pytest.raises(JavaMissing, match="does not run"):
        java_command()


def test_java_home_goes_before_path(java):
    java.says('openjdk version "21" 2023-09-19')
    assert java_command() == str(java.home / "bin" / "java")


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx=y\nopenjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ("no such thing", None),
    ],
)
def test_the_version_is_read_from_every_form_of_answer(answer, version):
    assert java_version(answer) == version


def test_artifact_names_leave_out_version_and_ending():
    files = [
        "jackson-core-2.21.2.jar",
        "json4s-core_2.13-4.0.7.jar",
        "jackson-core-2.0.jar",
        "arpack_combined_all-0.1.jar",
    ]
    assert maven.artifact_names(files) == ("arpack_combined_all", "jackson-core", "json4s-core_2.13")


def test_what_is_asked_of_ivy_leaves_out_what_spark_brings(share):
    delta = maven.delta()
    tree = ElementTree.fromstring(delta.ivy_file())
    wanted = {element.get("name") for element in tree.iter("dependency")}
    assert {"delta-spark_4.2_2.13", "hadoop-aws", "s3"} <= wanted
    excluded = {element.get("module") for element in tree.iter("exclude")}
    assert {"bundle", "scala-library", "jackson-core", "parquet-hadoop", "hadoop-client-api"} <= excluded
    assert not any(name.startswith("delta") for name in excluded)


def test_the_versions_fit_the_installed_packages():
    from importlib.metadata import version

    assert version("delta-spark") == maven.DELTA_VERSION
    assert version("pyspark").startswith(maven.SPARK_SERIES + ".")
    assert (maven._pyspark_jars_dir() / f"hadoop-client-api-{maven.HADOOP_VERSION}.jar").exists()


def test_set_up_fetches_delta_and_no_server_and_a_second_run_does_nothing(java, share, npm, capsys):
    java.is_(WORKING_JAVA)
    assert fetch.main([]) == 0
    assert fetch.missing(fetch.needed([])) == []
    assert (maven.spark_jars_dir() / "some-1.0.jar").exists()
    assert not (share / "dynoxide").exists()
    assert not maven.dynamodb_local().folder.exists()
    assert java.count_of_calls() == 1

    capsys.readouterr()
    assert fetch.main([]) == 0
    assert java.count_of_calls() == 1
    assert capsys.readouterr().out == ""


def test_dynoxide_can_be_fetched_alone(java, share, npm):
    java.is_(WORKING_JAVA)
    assert fetch.main(["--dynoxide"]) == 0
    assert dynoxide.dynoxide_command() == str(share / "dynoxide" / "dynoxide")
    assert sorted(os.listdir(share)) == [".lock", "dynoxide"]


def test_where_there_is_no_dynoxide_to_fetch_dynamodb_local_takes_its_place(java, share, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    java.is_(WORKING_JAVA)
    assert fetch.main(["--dynoxide"]) == 0
    assert (maven.dynamodb_local_jars() / "some-1.0.jar").exists()
    assert not (share / "dynoxide").exists()


def test_dynamodb_local_can_be_fetched_alone(java, share):
    with pytest.raises(maven.DynamoDBLocalMissing, match="make dynamodb-local"):
        maven.dynamodb_local_jars()
    java.is_(WORKING_JAVA)
    assert fetch.main(["--dynamodb-local"]) == 0
    assert (maven.dynamodb_local_jars() / "some-1.0.jar").exists()
    assert sorted(os.listdir(share)) == [".lock", "dynamodb-local"]


def test_another_version_replaces_what_was_fetched_before(java, share):
    java.is_(WORKING_JAVA)
    assert fetch.main([]) == 0
    (maven.spark_jars_dir() / "of-the-old-version.jar").touch()
    delta = maven.delta()
    newer = replace(delta, artifacts=(replace(delta.artifacts[0], version="9.9.9"),))
    assert not newer.is_there()
    newer.fetch()
    assert newer.is_there()
    assert not (maven.spark_jars_dir() / "of-the-old-version.jar").exists()


def test_a_failed_fetch_is_tried_again_and_then_said_in_one_line(java, share, capsys):
    java.is_(OFFLINE_JAVA)
    assert fetch.main([]) == 1
    assert java.count_of_calls() == fetched.FETCH_ATTEMPTS
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "io.delta:delta-spark_4.2_2.13" in message
    assert "Connection refused" in message
    assert "photon setup" in message


@pytest.mark.parametrize(
    ("file", "content"), [("some-1.0.jar", "another"), ("unknown-1.0.jar", "content")], ids=["changed", "new"]
)
def test_a_jar_that_is_not_the_pinned_one_is_refused(java, share, capsys, file, content):
    java.is_(WORKING_JAVA.replace("echo content", f"echo {content}").replace("some-1.0.jar", file))
    assert fetch.main([]) == 1
    assert f"{file} is not the file that Photon was tested with" in capsys.readouterr().err
    assert not maven.spark_jars_dir().exists()


def test_every_jar_that_is_fetched_here_is_pinned():
    pinned = {line.split()[1] for line in maven.DIGESTS.read_text().splitlines()}
    there = {file.name for file in maven.spark_jars_dir().glob("*.jar")}
    assert there
    assert there <= pinned


def test_a_failed_fetch_leaves_the_folder_as_it_was(java, share):
    java.is_(WORKING_JAVA)
    delta = maven.delta()
    delta.fetch()
    before = sorted(os.listdir(delta.folder))
    java.is_(OFFLINE_JAVA)
    with pytest.raises(fetched.FetchFailed):
        replace(delta, excluded=()).fetch()
    assert sorted(os.listdir(delta.folder)) == before
    assert delta.is_there()
    assert os.listdir(share) == [delta.folder.name]


def test_what_a_killed_set_up_left_behind_is_cleared_away(java, share):
    left = share / ".unfinished-of-a-killed-run"
    left.mkdir(parents=True)
    (left / "half.jar").touch()
    java.is_(WORKING_JAVA)
    assert fetch.main([]) == 0
    assert not left.exists()


def test_looking_for_java_alone_fetches_nothing(java, share):
    java.is_(WORKING_JAVA)
    assert fetch.main(["--check-java"]) == 0
    assert java.count_of_calls() == 0
    assert not share.exists()


def test_a_folder_that_cannot_be_written_is_named(java, tmp_path, monkeypatch, capsys):
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    monkeypatch.setattr(sys, "prefix", str(in_the_way))
    java.is_(WORKING_JAVA)
    assert fetch.main([]) == 1
    assert f"cannot write into {in_the_way}/share/photon" in capsys.readouterr().err
