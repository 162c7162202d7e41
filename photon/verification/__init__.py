"""Classify every foreign record again from raw logs and tables, and report; trace one event.

Recovery leaves work orders for what was found. Nothing here trusts or changes a dispatcher's state. The Spark
program is in `jobs`.
"""
