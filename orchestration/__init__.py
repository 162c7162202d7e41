"""When things run: definitions, sensors and schedules of one code location.

No work is done here: a sensor gathers facts, asks a pure function, and hands the decision to Dagster.
"""
