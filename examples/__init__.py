"""Examples that run as they are; `demo` is `photon demo` for who works on Photon.

Nothing in `photon` needs them.
"""
