"""The registry as ledgers: what entries mean, their form, their positions, and views of them."""
