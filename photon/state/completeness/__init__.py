"""Up to which event time the joined rows are complete: estimated while batches are joined, and published.

Each batch adds its `arrivals`; `estimate` makes the two times of them, of how far logs are read and of what
waits; `publishing` decides when to write the document that `published` reads. Readers go by it, and so do
the days that are closed and the logs that may be deleted. What is joined or given up goes by the watermark
of primary logs, and by nothing here.
"""
