"""Programs that measure Photon; `photon bench` runs some of them.

Tests of behaviour belong in `tests`.
"""
