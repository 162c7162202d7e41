"""Keys, file names and rows of users never command the terminal of whoever looks at them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from photon.process.readable import harmless
from tests.releases.lakes import new_lakes
from tests.terminals import shown_on_terminal

# Sets the clipboard; the same as one character of C1; writes from right to left; is no text at all.
HOSTILE = {
    "OSC 52": "\x1b]52;c;cm0gLXJmIH4=\x07",
    "C1": "\x9d52;c;cm0gLXJmIH4=\x9c",
    "direction": "invoice\u202efdp.exe",
    "isolate": "a\u2067b\u2069",
    "lone surrogate": "caf\udce9",
    "carriage return": "lost\rAll is well",
}
# Photon's own: a line is cleared and drawn again, coloured, and the cursor hidden meanwhile.
OWN = re.compile(r"\r\x1b\[K|\x1b\[[0-9;]*[mK]|\x1b\[\?25[lh]|\x1b\[[12]?K|\x1b\[1A|\r(?=\n)|\r(?=\x1b)")
PRINTS = {
    "a result": "print_result({}, text, False)",
    "an error": "fail(text, 1)",
    "a log line": "log_to_stderr(); logging.getLogger('photon').error('%s', text)",
    "a stack": "run(text)",
    "progress": "show(text)",
    "rows": "standard_output().write(text.encode(errors='surrogateescape')); standard_output().flush()",
}
SCRIPT = """
import logging, sys, time
from photon.cli.ending import Ending, fail, in_order
from photon.cli.output import log_to_stderr, print_result, showing_progress, standard_output
def run(text):
    with in_order(Ending()):
        raise RuntimeError(text)
def show(text):
    with showing_progress() as say:
        say(text)
        time.sleep(0.3)
text = bytes.fromhex(sys.argv[2]).decode("utf-16", "surrogatepass")
try:
    exec(sys.argv[1])
except SystemExit:
    pass
"""


def obeyed(shown: str) -> list[str]:
    """Return the characters of a terminal's text that it obeys, beside Photon's own sequences."""
    return [each for each in OWN.sub("", shown) if harmless(each) != each]


@pytest.mark.parametrize("way", PRINTS)
def test_whatever_is_printed_holds_nothing_that_a_terminal_obeys(way: str) -> None:
    text = " ".join(HOSTILE.values())
    command = [sys.executable, "-c", SCRIPT, PRINTS[way], text.encode("utf-16", "surrogatepass").hex()]
    shown = shown_on_terminal(command, output_too=True)
    assert "52;c;cm0gLXJmIH4=" in shown
    assert obeyed(shown) == []


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_answers_of_sql_command_no_terminal(tmp_path: Path, form: str) -> None:
    lakes = new_lakes(tmp_path / "lakes", tmp_path)
    lakes.append("east")
    lakes.release()
    query = "SELECT chr(27) || ']52;c;x' || chr(7) AS a, chr(157) AS \"b\u202ec\", chr(8238) || 'x' AS d"
    command = [sys.executable, "-m", "photon.cli.main", "sql", query, str(tmp_path / "pipeline.yaml")]
    shown = shown_on_terminal([*command, "--format", form], output_too=True)
    assert "]52;c;x" in shown
    assert obeyed(shown) == []


@pytest.mark.parametrize("kept", ["naïve 日本\u3000語 👩‍👩‍👧", "two\nlines\tand a tab", "a\u00a0blank"])
def test_text_that_no_terminal_obeys_stays_as_it_is(kept: str) -> None:
    assert harmless(kept) == kept
