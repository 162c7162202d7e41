"""The EventStore: recent primary events in memory, all others through the log file map."""
