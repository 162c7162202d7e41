"""Dagster's UI on live traffic, driven in Chromium as a person would.

`live_platform` is what runs, `pages` what a person sees and clicks. `screenshots` takes the pictures of the
documents.
"""
