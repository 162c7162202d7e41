"""What an operator does with a registry: make, repair, reshard and report on it, delete its old ids (gc).

Joins and verification only find their registry here.
"""
