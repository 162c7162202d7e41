"""Programs that measure Photon; `python -m bench` runs some of them.

Tests of behaviour belong in `tests`.
"""
