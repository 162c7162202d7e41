"""Each rule that is left out is noticed by the simulation of whole datacenters (docs/proof.md)."""

from __future__ import annotations

import pytest

from tests.simulation.whole.variants import SEEDS, VARIANTS, first_seed

# Noticed within some seconds, by this seed or one soon behind it.
AT_ONCE = {
    "an empty batch does not commit": 0,
    "whatever lies in the folder is committed": 0,
    "a claim without an answer counts as won": 0,
    "nobody takes orders": 7,
}


def must_be_noticed(name: str, first: int = 0) -> None:
    found = first_seed(VARIANTS[name], range(first, SEEDS))
    assert found is not None, f"none of {SEEDS} seeds notices it"
    print(f"noticed by seed {found[0]}: {found[1]}")


@pytest.mark.parametrize("name", VARIANTS)
def test_what_a_variant_replaces_is_where_it_says(name: str) -> None:
    with VARIANTS[name].in_force():
        pass


@pytest.mark.parametrize("name", AT_ONCE)
def test_a_rule_that_is_left_out_is_noticed_at_once(name: str) -> None:
    must_be_noticed(name, AT_ONCE[name])


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in AT_ONCE])
def test_a_rule_that_is_left_out_is_noticed(name: str) -> None:
    must_be_noticed(name)
