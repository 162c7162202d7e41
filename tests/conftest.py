"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# A slow example says that the machine is busy, and nothing about the product.
settings.register_profile("photon", deadline=None)
settings.load_profile("photon")
