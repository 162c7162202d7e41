"""What assets get from outside: the settings of the environment, read only here, and Spark as a resource.

What pipelines and sessions do belongs to `photon` and `jobs`, their use to `assets`.
"""
