"""Photon beside servers that it does not bring along: PostgreSQL for Dagster, Prometheus for metrics."""
