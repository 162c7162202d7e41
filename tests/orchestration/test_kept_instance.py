"""A code server opens Dagster's instance once, and again when its settings change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import DagsterInstance, build_sensor_context
from dagster._core.instance.ref import InstanceRef
from dagster._serdes import deserialize_value, serialize_value

from photon.orchestration.kept_instance import KeptInstance


@pytest.fixture
def reference(tmp_path: Path) -> Iterator[InstanceRef]:
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield instance.get_ref()


def test_all_ticks_of_a_code_server_have_one_instance(reference: InstanceRef) -> None:
    kept = KeptInstance()
    first, second = (kept.of(build_sensor_context(instance_ref=one)) for one in (reference, again(reference)))
    assert first is second
    assert first.get_runs() == []


def test_a_tick_of_changed_settings_has_an_instance_of_its_own(reference: InstanceRef) -> None:
    kept = KeptInstance()
    before = kept.of(build_sensor_context(instance_ref=reference))
    changed = reference._replace(settings={"sensors": {"use_threads": True, "num_workers": 2}})
    after = kept.of(build_sensor_context(instance_ref=changed))
    assert after is not before
    assert after.get_settings("sensors") == {"use_threads": True, "num_workers": 2}


def test_an_instance_that_is_handed_in_is_taken_as_it_is() -> None:
    with DagsterInstance.ephemeral() as instance:
        assert KeptInstance().of(build_sensor_context(instance=instance)) is instance


def again(reference: InstanceRef) -> InstanceRef:
    """The same reference, as it comes with another request."""
    return deserialize_value(serialize_value(reference), InstanceRef)
