"""A Spark session writes to standard error, without the lines of its launcher."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

SCRIPT = """
import sys
from photon.jobs.session import build_session, stop_session
session = build_session("quiet")
session.sparkContext._jvm.java.lang.System.err.println("of the JVM")
stop_session(session)
print("of this process", file=sys.stderr)
"""


def test_a_session_starts_without_a_warning_and_what_it_says_later_is_passed_on() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stderr.splitlines()) == ["of the JVM", "of this process"]
