"""SQL over a release whose lakes are on S3, by a real MinIO."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from photon import read
from photon.cli.main import main
from photon.pipeline.location import S3Folder
from photon.storage.s3 import forget_clients
from tests.faulty_s3 import FaultyS3
from tests.releases.lakes import Lakes, new_lakes

pytestmark = pytest.mark.server

COUNT = "SELECT count(*) AS n FROM joined"
SECRET = "this-is-another"


@pytest.fixture
def lakes(on_s3: S3Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lakes:
    """Lakes with two releases; files of the first one have been compacted."""
    made = new_lakes(on_s3, tmp_path)
    for _ in range(2):
        made.append("east")
        made.append("west")
        made.release()
    made.compact("east")
    monkeypatch.chdir(tmp_path)
    return made


def photon(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def test_each_way_to_read_a_release_has_its_rows(lakes: Lakes) -> None:
    for made in lakes.made:
        number = made.release.number
        found = read.duckdb("pipeline.yaml", release=number).execute("SELECT _event_id, value FROM joined")
        assert frozenset(found.fetchall()) == made.joined
        rows = read.joined("pipeline.yaml", release=number).to_table()
        assert (
            frozenset(zip(*(rows[name].to_pylist() for name in ("_event_id", "value")), strict=True))
            == made.joined
        )
        assert (
            photon("sql", COUNT, "--release", str(number), "--format", "csv").stdout
            == f"n\n{len(made.joined)}\n"
        )
    assert photon("sql", "SELECT * FROM joined", "-o", "rows.parquet").exit_code == 0
    assert pq.read_table("rows.parquet").num_rows == len(lakes.made[-1].joined)


def without_bucket(_: pytest.MonkeyPatch) -> None:
    file = Path("pipeline.yaml")
    file.write_text(file.read_text().replace("s3://", "s3://no-such-"))


def with_a_wrong_secret(patch: pytest.MonkeyPatch) -> None:
    patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def without_credentials(patch: pytest.MonkeyPatch) -> None:
    patch.delenv("AWS_ACCESS_KEY_ID")
    patch.delenv("AWS_SECRET_ACCESS_KEY")


@pytest.mark.parametrize(
    ("spoil", "told", "not_told"),
    [
        (without_bucket, "make the bucket, or name another one in the pipeline file", SECRET),
        (
            with_a_wrong_secret,
            "the store refuses these credentials: set others in the environment",
            "photon retire",
        ),
        (without_credentials, "set them as for boto3", "photon retire"),
    ],
)
def test_a_store_that_gives_nothing_is_named_with_the_remedy(
    lakes: Lakes,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[pytest.MonkeyPatch], None],
    told: str,
    not_told: str,
) -> None:
    spoil(monkeypatch)
    forget_clients()
    for words in (("sql", COUNT), ("releases",)):
        done = photon(*words)
        assert done.exit_code == 3
        assert told in done.stderr
        assert "/east" in done.stderr
        assert SECRET not in done.stderr
        assert not_told not in done.stderr


def test_a_store_that_goes_away_fails_a_query_and_the_next_one_reads_again(
    lakes: Lakes, tmp_path: Path, on_s3: S3Folder, faulty: FaultyS3
) -> None:
    text = (tmp_path / "pipeline.yaml").read_text()
    (tmp_path / "far.yaml").write_text(text.replace(str(on_s3.endpoint_url), faulty.url))
    connection = read.duckdb("far.yaml")
    faulty.refuse()
    with pytest.raises(duckdb.Error, match=r"joined_events/.*Connection refused"):
        connection.execute("SELECT sum(value) FROM joined").fetchall()
    faulty.listen()
    assert connection.execute(COUNT).fetchall() == [(len(lakes.made[-1].joined),)]
