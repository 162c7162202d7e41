"""Whether datacenters and the registry are well, judged from outside and in one place.

`facts.py` looks at a datacenter and disturbs nobody. `judge.py` makes verdicts of the facts by thresholds,
with `at_work.py`, `bad_records.py` and the memory of earlier looks; `measures.py` has the numbers behind
them, and `registry.py` judges a registry.
`status.py` adds how far the datacenter is, `headline.py` and `overall.py` make sentences of it all, and
`metrics` numbers. Dagster's checks and alerts show the same verdicts (`assets`, `orchestration`). Read
`judge.py` first.
"""
