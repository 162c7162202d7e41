"""The pipeline file: its own keys, and how it is read. `sections` has the keys of each section."""

from __future__ import annotations

import itertools
import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError

from photon.pipeline.document import Document, Problem, describe, fields_by_key, read_document, unknown_key
from photon.pipeline.location import Location, S3Folder
from photon.pipeline.sections import (
    UNMATCHED_COLUMNS,
    Alerts,
    Availability,
    Backfill,
    Compaction,
    Datacenter,
    ForeignLog,
    Health,
    Home,
    Limits,
    Log,
    PrimaryLog,
    Recovery,
    Registry,
    Releases,
    Retry,
    Shift,
    Spark,
    Storage,
    Strict,
    Tailing,
    Unmatched,
    Verification,
)
from photon.pipeline.values import PIPELINE_NAME, TEXT_TABLES, AdapterName, DatacenterName, Owner, Url
from photon.process.errors import WrongUsage, without_passwords
from photon.process.pages import page


def _with_default_places(datacenters: object) -> object:
    if not isinstance(datacenters, dict):
        return datacenters
    return {
        name: {"lake": f"lake/{name}", "state": f"state/{name}", **keys} if isinstance(keys, dict) else keys
        for name, keys in datacenters.items()
    }


class Pipeline(Strict):
    """One pipeline: everything else (commands, Dagster, tests) reads it."""

    name: str = Field(pattern=PIPELINE_NAME)
    file: Path = Field(exclude=True)
    datacenters: Annotated[
        dict[DatacenterName, Datacenter], Field(min_length=1), BeforeValidator(_with_default_places)
    ]
    primary: PrimaryLog
    foreign: ForeignLog
    adapter: AdapterName = "photon.adapters:merge_columns"
    registry: Registry = Registry()
    retry: Retry = Retry()
    home: Home = Home()
    recovery: Recovery = Recovery()
    limits: Limits = Limits()
    tailing: Tailing = Tailing()
    verification: Verification = Verification()
    availability: Availability = Availability()
    backfill: Backfill = Backfill()
    compaction: Compaction = Compaction()
    releases: Releases = Releases()
    unmatched: Unmatched | None = None  # None: nobody looks for them
    health: Health = Health()
    alerts: Alerts = Alerts()
    shift: Shift = Shift()
    spark: Spark = Spark()
    owners: tuple[Owner, ...] = ()  # whom to ask, as Dagster shows it
    links: dict[str, Url] = Field(default_factory=dict)  # runbooks and such, shown there too
    # After the state was lost, foreign logs are read from the start (ids that are held lose), or from now on.
    new_epoch_reads_from: Literal["start", "now"] = "start"

    def on_spark(self, master: str | None, settings: Mapping[str, str]) -> Pipeline:
        """The pipeline with another master, where one is named, and with these settings before its own."""
        spark = Spark(master=master or self.spark.master, settings={**self.spark.settings, **settings})
        return self.model_copy(update={"spark": spark})

    @property
    def typed(self) -> str:
        """The path of its file, quoted so that it can be typed in a command."""
        return shlex.quote(str(self.file))

    def if_lake_is_lost(self, datacenter: str) -> str:
        """The remedy for a lake that nobody can bring back. The only datacenter has nobody to join on."""
        if self.datacenters.keys() <= {datacenter}:
            anew = page("docs/operations/backups.md")
            return f'if it is lost for good, all is joined anew ("Begin anew" in {anew})'
        return f"if it is lost for good: photon retire {self.typed} {datacenter} --lake-is-gone"

    @property
    def registry_folder(self) -> Path:
        """Where the local registry (`endpoints: local`) has its data."""
        return self.file.parent / "state" / "registry"


class PipelineError(WrongUsage):
    """A pipeline file that can't be used: every problem with its file, line, key and what was expected."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(without_passwords(problem) for problem in problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)


def dagster_name(*parts: str) -> str:
    """A name that Dagster allows (letters, digits, _), of names that pipeline files allow (- as well)."""
    return "__".join(part.replace("-", "_") for part in parts)


def load_pipeline(path: str | Path) -> Pipeline:
    """The pipeline that the file at `path` describes; PipelineError with all that is wrong with it."""
    path = Path(path)
    try:
        document = read_document(path.read_text(encoding="utf-8"))
    except OSError as error:
        remedy = "expected a pipeline file, which photon init writes for logs that are there"
        raise PipelineError([f"{path}: cannot be read: {error.strerror}; {remedy}"]) from None
    except UnicodeDecodeError:
        raise PipelineError([f"{path}: expected a YAML file in UTF-8"]) from None
    problems = list(document.problems)
    if not problems and not isinstance(document.value, dict):
        found = "nothing" if document.value is None else "something else"
        problems.append((1, f"expected keys such as name, datacenters, primary and foreign, got {found}"))
    if isinstance(document.value, dict):
        if "file" in document.value:  # the model has it, the file has not
            known = list(fields_by_key(Pipeline))
            problems.append(document.problem(("file",), unknown_key(("file",), known)))
        settings, file = document.value, path.absolute()
        try:
            pipeline = Pipeline.model_validate({**settings, "file": file}, by_name=False, context=file.parent)
            problems += _contradictions(pipeline, document)
        except ValidationError as error:
            problems += describe(error, document, Pipeline)
    if problems:
        raise PipelineError([f"{path}:{line}: {what}" for line, what in sorted(set(problems))])
    if _needs_clients(pipeline):
        # Questions run on threads of their own. Two that import parts of it at once may find half of it.
        import boto3  # noqa: F401
    return pipeline


def _needs_clients(pipeline: Pipeline) -> bool:
    """A server has its registry, or one of its folders."""
    places = pipeline.datacenters.values()
    on_s3 = (isinstance(one, S3Folder) for place in places for one in (place.logs, place.lake))
    return pipeline.registry.endpoints != "local" or any(on_s3)


def pipelines_beside(file: Path) -> list[Pipeline]:
    """The pipelines of other files in the folder of `file`, which may share its local registry."""
    file, found = file.absolute(), list[Pipeline]()
    for other in sorted({*file.parent.glob("*.yaml"), *file.parent.glob("*.yml")} - {file}):
        with suppress(PipelineError):  # another kind of YAML file
            found.append(load_pipeline(other))
    return found


def _contradictions(pipeline: Pipeline, document: Document) -> list[Problem]:
    """Settings that are right one by one and wrong together."""
    found: list[Problem] = []

    def refuse(path: tuple[str, ...], what: str) -> None:
        found.append(document.problem(path, what))

    owners: dict[Location, str] = {}
    for name, datacenter in pipeline.datacenters.items():
        for key in ("lake", "state", "work"):
            place: Location | None = getattr(datacenter, key)
            if place is None:
                continue
            if isinstance(place, Path):
                place = place.resolve()
            if place in owners:
                own = f"expected a folder of its own, got that of {owners[place]}"
                refuse(("datacenters", name, key), own)
            owners[place] = f"datacenters.{name}.{key}"
    for name, datacenter in pipeline.datacenters.items():
        for what in _wrong_landing(datacenter, pipeline):
            refuse(("datacenters", name, "land"), what)
    endpoints: dict[str, Storage] = {}
    for name, datacenter in pipeline.datacenters.items():
        if isinstance(datacenter.lake, S3Folder):
            bucket, storage = datacenter.lake.bucket, datacenter.storage
            if endpoints.setdefault(bucket, storage) != storage:  # Spark knows a bucket by its name alone
                elsewhere = f"one storage for the bucket {bucket}, got two; give the buckets different names"
                refuse(("datacenters", name, "lake"), f"expected {elsewhere}")
    if len(pipeline.foreign.key) != len(pipeline.primary.id):
        counts = f"{len(pipeline.primary.id)}, as primary.id has, got {len(pipeline.foreign.key)}"
        refuse(("foreign", "key"), f"expected as many columns as make the primary's id: {counts}")
    for side, log in (("primary", pipeline.primary), ("foreign", pipeline.foreign)):
        for key, what in _wrong_dialect(log):
            refuse((side, key), what)
    if (unmatched := pipeline.unmatched) is not None:
        for key, what in _wrong_unmatched(unmatched, pipeline):
            refuse(("unmatched", key), what)
    if pipeline.primary.files == pipeline.foreign.files:
        refuse(("foreign", "files"), "expected other files than those of primary.files")
    if pipeline.primary.watermark == "feed":
        for key, what in _not_fed(pipeline.primary):
            refuse(("primary", key), f"expected {what} beside watermark: feed")
    return found


def _wrong_landing(datacenter: Datacenter, pipeline: Pipeline) -> Iterator[str]:
    """Say what is wrong with the topics and objects that a datacenter lands."""
    if datacenter.land and isinstance(datacenter.logs, S3Folder):
        yield "expected logs on a local disk beside it: landing appends and renames there"
    folders = sorted(f"{one.into}/" for one in datacenter.land)
    if any(after.startswith(before) for before, after in itertools.pairwise(folders)):
        yield "expected a folder (into) of its own for each, and none within another"
    for one in datacenter.land:
        logs = [log for log in (pipeline.primary, pipeline.foreign) if log.files.startswith(f"{one.into}/")]
        if (one.kafka is None) == (one.objects is None):
            yield "expected either kafka or objects in each"
        elif one.objects is not None:
            ending = _ending(logs[0]) if logs else "jsonl"
            if [log.files for log in logs] != [f"{one.into}/**/*.{ending}"]:
                yield f'expected a log with files: "{one.into}/**/*.{ending}", as landing names them'
            if _is_around(one.objects, datacenter.logs, pipeline.file.parent):
                yield "expected objects in a folder that does not hold the logs: landed files would be landed"
        elif [(log.files, log.format) for log in logs] != [(f"{one.into}/*/*.jsonl", "jsonl")]:
            yield f'expected a log with files: "{one.into}/*/*.jsonl" and format: jsonl, as landing does'


def _is_around(objects: str, logs: Location, beside: Path) -> bool:
    """Whether a pattern of this machine's files may name some below the logs folder."""
    if "://" in objects or not isinstance(logs, Path):
        return False
    fixed = itertools.takewhile(lambda part: not set("*?[").intersection(part), objects.split("/")[:-1])
    folder = Path(os.path.normpath(beside.absolute() / ("/".join(fixed) or ("/" * objects.startswith("/")))))
    own = Path(os.path.normpath(logs.absolute()))
    return own.is_relative_to(folder) or folder.is_relative_to(own)


def _ending(log: Log) -> str:
    """How landed files of a log end."""
    return log.format if log.format in ("jsonl", *TEXT_TABLES) else "log"


def _not_fed(log: PrimaryLog) -> Iterator[tuple[str, str]]:
    """Keys of a log that don't fit what `photon follow --to FOLDER` writes, each with what was expected."""
    folder, _, name = log.files.rpartition("/")
    if name != "*.jsonl" or set("*?[{").intersection(folder):
        yield "files", "the files of one folder, such as clicks/*.jsonl,"
    if log.format != "jsonl":
        yield "format", "jsonl"
    if log.time != ("_event_time",):
        yield "time", "_event_time, up to which the feed is complete,"


def _wrong_unmatched(unmatched: Unmatched, pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """Keys of `unmatched` that can't go with others, each with what was expected."""
    keep_days = pipeline.registry.keep_days
    if keep_days is not None and unmatched.after >= timedelta(days=keep_days):
        yield "after", f"expected less than registry.keep_days, {keep_days}d: older events join nothing"
    for name in unmatched.columns:
        if name.lower() in UNMATCHED_COLUMNS:
            yield "columns", f"expected other names than {', '.join(UNMATCHED_COLUMNS)}, got {name!r}"
    declared = pipeline.primary.header
    if missing := [name for name in unmatched.columns if declared and name not in declared]:
        yield "columns", f"expected columns of primary.header, got {missing[0]!r}"


_OF_TEXT_TABLES = ("delimiter", "quote", "escape", "header", "comment", "encoding")


def _wrong_dialect(log: Log) -> Iterator[tuple[str, str]]:
    """Keys of a log that can't go together, each with what was expected."""
    if log.format not in TEXT_TABLES:
        for key in sorted(log.model_fields_set.intersection(_OF_TEXT_TABLES)):
            yield key, f"expected it beside format: {' or '.join(TEXT_TABLES)}, got format: {log.format}"
        return
    quote = ('"' if log.format == "csv" else "") if log.quote is None else log.quote
    delimiter = log.delimiter or ("," if log.format == "csv" else "\t")
    if quote == delimiter:
        yield "quote", f"expected another character than the delimiter, got {quote!r} for both"
    if log.escape in (quote, delimiter):
        yield (
            "escape",
            "expected another character than quote and delimiter; doubled quotes are understood without it",
        )
    if log.comment is not None and log.comment[0] in (quote, delimiter):
        yield "comment", "expected another beginning than the quote or the delimiter"
    missing = [name for name in (*log.id, *_key_of(log), *log.time, *log.columns) if name not in log.header]
    if log.header and missing:
        yield "header", f"expected the names of all columns, also {missing[0]!r}"


def _key_of(log: Log) -> tuple[str, ...]:
    return log.key if isinstance(log, ForeignLog) else ()


def identity_settings(pipeline: Pipeline) -> dict[str, object]:
    """The settings that decide ids and times of events: a registry serves only one such set (protocol B9).

    With other times a boundary would pass other events: one whose id was dropped would be joined again.
    Paths, limits and delays are not in it: they may change while a pipeline lives.
    """
    keys = {"id", "time", "time_unit", "time_format", "time_zone", "id_codec", "id_time_unit"}
    return {"pipeline": pipeline.name, **pipeline.foreign.model_dump(mode="json", include=keys)}


def settings_hash(pipeline: Pipeline) -> str:
    """A hash (sha256, hex) of `identity_settings`."""
    text = json.dumps(identity_settings(pipeline), sort_keys=True, ensure_ascii=True)
    return sha256(text.encode()).hexdigest()
