"""Resources of the assets: the settings of the environment, and Spark.

`environment` is the only module that reads the environment: which pipelines a code location serves, and with
which datacenters. `spark` lends a session to runs. Assets use both; `photon` and `jobs` do the work.
"""
