"""Compare the datacenters' copies of the logs, hour by hour, and name the copy that lacks events.

Reads no tables of joined rows. The Spark program is in `jobs`.
"""
