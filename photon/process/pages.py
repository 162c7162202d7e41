"""Pages of the documents that messages name. They are installed with Photon (docs/adr/0084)."""

from __future__ import annotations

from pathlib import Path

_ROOT = Path(__file__).parents[1]


def page(name: str) -> str:
    """The path of a page, such as docs/security.md, by which it can be opened on this machine."""
    return str((_ROOT / name).resolve())
