"""Dagster definitions, sensors, schedules and assets, in an instance of their own."""
