"""The code location of `workspace.yaml`: it serves the pipelines that the environment names."""

from photon.orchestration.code_location import build_defs
from photon.resources.environment import location_settings

defs = build_defs(location_settings())
