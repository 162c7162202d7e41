"""Classify every foreign record again from raw logs and tables, and report; trace one event.

Nothing here trusts or changes a dispatcher's state. The Spark program is in `jobs`.
"""
