"""Every foreign record is classified again from raw logs and tables, and what is broken is reported.

`scope.py` says what is compared, `tasks.py` and `reading.py` read it for the queries of `jobs`, `classes.py`
decides on each record, and `report.py` has the findings. Reports are kept (`stored_reports.py`). Nothing here
trusts or changes a dispatcher's state: who mends what is found is `photon.upkeep.recovery`. `availability`
judges how soon events were readable, `log_copies` whether the datacenters' logs agree. Read `scope.py` first.
"""
