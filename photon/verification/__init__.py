"""Classify every foreign record again from raw logs and tables, and report; leave work orders for it.

Nothing here trusts or changes a dispatcher's state. The Spark program is in `jobs`.
"""
