"""Whole datacenters in one process and in virtual time, interleaved by a seed (docs/adr/0046).

Their shifts, operators and logs, what must hold after every step, and the variants that it must catch.
Simulations of the registry's clients alone belong in the folder above, and so do stories told step by step.
"""
