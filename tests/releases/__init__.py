"""Releases: what they say, who makes them, how they are read."""
