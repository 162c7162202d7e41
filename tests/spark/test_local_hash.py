"""Both engines hash ids alike, so that each knows the results that the other one keeps."""

from __future__ import annotations

import random
from typing import Any

import pytest

from photon.jobs.local.session import xxhash64

pytestmark = pytest.mark.spark


def test_texts_of_all_lengths_have_the_hash_that_spark_gives_them(session: Any) -> None:
    from pyspark.sql import functions as F

    chance = random.Random(68)
    texts = ["".join(chance.choices("aZ9:-äß漢🙂", k=length)) for length in range(100)]
    rows = session.createDataFrame([(text,) for text in [*texts, None]], "text string")
    found = rows.select("text", F.xxhash64("text").alias("hash")).collect()
    assert {row["text"]: row["hash"] for row in found} == {text: xxhash64(text) for text in [*texts, None]}
