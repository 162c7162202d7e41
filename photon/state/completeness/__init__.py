"""Up to which event time the joined rows are complete: estimated while batches are joined, and published.

It tells readers, and says which days are closed and which logs may be deleted. What is joined or given up
goes by the watermark of primary logs, and by nothing here.
"""
