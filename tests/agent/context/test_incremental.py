"""Tuples that know from which other ones they have grown."""

from hypothesis import given
from hypothesis import strategies as st

from agent.context.incremental import Growing, begins
from agent.messages import Conversation, Message, Text, User, extended

SAME = tuple(User((Text(str(number % 2)),)) for number in range(4))
"""Objects of which some are equal and none are the same."""


@given(st.lists(st.tuples(st.integers(0, 7), st.lists(st.sampled_from(SAME), max_size=3)), max_size=12))
def test_whatever_grows_from_whatever_is_told_apart_by_its_objects(steps: list[tuple[int, list[User]]]) -> None:
    made: list[tuple[User, ...]] = [(), SAME[:2]]
    for number, more in steps:
        before = made[number % len(made)]
        made.append(extended(before, *more))
        assert list(map(id, made[-1])) == list(map(id, (*before, *more)))
    for before in made:
        for now in made:
            assert begins(before, now) == (list(map(id, before)) == list(map(id, now[: len(before)])))


def test_what_grows_twice_from_one_beginning_is_derived_apart() -> None:
    start = Conversation((SAME[0],))
    here, there = start.plus(SAME[1], SAME[2]), start.plus(SAME[3], SAME[2])
    seen: Growing[tuple[Message, ...], Message] = Growing(tuple, lambda seen, one: (*seen, one))
    assert seen.of(here.messages) == here.messages
    assert list(map(id, seen.of(there.messages))) == list(map(id, (SAME[0], SAME[3], SAME[2])))
