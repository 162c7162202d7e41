"""One bounded run of a datacenter's pipeline: its lease, its wiring, its report and status.

Decisions on batches belong in `photon.dispatcher`.
"""
