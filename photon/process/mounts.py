"""Which kind of file system a path is on, by Linux's list of mounts; pure but for `mounts_here`."""

from __future__ import annotations

import re
from pathlib import Path

# Over these one machine's locks and shared memory say nothing to another one.
NETWORK_KINDS = (
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "ceph", "lustre", "gpfs", "beegfs"),
    *("glusterfs", "orangefs", "pvfs2", "ocfs2", "gfs2"),
)
# File systems of programs (FUSE) whose data is on other machines; others, such as ntfs-3g, are of this one.
_NETWORK_PROGRAMS = re.compile(
    r"fuse\.(sshfs|s3fs|goofys|gcsfuse|blobfuse2?|rclone|glusterfs|ceph(-fuse)?|juicefs|mount-s3|davfs2?"
    r"|curlftpfs|seaweedfs|moosefs|mfs|lizardfs|afpfs|smbnetfs|hdfs|fuse_dfs|alluxio-fuse|cvmfs2?)"
)
_ESCAPED = re.compile(r"\\([0-7]{3})")  # blanks and such in a mount's path


def mounts_here() -> str:
    """Linux's list of this process's mounts; empty elsewhere."""
    try:
        return Path("/proc/self/mountinfo").read_text()
    except OSError:
        return ""


def file_system_of(path: Path, mounts: str) -> str:
    """The kind of file system that a resolved path is on; empty where the list does not say."""
    kind, deepest = "", -1
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        if len(fields.split(" ")) < 5 or not rest:
            continue
        at = Path(_ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields.split(" ")[4]))
        # A later mount at the same place hides the earlier one.
        if path.is_relative_to(at) and len(at.parts) >= deepest:
            kind, deepest = rest.split(" ")[0], len(at.parts)
    return kind


def is_of_network(kind: str) -> bool:
    """Whether several machines may use a file system of this kind at once."""
    return kind in NETWORK_KINDS or _NETWORK_PROGRAMS.fullmatch(kind) is not None
