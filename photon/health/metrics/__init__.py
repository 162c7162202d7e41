"""Numbers of a pipeline for monitoring systems that scrape them, as OpenMetrics.

Names, help and units of metrics belong here, and the server that is asked for them.
`photon.dispatcher.shift.status` reads the facts, and `photon.health` tells whether they are good.
"""
