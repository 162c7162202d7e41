"""Functions for `alerts.hook`, each set by the environment: copy one beside the pipeline file."""
