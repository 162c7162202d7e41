"""Writes a small pair of logs to join: `python examples/make_logs.py FOLDER`.

Below FOLDER/logs it writes two datacenters' copies of some thousand search queries and some hundred clicks,
with things that go wrong in real logs, and prints what must come of them. The logs are the same each time;
where they are there already, nothing is written. The pipeline file for them is
examples/search_clicks/pipeline.yaml.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from examples.demo.stories import ILLS
from examples.demo.traffic import Traffic

TRAFFIC = Traffic(
    seed=7,
    primary_per_second=25,
    foreign_per_second=3,
    duration_seconds=120,
    ills={ill.name: 2 for ill in ILLS},
)


def make_logs(folder: Path, traffic: Traffic = TRAFFIC) -> bool:
    """Write the logs below `folder`/logs, all or nothing; False if there are logs already."""
    if (folder / "logs").exists():
        return False
    partial = folder / "logs.partial"
    shutil.rmtree(partial, ignore_errors=True)
    traffic.write_all(partial)
    (partial / "logs").rename(folder / "logs")
    partial.rmdir()
    return True


def expected_counts(traffic: Traffic = TRAFFIC) -> dict[str, object]:
    """Numbers that a join of the complete logs must print: `examples.demo.traffic.ExpectedOutcomes`."""
    expected = traffic.expected_outcomes()
    everywhere = {
        name: getattr(expected, name) for name in ("foreign", "unjoinable", "dead_letters", "skipped")
    }
    return {
        "in each datacenter": everywhere
        | {"joined + joined_elsewhere + duplicates": expected.joined_total + expected.duplicates},
        "joined, both datacenters together": expected.joined_total,
    }


def main() -> None:
    """The command: write the logs and print what is expected of a join."""
    parser = argparse.ArgumentParser(description="Write a small pair of logs to join.")
    parser.add_argument("folder", type=Path, help="logs go below FOLDER/logs")
    folder: Path = parser.parse_args().folder
    written = make_logs(folder)
    print(f"{'Wrote' if written else 'There are'} logs in {folder / 'logs'}. Expected of a join:")
    print(json.dumps(expected_counts(), indent=2))


if __name__ == "__main__":
    main()
