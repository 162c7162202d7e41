"""Whole pipelines in processes of their own: what a user starts, and what kills it."""
