"""Log files: find them, know them again, cut ranges of whole lines, parse events.

Which range is read when is decided in `photon.dispatcher`.
"""
