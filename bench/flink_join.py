"""Runs Flink's SQL in its own environment: no module of Photon or of its packages can be imported here.

`python flink_join.py PLAN [--again]`. The plan is JSON: a configuration, and for each of `warm_up` and
`measured` its SQL statements and its folder of checkpoints. It does the first, says that it is ready, waits
for a line, and does what is measured. `--again`: after a crash, from the last complete checkpoint.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

READY = "ready"


def run(configuration: dict[str, str], task: dict[str, Any], again: bool) -> None:
    """Execute the statements. The last one is an INSERT, and ends when all files are read."""
    settings = configuration | {"execution.checkpointing.dir": Path(task["checkpoints"]).as_uri()}
    if again and (complete := sorted(Path(task["checkpoints"]).glob("*/chk-*/_metadata"), key=_written)):
        settings["execution.state-recovery.path"] = complete[-1].parent.as_uri()
    told = EnvironmentSettings.new_instance().with_configuration(Configuration.from_dict(settings))
    tables = TableEnvironment.create(told.build())
    for statement in task["statements"]:
        result = tables.execute_sql(statement)
    result.wait()


def _written(path: Path) -> float:
    return path.stat().st_mtime


def main() -> None:
    """Do as the plan says."""
    plan, again = json.loads(Path(sys.argv[1]).read_text()), "--again" in sys.argv
    if not again:
        run(plan["configuration"], plan["warm_up"], again=False)
        print(READY, flush=True)
        sys.stdin.readline()
    run(plan["configuration"], plan["measured"], again)


if __name__ == "__main__":
    main()
