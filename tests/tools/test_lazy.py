import copy
import inspect
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from threading import Barrier
from typing import Any
from weakref import ref

import pytest

from tools import lazy

THREADS = 8


class Plain:
    """A place."""

    line: int
    path: str = "a.py"
    marks: tuple[int, ...] = field(default_factory=tuple, compare=False)

    def below(self) -> int:
        return self.line + 1


def made(of: type = Plain, *, frozen: bool = True, weakref_slot: bool = False) -> Any:
    copied = type(of.__name__, (), {name: value for name, value in vars(of).items() if name != "__dict__"})
    return lazy.dataclass(frozen=frozen, slots=True, weakref_slot=weakref_slot)(copied)


def written(kind: type) -> bool:
    """Whether the methods of a class are there, asked in a way that does not write them."""
    return "__repr__" in vars(kind)


def test_a_class_is_written_by_its_first_instance() -> None:
    place = made()
    assert not written(place)
    assert repr(place(3)) == "Plain(line=3, path='a.py', marks=())"
    assert written(place)


def test_a_class_that_is_only_asked_for_its_fields_is_written() -> None:
    assert [one.name for one in fields(made())] == ["line", "path", "marks"]
    assert made().__match_args__ == ("line", "path", "marks")
    assert list(inspect.signature(made()).parameters) == ["line", "path", "marks"]


@pytest.mark.parametrize("weakref_slot", [True, False])
@pytest.mark.parametrize("frozen", [True, False])
def test_it_has_what_the_usual_one_has(*, frozen: bool, weakref_slot: bool) -> None:
    copied = type("Plain", (), dict(vars(Plain)))
    usual: Any = dataclass(frozen=frozen, slots=True, weakref_slot=weakref_slot)(copied)
    ours = made(frozen=frozen, weakref_slot=weakref_slot)
    ours(1)
    assert {*vars(ours)} == {*vars(usual)}
    assert ours.__slots__ == usual.__slots__
    assert ours.__doc__ == usual.__doc__


def test_its_instances_are_values() -> None:
    place = made()
    one = place(3, marks=(1, 2))
    assert one == place(3)
    assert hash(one) == hash(place(3))
    assert one != place(4)
    assert one != made()(3)
    assert replace(one, line=4) == place(4)
    assert asdict(one) == {"line": 3, "path": "a.py", "marks": (1, 2)}
    assert copy.deepcopy(one) == one
    assert one.below() == 4
    match one:
        case place(line, path):
            assert (line, path) == (3, "a.py")
    with pytest.raises(FrozenInstanceError):
        one.line = 4
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'line'"):
        place()


def test_one_with_a_slot_for_it_can_be_referred_to_weakly() -> None:
    one = made(weakref_slot=True)(3)
    assert ref(one)() is one
    with pytest.raises(TypeError, match="cannot create weak reference"):
        ref(made()(3))


def test_one_that_is_not_frozen_can_be_changed() -> None:
    one = made(frozen=False)(3)
    one.line = 4
    assert one.line == 4
    with pytest.raises(AttributeError):
        one.column = 1


def test_threads_that_use_it_first_at_once_get_whole_instances() -> None:
    place, start = made(), Barrier(THREADS)

    def first(number: int) -> object:
        start.wait()
        return place(number)

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(first, range(THREADS)))
    assert found == [place(number) for number in range(THREADS)]


def test_what_is_wrong_with_its_fields_is_raised_by_its_first_use() -> None:
    class Wrong:
        marks: list[int] = []  # noqa: RUF012  # what is to be refused

    kind = made(Wrong)
    with pytest.raises(ValueError, match="mutable default"):
        kind()
    with pytest.raises(ValueError, match="mutable default"):
        kind()
