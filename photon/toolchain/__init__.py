"""Programs that Photon needs beside its Python packages: Java, Delta's JARs, dynoxide, DynamoDB Local.

Found and fetched here; started by the room that uses it.
"""
