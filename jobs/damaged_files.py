"""A data file that Spark can't read: an error with the file, its datacenter and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import unquote

from photon.pipeline.location import Location
from photon.storage.damaged_files import damaged

_UNREAD = re.compile(r"\[FAILED_READ_FILE[^]]*\] Encountered error while reading file (\S+)\.\s")


@contextmanager
def naming_damaged_files(lakes: Mapping[str, Location]) -> Iterator[None]:
    """Raise LakeUnavailable for a data file below one of these lakes that Spark can't read.

    `lakes`: by datacenter. Spark's own error has the file's URI, within the stacks of its tasks.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        found = _UNREAD.search(str(error))
        uri = unquote(found[1]) if found is not None else ""
        of_file = {name: lake for name, lake in lakes.items() if f"{lake}/" in uri}
        if not of_file:
            raise
        name, lake = max(of_file.items(), key=lambda one: len(str(one[1])))  # one may lie below another
        path = uri.partition(f"{lake}/")[2]
        raise damaged(name, lake / path, "can't be read as Parquet") from error
