"""The tests: unit, simulation, contract, orchestration, spark and e2e, from the smallest to the largest."""
