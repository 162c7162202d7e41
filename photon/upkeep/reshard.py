"""Have another number of ledgers while everything runs, by hand or by policy: a new generation (L7).

Nothing is moved: ledgers that were before are sealed, and stay until gc drops them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from photon.pipeline.file import Pipeline
from photon.process.readable import counted
from photon.registry.generations import roll
from photon.registry.id_registry import IdRegistry
from photon.registry.register import MOST_LEDGERS, Register
from photon.registry.view import current_register
from photon.state.points import mark
from photon.upkeep.plans import Say, refuse_outdated, silent
from photon.upkeep.registry_state import RANGE_BYTES_PER_SECOND, busiest_bytes_per_second, size_of

# A ledger is to take at most this share of what a key range bears: ballots, and a burst, need the rest.
MOST_LOAD = 0.5


@dataclass(frozen=True, slots=True)
class Resharded:
    """The ledgers of the newest generation: before, wanted, and afterwards.

    `is_due`: another generation would do better, maybe of as many ledgers with other homes.
    `bytes_per_second`: of the busiest ledger before; None: nobody knows.
    """

    because: str
    generation: int
    ledgers_before: int
    ledgers_wanted: int
    ledgers: int
    applied: bool
    ids: int
    bytes: int
    bytes_per_second: float | None
    is_due: bool = False

    def sentence(self, pipeline: Pipeline, dry_run: bool = False) -> str:
        """The findings and the work, for people."""
        before, because = self.ledgers_before, self.because
        if self.applied:
            begin = "would begin" if dry_run else "from now on"
            return f"{counted(self.ledgers, 'ledger')} {begin} (before: {before}): {because}"
        if not self.is_due:
            return f"{counted(before, 'ledger')}: {because}"
        return (
            f"{counted(self.ledgers_wanted, 'ledger')} in place of {before}: {because}. To have that: "
            f"photon registry reshard {pipeline.typed} {self.ledgers_wanted}, a run with ledgers: "
            f"{self.ledgers_wanted} in its config, or registry.resharding.policy: apply"
        )

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Advice:
    """How many ledgers there should be, whose homes, and why; as it is where nothing is due."""

    ledgers: int
    homes: tuple[str, ...]
    because: str
    is_due: bool


@dataclass(frozen=True)
class ReshardPlan:
    """A generation to come, if it was asked for and is due, or the pipeline file has it so."""

    pipeline: Pipeline
    registry: IdRegistry
    register: Register  # when the plan was made
    homes: tuple[str, ...]
    expected: Resharded

    def apply(self, say: Say = silent) -> Resharded:
        """Begin the generation, unless another one has begun since (L7). PlanOutdated, RegistryUnavailable.

        RegistryUnavailable: it may have taken effect; ask again.
        """
        if not self.expected.applied:
            return self.expected
        registry, wanted = self.registry, self.expected.ledgers_wanted
        refuse_outdated(self.register, current_register(registry.positions))
        newest = len(self.register.generations) - 1
        generation = roll(registry.view, registry.positions, wanted, self.homes, after=newest)
        ledgers = registry.register.generations[generation].ledgers
        says = f"{counted(ledgers, 'ledger')} from now on, before: {self.expected.ledgers_before}"
        mark(self.pipeline, self.pipeline.datacenters, "reshard", says)
        return replace(self.expected, generation=generation, ledgers=ledgers)


def plan_reshard(pipeline: Pipeline, registry: IdRegistry, ledgers: int | None = None) -> ReshardPlan:
    """Plan so many ledgers from now on; without a number, what the policy of the pipeline file proposes.

    Asking for what is there changes nothing. RegistryUnavailable.
    """
    register, rate, size = registry.register, busiest_bytes_per_second(registry), size_of(registry.view)
    if ledgers is None:
        advice, is_wanted = _advice(pipeline, register, rate), pipeline.registry.resharding.policy == "apply"
    else:
        advice, is_wanted = _asked_for(pipeline, register, ledgers), True
    before, begins_now = register.generations[-1].ledgers, is_wanted and advice.is_due
    expected = Resharded(
        advice.because,
        len(register.generations) - 1 + begins_now,
        before,
        advice.ledgers,
        advice.ledgers if begins_now else before,
        begins_now,
        size.ids,
        size.bytes,
        rate,
        advice.is_due,
    )
    return ReshardPlan(pipeline, registry, register, advice.homes, expected)


def homes_of(pipeline: Pipeline, ledgers: int) -> tuple[str, ...]:
    """Ledgers dealt out to the datacenters evenly, each a range of hashes; pure."""
    names = list(pipeline.datacenters)
    return tuple(names[number * len(names) // ledgers] for number in range(ledgers))


def _advice(pipeline: Pipeline, register: Register, bytes_per_second: float | None) -> Advice:
    if pipeline.registry.resharding.policy == "off":
        now = register.generations[-1]
        return Advice(now.ledgers, now.homes, "registry.resharding.policy is off", False)
    return advise(pipeline, register, bytes_per_second)


def advise(pipeline: Pipeline, register: Register, bytes_per_second: float | None) -> Advice:
    """Advice by the policy: a ledger for each datacenter, and twice as many while one takes too much. Pure.

    Their number never falls by itself: a registry that takes little just now may be idle.
    """
    now = register.generations[-1]
    least, load = min(len(pipeline.datacenters), MOST_LEDGERS), (bytes_per_second or 0.0)
    ledgers, because = now.ledgers, "each ledger bears its load, and each datacenter is at home in one"
    if ledgers < least:
        ledgers, because = least, f"there are {least} datacenters, and each needs a ledger of its own"
    elif pipeline.registry.endpoints != "local":
        while load > MOST_LOAD * RANGE_BYTES_PER_SECOND and 2 * ledgers <= MOST_LEDGERS:
            ledgers, load = 2 * ledgers, load / 2
        if ledgers > now.ledgers:
            because = (
                f"the busiest ledger takes {bytes_per_second or 0:,.0f} bytes a second, more than half of the"
                f" {RANGE_BYTES_PER_SECOND:,} that AWS writes of one key range"
            )
    homes = homes_of(pipeline, ledgers)
    if ledgers == now.ledgers and set(now.homes) != set(homes):
        return Advice(ledgers, homes, "the homes of ledgers are not the pipeline's datacenters", True)
    return Advice(ledgers, homes, because, ledgers != now.ledgers)


def _asked_for(pipeline: Pipeline, register: Register, ledgers: int) -> Advice:
    now, homes = register.generations[-1], homes_of(pipeline, ledgers)
    is_due = (now.ledgers, now.homes) != (ledgers, homes)
    because = "as was asked for" if is_due else "as they are already"
    return Advice(ledgers, homes, because, is_due)
