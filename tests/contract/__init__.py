"""The registry against stores that answer over HTTP, with the same checks for each kind of store."""
