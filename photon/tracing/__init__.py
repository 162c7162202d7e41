"""The whole story of one event: where it was read, each try, its holder, its row, and what to do.

`trace.py` asks logs, state, registry and tables, and changes none of them; each part that can't be asked is
named. `report.py` holds what was found and gives it a verdict, `advice.py` what to do. `past.py` has the rows
that are gone, which `past_search.py` finds. `chain.py` says which event of another pipeline the primary is.
Read `trace.py` first.
"""
