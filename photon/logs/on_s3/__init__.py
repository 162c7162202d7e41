"""Log files that are objects of a bucket: which there are, and their bytes.

What a store is asked and how it fails is in `photon.storage.s3`.
"""
