"""The process that Spark's Python workers are forked from. It imports what every task needs, once.

A worker then begins in milliseconds instead of a second of a core, and shares these pages with the others.
"""

from __future__ import annotations

import gc

from pyspark.daemon import manager

import photon.join.tasks  # noqa: F401


def main() -> None:
    """Fork workers until Spark ends."""
    # A worker collects garbage behind each task. It would look at the 100,000 objects of these modules, which
    # takes 0.06 s of a core, and copies their pages.
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
