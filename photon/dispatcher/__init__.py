"""The Dispatcher: plans batches, sees them through, and remembers what is still to be done."""
