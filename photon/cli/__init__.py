"""The `photon` command. Each command imports what it needs when it runs: `--help` stays quick."""
