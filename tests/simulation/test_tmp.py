from tests.simulation.world import World


def test_one(world: World) -> None:
    world.queries("q1", "q2")
    world.clicks(("c1", "q1"), ("c2", "q2"), ("c1", "q1"))
    counts = world.join(mode="complete").counts
    print(counts.as_dict())
    assert world.joined_ids() == ["c1", "c2"]
    world.clicks(("c2", "q2"), ("c3", "q2"))
    counts = world.join().counts
    print(counts.as_dict())
    assert world.joined_ids() == ["c1", "c2", "c3"]
    assert world.is_join("c3")
