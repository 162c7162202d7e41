"""Numbers of a pipeline for monitoring systems that scrape them, as OpenMetrics.

Names, help and units of metrics belong here, and the server that is asked for them; what they are read from
does not (`photon.shift.status`), and neither does how to tell whether they are good (`photon.health`).
"""
