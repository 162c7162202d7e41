"""Records that wait: why and until when, and the immutable segments that hold them.

Which segments count, and which of their records still wait, is the dispatcher's to say.
"""
