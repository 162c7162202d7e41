"""`photon sql`: a query of one release, or a prompt for several."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from photon.cli.ending import say
from photon.cli.output import expected_errors, log, log_to_stderr, pipeline_file_of, standard_output
from photon.process.clock import moment_of
from photon.process.errors import UserError, WrongUsage
from photon.storage.sync import sync as sync_to_disk

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation, Statement
    from duckdb.sqltypes import DuckDBPyType

MOST_ROWS = 1_000  # that a table shows; the other formats have all
NO_SCREEN = (120, 24)  # what a pipe is taken for: a time needs 30 columns
COPY_OPTIONS = {"csv": "FORMAT csv", "json": "FORMAT json, ARRAY true", "parquet": "FORMAT parquet"}
WIDE_INTEGERS = ("hugeint", "uhugeint")
NESTED = ("list", "array", "struct", "map", "tuple", "union")
DOCUMENTS = ("json", "parquet")  # two of them in a row are none
VIEWS = "Views: joined, unjoined, unmatched, dead_letters, conflicting, releases"
HELP = f"""{VIEWS}
DESCRIBE joined;                     names its columns and their types
FROM joined LIMIT 5;                 shows some rows
SELECT count(*) FROM joined;         any query of DuckDB's SQL, on lines as many as you like
Ctrl-C ends a query, \\q the prompt. Rows are those of one release; begin again for a newer one"""
PROMPT, MORE = "photon> ", "   ...> "

# As DuckDB calls them. MULTI is a PIVOT that has to look for its columns first.
SELECT, MULTI, EXPLAIN = "SELECT", "MULTI", "EXPLAIN"
_BLANK = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
_EXPLAINS = re.compile(
    rf"{_BLANK}EXPLAIN\b{_BLANK}(?:ANALYZE\b{_BLANK})?(?:\(\s*(?:ANALYZE|FORMAT)\b[^)]*\))?", re.I | re.S
)
NO_QUERY = (
    "photon sql takes queries: SELECT, FROM, WITH, PIVOT, DESCRIBE, SUMMARIZE, or EXPLAIN of one. "
    "It writes an answer with -o FILE; for tables of your own there is photon.read.duckdb in Python"
)
ONLY_VIEWS = "a query reads the views alone; photon.read.duckdb in Python takes tables of your own, too"

# A text of JSON, which stays as it is, or a number that JSON has not.
_TEXT_OR_NO_NUMBER = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*")|-?(?:NaN|Infinity)')


class QueryFailed(UserError):
    """A query failed, and it is not the query's fault."""


def time_of(_: click.Context, option: click.Parameter, given: str | None) -> datetime | None:
    """A time that an option names, in UTC unless it says otherwise."""
    if given is None:
        return None
    try:
        return moment_of(given)
    except ValueError:
        expected = "a time such as 2026-01-31T10:42, of UTC unless it has a zone"
        raise click.BadParameter(f"{given!r}: expected {expected}", param=option) from None


@click.command()
@click.argument("words", metavar="[QUERY] [PIPELINE]", nargs=-1)
@click.option("--release", "number", type=click.IntRange(min=0), help="Of this number. [default: the newest]")
@click.option("--as-of", metavar="TIME", callback=time_of, help="The newest that was made by this time.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", *COPY_OPTIONS]),
    help="[default: table, or as FILE is called]",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write it to this file."
)
@click.pass_context
def sql(
    ctx: click.Context,
    words: Sequence[str],
    number: int | None,
    as_of: datetime | None,
    form: str | None,
    output: Path | None,
) -> None:
    """Ask one release of PIPELINE's rows with SQL: the rows of all datacenters, which never change.

    QUERY is one of DuckDB's on the views joined, unjoined, unmatched, dead_letters, conflicting and releases.
    Without one a prompt takes queries, each up to its semicolon. No registry is asked; joins may go on.
    """
    query, pipeline_file = query_and_file(ctx, words)
    if output is not None and output.exists() and output.samefile(pipeline_file):
        raise click.UsageError(f"-o {output} is the pipeline file: name another one")
    if number is not None and as_of is not None:
        raise click.UsageError("--release and --as-of both name a release: leave one out")
    if output is not None and query is None:
        raise click.UsageError("-o needs a QUERY")
    form = format_of(output, form)
    log_to_stderr()
    with expected_errors(), answer_file(output, form) as file:
        from photon.pipeline.file import load_pipeline
        from photon.read import duckdb_of
        from photon.releases.reading import open_release

        pipeline = load_pipeline(pipeline_file)
        opened = open_release(pipeline, number if number is not None else as_of or "latest")
        log.info("%s", opened.release.sentence())
        for said in (*opened.release.unread_sentences(), *opened.release.foreign_sentences()):
            log.warning("%s", said)
        session = Session(duckdb_of(opened, [file]), form, file, prints=output is None)
        if query is not None:
            session.answer(query)
        elif sys.stdin.isatty():
            prompt(session.answer)
        else:
            session.answer_all(sys.stdin.read())


def query_and_file(ctx: click.Context, words: Sequence[str]) -> tuple[str | None, Path]:
    """Tell the query from the pipeline file, in either order. Ends the command if there is no file."""
    files = [word for word in words if is_pipeline_file(word)]
    queries = [word for word in words if word not in files]
    if len(words) > 2 or len(queries) > 1:
        raise click.UsageError('expected a query in quotes: photon sql "SELECT ..." pipeline.yaml')
    file = pipeline_file_of(ctx, ctx.command.params[0], [Path(word) for word in files])
    return next(iter(queries), None), file


def is_pipeline_file(word: str) -> bool:
    """Whether a word of the command names a pipeline file; a query of SQL has a blank."""
    return word.endswith((".yaml", ".yml")) or len(word.split()) == 1


def format_of(output: Path | None, given: str | None) -> str:
    """The format of the answer: as given, else as the file's name ends. UsageError."""
    if output is None:
        return given or "table"
    named = given or output.suffix.removeprefix(".").lower()
    if named not in COPY_OPTIONS:
        raise click.UsageError(
            f"-o {output}: expected a name that ends in .csv, .json or .parquet, or --format"
        )
    return named


# -- answers


@contextmanager
def answer_file(output: Path | None, form: str) -> Iterator[Path]:
    """The file that takes an answer: `output` is it, once all is written. Else one that goes in the end."""
    if output is None:
        with tempfile.TemporaryDirectory(prefix="photon-sql-") as folder:
            yield Path(folder, f"answer.{form}")
        return
    output = output.resolve()  # a link stays, and the file that it names is written
    if not output.parent.is_dir():
        raise WrongUsage(f"-o {output}: there is no folder {output.parent}; make it")
    if output.exists() and not output.is_file():  # such as /dev/null, which a rename would replace
        raise WrongUsage(f"-o {output} is no file: leave -o out, and send standard output there")
    unfinished = output.with_name(f".{output.name}.{os.getpid()}.unfinished")
    try:
        yield unfinished.absolute()
        sync_to_disk(unfinished)
        unfinished.replace(output)
        sync_to_disk(output.parent)
    finally:
        unfinished.unlink(missing_ok=True)


@dataclass(frozen=True)
class Session:
    """Queries of one release, and where their answers go."""

    connection: DuckDBPyConnection
    form: str
    file: Path
    prints: bool

    def answer(self, text: str) -> None:
        """Answer each query of a text. QueryFailed, WrongUsage, KeyboardInterrupt."""
        with readable_errors():
            queries = self.connection.extract_statements(text)
            if len(queries) != 1 and (not self.prints or self.form in DOCUMENTS):
                option = f"--format {self.form}" if self.prints else "-o"
                raise WrongUsage(f"{option} takes the answer of one query, found {len(queries)}")
            for query in queries:
                self._answer(query)

    def answer_all(self, script: str) -> None:
        """Answer the queries of a script up to the first that fails. Raises as `answer`.

        DuckDB parses a whole text first: in one that it can't parse each query is asked alone.
        """
        import duckdb

        queries: Iterable[str] = [script]
        try:
            self.connection.extract_statements(script)
        except duckdb.ParserException:
            queries = queries if self.form in DOCUMENTS else queries_in(script)
        for query in queries:
            self.answer(query)

    def _answer(self, query: Statement) -> None:
        if not self._is_query(query):
            raise WrongUsage(NO_QUERY)
        with ended_by_ctrl_c(self.connection):
            rows = self._rows_of(query)
            if self.form == "table" and query.type.name == EXPLAIN:
                say("\n".join(row[-1] for row in rows.fetchall()))
            elif self.form == "table":
                with io.StringIO() as shown:
                    with redirect_stdout(shown):
                        rows.show(max_rows=MOST_ROWS, max_width=shutil.get_terminal_size(NO_SCREEN).columns)
                    say(shown.getvalue().removesuffix("\n"))
            else:
                if self.form == "parquet":
                    rows = with_exact_integers(rows)
                file = str(self.file).replace("'", "''")
                options = f"{COPY_OPTIONS[self.form]}, USE_TMP_FILE false"
                rows.query("answer", f"COPY answer TO '{file}' ({options})")
        if self.form == "json":
            nan_as_text(self.file)
        if self.form != "table" and self.prints:
            with self.file.open("rb") as made:
                shutil.copyfileobj(made, out := standard_output())
            out.flush()

    def _is_query(self, query: Statement) -> bool:
        """Whether a statement asks and changes nothing: what EXPLAIN or a PIVOT stands in can be a table."""
        import duckdb

        if query.type.name not in (EXPLAIN, MULTI):
            return query.type.name == SELECT
        said = without_semicolon(query.query)
        asked = said[found.end() :] if (found := _EXPLAINS.match(said)) else said
        try:
            return len(self.connection.extract_statements(f"FROM ({asked}\n)")) == 1
        except duckdb.ParserException:
            return False

    def _rows_of(self, query: Statement) -> DuckDBPyRelation:
        import duckdb

        try:
            return self.connection.sql(without_semicolon(query.query))
        except duckdb.ProgrammingError:
            self.connection.execute(query)  # it fails again, and says at which place of the query
            raise


def queries_in(script: str) -> Iterator[str]:
    """The queries of a script, each up to its semicolon, whether they are SQL or not."""
    said = ""
    for piece in re.findall(r"[^;]*;|[^;]+\Z", script):
        said += piece
        if sqlite3.complete_statement(said):
            yield said
            said = ""
    if said.strip():
        yield said


def with_exact_integers(rows: DuckDBPyRelation) -> DuckDBPyRelation:
    """The same rows, sums of integers as decimals: Parquet has no integers of 128 bits, only floats.

    Columns are named by their places, since several may have one name.
    """
    columns = [
        f"CAST(#{place} AS {exact_type(kind)}) AS {_quoted_name(name)}"
        for place, (name, kind) in enumerate(zip(rows.columns, rows.types, strict=True), 1)
    ]
    return rows.project(", ".join(columns))


def exact_type(kind: DuckDBPyType) -> str:
    """The type, with decimals for integers of 128 bits at every depth."""
    if kind.id in WIDE_INTEGERS:
        return "DECIMAL(38, 0)"
    if kind.id not in NESTED:
        return str(kind)
    parts: list[tuple[str, Any]] = kind.children
    if kind.id in ("list", "array"):
        size = f"{parts[1][1]}" if kind.id == "array" else ""
        return f"{exact_type(parts[0][1])}[{size}]"
    # A union's first part is its tag. Parts of a tuple have no name.
    parts = parts[1:] if kind.id == "union" else parts
    is_named = kind.id in ("struct", "union")
    kinds = [f"{_quoted_name(name) if is_named else ''} {exact_type(part)}" for name, part in parts]
    return f"{kind.id}({', '.join(kinds)})"


def _quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def nan_as_text(file: Path) -> None:
    """Make NaN and Infinity text, as the feed does: DuckDB writes them bare, and JSON has neither."""
    quoted = file.with_name(f"{file.name}.quoted")
    try:
        with file.open("rb") as rows, quoted.open("wb") as made:
            made.writelines(_TEXT_OR_NO_NUMBER.sub(_quoted, row) for row in rows)
        quoted.replace(file)
    finally:
        quoted.unlink(missing_ok=True)


def _quoted(found: re.Match[bytes]) -> bytes:
    return found[0] if found[1] else b'"' + found[0] + b'"'


def without_semicolon(query: str) -> str:
    """The query as DuckDB can put it into another one: no semicolon ends it, and no comment behind one."""
    while sqlite3.complete_statement(query):
        query = query[: query.rindex(";")]
    return query


@contextmanager
def ended_by_ctrl_c(connection: DuckDBPyConnection) -> Iterator[None]:
    """Have Ctrl-C end a query, and no more. KeyboardInterrupt."""
    import duckdb

    before = signal.signal(signal.SIGINT, lambda *_: connection.interrupt())
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def readable_errors() -> Iterator[None]:
    """Raise what DuckDB says as WrongUsage or QueryFailed, and what reading a file said in its own words."""
    import duckdb

    users = (duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError, duckdb.PermissionException)
    try:
        yield
    except duckdb.Error as error:
        said = str(error).strip()
        if said.startswith("Traceback"):
            said = said.splitlines()[-1].partition(": ")[2]
        if isinstance(error, duckdb.PermissionException):
            said += f"\n{ONLY_VIEWS}"
        raise (WrongUsage if isinstance(error, users) else QueryFailed)(said) from None


# -- the prompt


def prompt(answer: Callable[[str], None]) -> None:
    """Take queries until \\q or the end of input. Errors and Ctrl-C end a query, and not the prompt."""
    with suppress(ImportError):
        import readline  # noqa: F401 - with it lines can be edited and called again
    click.echo(f"{VIEWS}. A semicolon ends a query, \\q all; \\? helps")
    said = ""
    while True:
        try:
            line = input(MORE if said else PROMPT)
            if not said and line.strip() in ("\\q", "exit", "quit"):
                return
            if not said and line.strip() in ("\\?", "\\h", "help", "?"):
                click.echo(HELP)
                continue
            said += line + "\n"
            if sqlite3.complete_statement(said):
                query, said = said, ""
                answer(query)
        except EOFError:
            click.echo()
            return
        except KeyboardInterrupt:
            said = ""
            say("photon: interrupted", err=True)
        except UserError as error:
            say(f"photon: {error}", err=True)
