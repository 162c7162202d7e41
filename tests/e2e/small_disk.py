"""A file system in memory, of a size that can be changed: for disks that are full or write-protected.

A test unmounts the disk that it made. CalledProcessError or FileNotFoundError where none can be mounted.
"""

from __future__ import annotations

import subprocess
from pathlib import Path


class SmallDisk:
    """A file system in memory, of a size that can be changed."""

    def __init__(self, folder: Path, size: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._mount(f"size={size}", "tmpfs")

    def grow(self, size: str) -> None:
        self._mount(f"remount,size={size}", "tmpfs")

    def write_protect(self, protect: bool) -> None:
        self._mount("remount,ro" if protect else "remount,rw", "tmpfs")

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=False, capture_output=True)

    def _mount(self, options: str, what: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, what, str(self.folder)]
        subprocess.run(command, check=True, capture_output=True)
