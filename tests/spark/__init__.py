"""The Spark job of a verification, in a session of its own."""
