"""Testing tools that ship with the product: traffic, real-log layouts, an in-memory registry."""
