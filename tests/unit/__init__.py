"""Decisions, formats and parsers, one module at a time: no Spark, no servers."""
