"""Examples that run as they are: adapters, line formats, alerts, and pipelines with logs to join.

`make_logs` writes the logs of each example, and `demo` starts the demo from a clone, also on a MinIO. Nothing
in `photon` needs them.
"""
