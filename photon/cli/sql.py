"""`photon sql`: a query of one release, or a prompt for several."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from photon.cli.output import expected_errors, log, log_to_stderr, pipeline_file_of
from photon.errors import NOT_DONE, WRONG_USAGE, UserError, WrongUsage
from photon.process.clock import moment_of
from photon.process.machine import Machine

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation, Statement

    from photon.releases.release import Release

MOST_ROWS = 1_000  # that a table shows; the other formats have all
SMALL_SCREEN = (100, 24)
LOOKED_EVERY_SECONDS = 0.1  # for Ctrl-C, while DuckDB is at work
COPY_OPTIONS = {"csv": "FORMAT csv", "json": "FORMAT json, ARRAY true", "parquet": "FORMAT parquet"}
FORMATS = ("table", *COPY_OPTIONS)
PROMPT, MORE = "photon> ", "   ...> "
# Text in quotes and comments, in which a semicolon ends nothing.
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/""", re.DOTALL)

# A statement may have this before its SELECT. No comment may be in it, where a second SELECT could hide.
_BEFORE_SELECT = {
    "EXPLAIN": re.compile(r"^\s*EXPLAIN\b\s*(?:ANALYZE\b|\([\w\s,]*\))?", re.IGNORECASE),
    "CREATE": re.compile(
        r"^\s*CREATE\s+(?:OR\s+REPLACE\s+)?TEMP(?:ORARY)?\s+(?:TABLE|VIEW)\s+\w+\s+AS\b", re.IGNORECASE
    ),
}
# DuckDB writes the tree of a SELECT in JSON: a WITH may have a COPY, and some functions run a text.
_NODE = re.compile(r'"type":"(\w+_NODE)"')
_READS = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
_RUNS_TEXT = re.compile(r'"function_name":"(?:query|json_execute_serialized_sql)"', re.IGNORECASE)
TAKEN = "SELECT, EXPLAIN of one, CREATE TEMP TABLE or VIEW name AS SELECT, and DROP"


class QueryFailed(UserError):
    """A statement failed; the message is DuckDB's."""

    def __init__(self, message: str, is_users: bool) -> None:
        super().__init__(message)
        self.exit_status = WRONG_USAGE if is_users else NOT_DONE


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
@click.option("--format", "form", type=click.Choice(FORMATS), help="[default: table, or as FILE is called]")
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

    QUERY is a statement of DuckDB's on the views joined, unjoined, dead_letters and releases. Without one a
    prompt takes statements, each up to its semicolon. No registry is asked; joins may go on.
    """
    query, file = query_and_file(ctx, words)
    if number is not None and as_of is not None:
        raise click.UsageError("--release and --as-of both name a release: leave one out")
    if output is not None and query is None:
        raise click.UsageError("-o needs a QUERY")
    form = form or form_of(output)
    log_to_stderr()
    with expected_errors(), written(output, form) as target:
        from photon.pipeline.file import load_pipeline
        from photon.read import duckdb_of
        from photon.releases.reading import open_release

        pipeline = load_pipeline(file)
        opened = open_release(pipeline, number if number is not None else as_of or "latest")
        log.info("%s", summary(opened.release))
        session = Session(duckdb_of(opened, [target]), form, target)
        if query is not None:
            session.answer(query)
        else:
            sys.exit(prompt(session.answer))


def query_and_file(ctx: click.Context, words: Sequence[str]) -> tuple[str | None, Path]:
    """Tell the query from the pipeline file, in either order. Ends the command if there is no file."""
    files = [word for word in words if is_pipeline_file(word)]
    queries = [word for word in words if word not in files]
    if len(queries) > 1:
        raise click.UsageError(f"expected one query, got {len(queries)}; put it in quotes")
    file = pipeline_file_of(ctx, ctx.command.params[0], [Path(word) for word in files])
    return next(iter(queries), None), file


def is_pipeline_file(word: str) -> bool:
    """Whether a word of the command names a pipeline file; a query of SQL has a blank."""
    return not re.search(r"\s", word) and (word.endswith((".yaml", ".yml")) or Path(word).is_file())


def form_of(output: Path | None) -> str:
    """The format that a file's name tells. WrongUsage."""
    if output is None:
        return "table"
    form = output.suffix.removeprefix(".").lower()
    if form not in COPY_OPTIONS:
        raise click.UsageError(f"-o {output}: name the format, as in --format csv, or end the name in .csv")
    return form


def summary(release: Release) -> str:
    """A release in one line."""
    from photon.process.clock import in_utc

    up_to_us = release.complete_up_to_us
    complete = "of no time yet" if up_to_us is None else f"up to {in_utc(up_to_us, 'seconds')}"
    return f"release {release.number}, made {in_utc(release.made_us, 'seconds')}, complete {complete}"


# -- where results go


@contextmanager
def written(output: Path | None, form: str) -> Iterator[Path]:
    """The file that takes a result: `output` is it, once all is written. Else one that goes in the end."""
    if output is None:
        with tempfile.TemporaryDirectory(prefix="photon-sql-") as folder:
            yield Path(folder, f"result.{form}")
        return
    if not output.parent.is_dir():
        raise WrongUsage(f"-o {output}: there is no folder {output.parent}; make it")
    unfinished = output.with_name(f".{output.name}.{os.getpid()}.unfinished")
    try:
        yield unfinished.absolute()
        with unfinished.open("rb") as made:
            os.fsync(made.fileno())
        unfinished.replace(output)
    finally:
        unfinished.unlink(missing_ok=True)


class Session:
    """Statements on one connection, and where their results go."""

    def __init__(self, connection: DuckDBPyConnection, form: str, target: Path) -> None:
        self._connection, self._form, self._target = connection, form, target
        self._is_for_people = target.suffix != ".unfinished"

    def answer(self, text: str) -> None:
        """Run one statement, and write its result. QueryFailed, WrongUsage, KeyboardInterrupt."""
        with readable_errors():
            statement = self._one_of(text)
            if self._form == "table":
                told = self._interruptible(lambda: self._table(statement))
                if self._is_for_people:
                    click.echo(told)
                else:
                    self._target.write_text(told + "\n")
                return
            query = statement.query.strip().rstrip(";")
            to = f"'{_quoted(self._target)}' ({COPY_OPTIONS[self._form]}, USE_TMP_FILE false)"
            copy = f"COPY ({query}\n) TO {to}"  # the line break ends a comment
            self._interruptible(lambda: self._connection.execute(copy))
        if self._is_for_people:
            self._print()

    def _one_of(self, text: str) -> Statement:
        found = self._connection.extract_statements(text)
        if len(found) != 1:
            raise WrongUsage(f"expected one statement, found {len(found)}: {text.strip()[:80]}")
        if found[0].type.name == "MULTI":
            raise WrongUsage("photon sql needs the columns of a PIVOT: PIVOT ... ON country IN ('de', 'jp')")
        if not self._only_reads(found[0]):
            raise WrongUsage(f"photon sql takes {TAKEN}; it writes a result itself, with -o FILE")
        return found[0]

    def _only_reads(self, statement: Statement) -> bool:
        """Whether it writes no file: DuckDB would let it write those that the views read."""
        kind, query = statement.type.name, statement.query
        if kind == "DROP":  # all that is there is in memory
            return True
        if kind in _BEFORE_SELECT:
            query = _BEFORE_SELECT[kind].sub("", query, count=1)
        elif kind != "SELECT":
            return False
        [(tree,)] = self._connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
        nodes = set(_NODE.findall(tree))  # none of what is no SELECT
        return bool(nodes) and nodes <= _READS and not _RUNS_TEXT.search(tree)

    def _table(self, statement: Statement) -> str:
        found = self._connection.sql(statement.query)
        if statement.type.name == "EXPLAIN":
            return "\n".join(row[-1] for row in found.fetchall())
        return box(found)

    def _print(self) -> None:
        with self._target.open("rb") as made:
            shutil.copyfileobj(made, sys.stdout.buffer)
        sys.stdout.buffer.flush()

    def _interruptible(self, work: Callable[[], object]) -> str:
        """Have a thread work, for DuckDB does not heed Ctrl-C; return what it returns. KeyboardInterrupt."""
        answer = Machine().ask("query", work)
        try:
            while not wait([answer], LOOKED_EVERY_SECONDS).done:
                pass
        except KeyboardInterrupt:
            self._connection.interrupt()
            wait([answer])
            raise
        return str(answer.result())


def box(found: DuckDBPyRelation) -> str:
    """Rows as a table of text, as wide as the terminal."""
    import io
    from contextlib import redirect_stdout

    with redirect_stdout(io.StringIO()) as told:
        found.show(max_rows=MOST_ROWS, max_width=shutil.get_terminal_size(SMALL_SCREEN).columns)
    return told.getvalue().rstrip("\n")


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


@contextmanager
def readable_errors() -> Iterator[None]:
    """Raise what DuckDB refuses as QueryFailed, in its own words."""
    import duckdb

    users = (duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError, duckdb.PermissionException)
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.Error as error:
        raise QueryFailed(str(error).strip(), isinstance(error, users)) from None


# -- the prompt


def ends_statement(text: str) -> bool:
    """Whether a statement ends with the text: by a semicolon outside quotes and comments."""
    rest = _QUOTED.sub("", text).rstrip()
    return rest.endswith(";") and not re.search(r"""['"]|/\*""", rest)


def prompt(answer: Callable[[str], None]) -> int:
    """Take statements until \\q or the end; the exit status. Errors are told, and end only a script."""
    is_script = not sys.stdin.isatty()
    if not is_script:
        with suppress(ImportError):
            import readline  # noqa: F401 - with it lines can be edited and called again
        click.echo("Views: joined, unjoined, dead_letters, releases. A semicolon ends a statement, \\q all.")
    said = ""
    while True:
        try:
            line = input("" if is_script else MORE if said else PROMPT)
        except EOFError:
            if not is_script:
                click.echo()
            elif said.strip():
                return _tell(answer, said)
            return 0
        except KeyboardInterrupt:
            said = ""
            click.echo()
            continue
        if not said and line.strip() in ("\\q", "exit", "quit"):
            return 0
        said = f"{said}\n{line}" if said else line
        if ends_statement(said) or not said.strip():
            status, said = _tell(answer, said) if said.strip() else 0, ""
            if status and is_script:
                return status


def _tell(answer: Callable[[str], None], text: str) -> int:
    try:
        answer(text)
    except KeyboardInterrupt:
        click.echo("photon: interrupted", err=True)
        return NOT_DONE
    except UserError as error:
        click.echo(f"photon: {error}", err=True)
        return error.exit_status
    return 0
