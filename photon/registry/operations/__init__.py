"""What an operator does with a registry: make, repair, reshard and report on it, delete its old ids (gc).

Upkeep that also needs tables or verifications is in `photon.upkeep`.

Joins and verification only find their registry here.
"""
