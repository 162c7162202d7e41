"""JSON lines from lines of `key=value key="a value"`: from standard input to standard output, one for one.

tail -n +1 -F app.log | python examples/key_values.py >> logs/app/app.jsonl

A line that has no such pair comes out as it is, so that it becomes a dead letter, with its place and reason.
"""

from __future__ import annotations

import json
import re
import sys

PAIR = re.compile(r'([\w.@-]+)=("(?:[^"\\]|\\.)*"|\S*)')


def as_json(line: str) -> str:
    """The pairs of a line as one JSON object; of a key that occurs twice the last counts."""
    pairs = {key: _value(text) for key, text in PAIR.findall(line)}
    return json.dumps(pairs, ensure_ascii=False) if pairs else line


def _value(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text


if __name__ == "__main__":
    for line in sys.stdin:
        print(as_json(line.rstrip("\n")), flush=True)  # a join follows what is written
