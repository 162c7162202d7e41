"""People read one line of an error of Spark: the one that says what ails."""

from __future__ import annotations

import pytest

from photon.jobs.batch_job import _cause

NO_MODULE = """An error occurred while calling o1.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times
Caused by: org.apache.spark.SparkException:\x20
Error from python worker:
  Python path configuration:
    PYTHONHOME = '/nonexistent'
  Fatal Python error: init_fs_encoding: failed to get the Python codec of the filesystem encoding
  ModuleNotFoundError: No module named 'encodings'
\tat org.apache.spark.api.python.PythonWorkerFactory.startDaemon(PythonWorkerFactory.scala:361)
"""
TRACEBACK = """Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/photon/tasks.py", line 7, in run
    raise ValueError("Error: 7")
ValueError: Error: 7

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:581)
"""
NO_PROGRAM = """An error occurred while calling o1.collect.
Caused by: java.io.IOException: Cannot run program "/opt/python": error=2, No such file or directory
\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)
"""
CRASHED = """An error occurred while calling o1.collect.
: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)
\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:612)
Caused by: java.io.EOFException
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (NO_MODULE, "ModuleNotFoundError: No module named 'encodings'"),
        (TRACEBACK, "ValueError: Error: 7"),
        (
            NO_PROGRAM,
            'Caused by: java.io.IOException: Cannot run program "/opt/python": error=2, No such file or '
            "directory",
        ),
        (CRASHED, "Python worker exited unexpectedly (crashed)"),
        ("Caused by: java.lang.Exception: \n\n  it ends\n", "it ends"),
        ("Caused by: java.lang.Exception:", "Caused by: java.lang.Exception:"),
        ("", "RuntimeError"),
    ],
)
def test_the_cause_of_an_error_is_the_line_that_says_what_ails(text: str, cause: str) -> None:
    assert _cause(RuntimeError(text)) == cause
