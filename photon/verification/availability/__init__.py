"""Judge by rows and timelines which share of the events was readable in time, minute by minute; keep that.

Says nothing of what is missing for good: that is `verification`. It changes no state.
"""
