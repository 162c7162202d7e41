"""The name of an object's file: its key below the source, and its ETag. No two objects share one. Pure."""

from __future__ import annotations

import re
from hashlib import blake2b
from urllib.parse import unquote

MOST_NAME_BYTES = 120  # of a folder, or of an object without its folders; a file's name has 255
_ODD = re.compile(r"^\.|[%@\x00-\x1f\x7f]")
_PLAIN_ETAG = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def digest_of(key: str, etag: str) -> bytes:
    """The digest by which an object is known: 16 bytes, others for each key and ETag."""
    return blake2b(f"{etag}\n{key}".encode(errors="surrogatepass"), digest_size=16).digest()


def file_name(key: str, etag: str, ending: str) -> str:
    """The file of an object, below the landed folder. `key`: below the source's folder."""
    *folders, name = map(_quoted, key.split("/"))
    plain = etag.strip('"')
    if not _PLAIN_ETAG.fullmatch(plain):  # a weak one, or one with signs that no file's name has
        plain = f"%{_hash(etag)}"
    return "/".join((*folders, f"{name}@{plain}.{ending}"))


def partition_values(key: str) -> dict[str, str]:
    """The columns that folders such as `country=DE` stand for: Spark and Hive leave them out of the rows."""
    pairs = (folder.split("=", 1) for folder in key.split("/")[:-1] if "=" in folder[1:])
    return {unquote(name): unquote(value) for name, value in pairs if value != _HIVE_NULL}


def is_hidden(key: str, pattern: str) -> bool:
    """Whether a name in the key begins with `_`, as `_temporary` and `_SUCCESS`, and none of the pattern."""
    hidden = [part for part in key.split("/") if part.startswith("_")]
    return bool(hidden) and not any(part.startswith("_") for part in pattern.split("/"))


def _quoted(part: str) -> str:
    if not part:
        return "%"
    quoted = _ODD.sub(lambda found: f"%{ord(found[0]):02X}", part)
    data = quoted.encode()
    if len(data) <= MOST_NAME_BYTES:
        return quoted
    return f"{data[: MOST_NAME_BYTES - 40].decode(errors='ignore')}%{_hash(part)}"


def _hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()
