"""What an operator does with a registry: make it, repair it, reshard it, report on it.

Joins use none of this.
"""
