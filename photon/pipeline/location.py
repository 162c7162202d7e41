"""Where logs and tables lie: a local folder, or a key of an S3 bucket, and names below it. Values alone."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path

LEADS_OUT = r"^/|://|\x00|(^|/)\.\.(/|$)"  # in a name: absolute, with a scheme, or climbing
_S3_URL = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/*(?P<key>[^?#*]*)")


@dataclass(frozen=True, order=True)
class S3Folder:
    """The objects of a bucket whose keys begin with `key` and a slash. It has no credentials."""

    bucket: str
    key: str  # without a slash at either end; empty: the whole bucket
    endpoint_url: str | None = None  # None: as the environment says, else AWS
    region: str | None = None

    def __truediv__(self, name: str) -> S3Folder:
        return replace(self, key=f"{self.key}/{name}" if self.key else name)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}".removesuffix("/")

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> S3Folder:
        """The folder above; the bucket has none, and is its own."""
        return replace(self, key=self.key.rpartition("/")[0])


# A path or a URL may be extended with `/`, has `name` and `parent`, and `str` shows it to people.
Location = Path | S3Folder


def parse_s3_url(url: str, endpoint_url: str | None, region: str | None) -> S3Folder:
    """Read the folder that `s3://bucket/key` names; ValueError says what was expected."""
    match = _S3_URL.fullmatch(url)
    if match is None:
        raise ValueError("a URL such as s3://bucket/folder, without ?, # and *")
    key = "/".join(part for part in match["key"].split("/") if part)
    return S3Folder(match["bucket"], key, endpoint_url, region)


def location_to_json(location: Location) -> str:
    """Write a location as text that `location_from_json` reads."""
    return json.dumps(str(location) if isinstance(location, Path) else asdict(location))


def location_from_json(text: str) -> Location:
    """Read a location that `location_to_json` wrote."""
    stored = json.loads(text)
    return Path(stored) if isinstance(stored, str) else S3Folder(**stored)


class OutsideFolder(OSError):
    """A name leads out of its folder: it is absolute, climbs, or goes through a link. Nothing was done."""

    def __init__(self, folder: str, name: str) -> None:
        super().__init__(
            f"{folder}: the name {name!r} leads out of this folder, so nothing was read or removed; somebody"
            " else than Photon wrote it: look who may write there, and put the folder back from a copy"
        )


def is_inside(name: str) -> bool:
    """Whether a name, as it is written, lies below the folder that it is joined to."""
    return re.search(LEADS_OUT, name) is None
