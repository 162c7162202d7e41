import json

import pytest

from photon.pipeline.sections import UNMATCHED_COLUMNS
from photon.process.errors import FormatTooNew
from photon.state.unmatched import DOCUMENT, UnmatchedProgress, publish, published
from photon.storage.columns import TABLE_COLUMNS

DONE = UnmatchedProgress(
    "east", 3, 7, "a1", 7_200_000_000, None, 12, 5, {1: 400, 2: 0}, {"unmatched": 3}, "hold"
)


def test_what_a_run_leaves_is_read_as_it_was_left(tmp_path):
    assert published(tmp_path) is None
    publish(tmp_path, DONE)
    assert published(tmp_path) == DONE


def test_a_newer_versions_document_is_not_guessed_at(tmp_path):
    (tmp_path / DOCUMENT).write_text(json.dumps({"format": 2}))
    with pytest.raises(FormatTooNew):
        published(tmp_path)


def test_the_pipeline_file_knows_every_column_that_rows_have_anyway():
    assert {name.lower() for name in TABLE_COLUMNS["unmatched"].names} == {*UNMATCHED_COLUMNS}
