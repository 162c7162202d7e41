"""What Photon needs beside its Python packages: Java, Delta's JARs, DynamoDB Local, dynoxide.

Found and fetched here; started by the room that uses it.
"""
