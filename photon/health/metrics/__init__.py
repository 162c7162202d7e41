"""Numbers of a pipeline for monitoring systems that scrape them, as OpenMetrics.

`families.py` makes metrics of what `photon.health.status` knows and has judged, `shift_families.py` of what
shifts measure themselves, `landing_families.py` of what is landed; `serving.py` asks each datacenter when
somebody scrapes. Read `families.py` first.
"""
