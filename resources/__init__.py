"""Resources of the assets: the settings of the environment, read only here, and Spark.

What pipelines and sessions do belongs to `photon` and `jobs`, their use to `assets`.
"""
