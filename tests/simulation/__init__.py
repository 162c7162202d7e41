"""Simulators, explorers and checkers of histories, and the tests that run them."""
