"""When things run: definitions, partitions, sensors, schedules and checks.

Here belongs what puts assets, resources and jobs together into one code location. No work is done
here: a sensor or check asks `photon` for a decision and hands it to Dagster.
"""
