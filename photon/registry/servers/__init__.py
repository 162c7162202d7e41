"""The server of a local registry (`endpoints: local`): started on demand, stopped behind its last user."""
