"""Around the product: start scripts and definitions for its servers, and what builds the site.

`servers` runs servers on this machine for tests, measurements and the demo on a MinIO; `site_pages` adds the
pages of the site that are not in docs/; `weight` counts lines of code. Nothing that pip installs may need it.
"""
