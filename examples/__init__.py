"""Examples that run as they are; `photon demo` is one of them.

Nothing in `photon` needs them.
"""
