"""A look at logs that nobody has described yet: a sample, what its columns are, and whether it joins.

`photon init` asks it. Logs that a pipeline file describes are read by `photon.logs`.
"""
