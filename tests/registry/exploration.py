"""Which offers at one position are explored in every order, and which in random ones.

python -m tests.registry.exploration        # all cases, with how many states each has; some two minutes
"""

from __future__ import annotations

import sys
import time

from tests.registry.exploring import Case, Offerer, explore, sample

ORDERS = 3_000  # of a case that has too many states

A, B, C = (Offerer(value) for value in (b"a", b"b", b"c"))
CASES: dict[str, Case] = {
    "two offer": Case((A, B)),
    "one of two crashes": Case((A._replace(crashes=1), B)),
    "one knows of a silent store": Case((A, B._replace(lacks_stores=True))),
    "one has reserved the position": Case((A, B._replace(reserves=True))),
    "one alone tries again and again": Case((A._replace(attempts=2, timeouts=3),)),
    "one offers behind another, and hears too little": Case((A, B._replace(timeouts=2, after=0))),
}
LONG_CASES: dict[str, Case] = {
    "one of two tries again": Case((A._replace(attempts=2), B)),
    "one of two goes on early": Case((A._replace(early=1), B)),
    "a message is lost or late": Case((A._replace(timeouts=1), B)),
    "one knows of a silent store, and a message is lost": Case(
        (A, B._replace(lacks_stores=True, timeouts=1))
    ),
    "two know of a silent store": Case(
        (A._replace(lacks_stores=True, timeouts=1), B._replace(lacks_stores=True))
    ),
    "one who knows of a silent store goes on early": Case(
        (A._replace(lacks_stores=True, early=1), B._replace(lacks_stores=True))
    ),
    "one reserves, and a message is lost or late": Case((A, B._replace(reserves=True, timeouts=1))),
    "two reserve": Case((A._replace(reserves=True, timeouts=1), B._replace(reserves=True))),
    "one reserves, and goes on early": Case((A._replace(attempts=2), B._replace(reserves=True, early=1))),
    "two over five stores": Case((A, B), n=5),
    "two offer, and a third once the first is done": Case((A, B, C._replace(after=0))),
}
# Too many states to go through: more than 1.5 million. Random orders are tried.
SAMPLED_CASES: dict[str, Case] = {
    "three offer": Case((A, B, C)),
    "three over five stores": Case((A, B, C), n=5),
    "three offer, and messages are lost or late": Case(
        (A._replace(timeouts=1), B._replace(lacks_stores=True, early=1), C._replace(attempts=2))
    ),
}


def main() -> int:
    """Explore all cases, and try random orders of those that have too many states."""
    problems = 0
    for name, case in {**CASES, **LONG_CASES, **SAMPLED_CASES}.items():
        began = time.monotonic()
        is_sampled = name in SAMPLED_CASES
        found = sample(case, ORDERS, seed=0) if is_sampled else explore(case)
        how = f"{found.states:,} states" + (f" in {ORDERS:,} random orders" if is_sampled else "")
        print(f"{name}: {how}, {time.monotonic() - began:.1f} s {found.problem}", flush=True)
        for line in found.way:
            print(f"    {line}")
        problems += bool(found.problem)
    return min(problems, 1)


if __name__ == "__main__":
    sys.exit(main())
