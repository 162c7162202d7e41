"""The process that Spark's Python workers are forked from. It imports what every task needs, once.

A worker then begins in milliseconds instead of a second of a core, and shares these pages with the others.
"""

from __future__ import annotations

from pyspark.daemon import manager

import photon.join.tasks  # noqa: F401

if __name__ == "__main__":
    manager()
