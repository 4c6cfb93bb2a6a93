"""Tuples that know from which other ones they have grown, and values that are derived once."""

import gc
from threading import Thread

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.messages import Conversation, Message, Text, User, extend_tuple
from ebbtide.agent.tokens.incremental import IncrementalFold, is_prefix, memoized

SAME = tuple(User((Text(str(number % 2)),)) for number in range(4))
"""Objects of which some are equal and none are the same."""


@given(st.lists(st.tuples(st.integers(0, 7), st.lists(st.sampled_from(SAME), max_size=3)), max_size=12))
def test_whatever_grows_from_whatever_is_told_apart_by_its_objects(steps: list[tuple[int, list[User]]]) -> None:
    made: list[tuple[User, ...]] = [(), SAME[:2]]
    for number, more in steps:
        before = made[number % len(made)]
        made.append(extend_tuple(before, *more))
        assert list(map(id, made[-1])) == list(map(id, (*before, *more)))
    for before in made:
        for now in made:
            assert is_prefix(before, now) == (list(map(id, before)) == list(map(id, now[: len(before)])))


def test_what_grows_twice_from_one_beginning_is_derived_apart() -> None:
    start = Conversation((SAME[0],))
    here, there = start.plus(SAME[1], SAME[2]), start.plus(SAME[3], SAME[2])
    seen: IncrementalFold[tuple[Message, ...], Message] = IncrementalFold(tuple, lambda seen, one: (*seen, one))
    assert seen.value_for(here.messages) == here.messages
    assert list(map(id, seen.value_for(there.messages))) == list(map(id, (SAME[0], SAME[3], SAME[2])))


def test_what_was_derived_from_an_object_is_known_as_long_as_it_lives_and_no_longer() -> None:
    asked: list[tuple[str, int]] = []

    @memoized
    def size(message: Message, unit: int) -> int:
        asked.append((message.text, unit))
        return len(message.text) // unit

    for number in range(1_000):  # each lives where the one before it lived
        message = User((Text("x" * number),))
        assert [size(message, 1), size(message, 1), size(message, 7), size(message, 7)] == [number, number] + [
            number // 7
        ] * 2
        assert len(asked) == 2 * (number + 1)
    equal, other = User((Text("y"),)), User((Text("y"),))
    assert size(equal, 1) == size(other, 1) == 1
    assert asked[-2:] == [("y", 1), ("y", 1)]


def test_nothing_is_kept_of_what_nobody_holds_any_more() -> None:
    made: list[object] = []

    class Kept:
        def __del__(self) -> None:
            made.remove(None)

    @memoized
    def keep(message: Message) -> Kept:
        made.append(None)
        return Kept()

    message = User((Text("x"),))
    keep(message)
    assert made == [None]
    del message
    gc.collect()
    assert made == []


def test_threads_derive_the_same_from_the_same_objects() -> None:
    @memoized
    def text(message: Message) -> str:
        return message.text

    wrong: list[str] = []

    def ask() -> None:
        for number in range(3_000):
            message = User((Text(str(number)),))
            wrong.extend(found for found in (text(message), text(message)) if found != str(number))

    threads = [Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
