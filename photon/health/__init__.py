"""Whether datacenters are well, judged from outside by thresholds of the pipeline file.

Looks and decisions belong here; who is told, and where it is shown, does not (`assets`, `orchestration`).
"""
