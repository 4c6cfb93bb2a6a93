import copy
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from inspect import isfunction
from threading import Barrier
from typing import Any

import pytest

from ebbtide.tools import lazy
from tests.kit.commands import ROOT

THREADS = 8


class Plain:
    """A place."""

    line: int
    path: str = "a.py"
    marks: tuple[int, ...] = field(default_factory=tuple, compare=False)

    def below(self) -> int:
        return self.line + 1


def made(of: type = Plain, *, frozen: bool = True) -> Any:
    return lazy.dataclass(frozen=frozen, slots=True)(copied(of))


def copied(of: type) -> Any:  # the same
    return type(of.__name__, (), dict(vars(of)))


def written(kind: type) -> set[str]:
    """Which methods of a class are there, asked in a way that writes none."""
    return {name for name in ("__init__", "__repr__", "__eq__", "__hash__") if isfunction(vars(kind)[name])}


def test_methods_are_written_by_their_first_use() -> None:
    place = made()
    assert written(place) == set()
    one = place(3)
    assert written(place) == set()
    assert repr(one) == "Plain(line=3, path='a.py', marks=())"
    assert written(place) == {"__repr__", "__eq__", "__hash__"}


def test_an_init_is_written_once_there_are_several_instances() -> None:
    place = made()
    places = [place(line, marks=(line,)) for line in range(lazy._GENERIC_INITS)]
    assert written(place) == set()
    places.append(place(lazy._GENERIC_INITS, marks=(lazy._GENERIC_INITS,)))
    assert written(place) == {"__init__"}
    assert [(one.line, one.path, one.marks) for one in places] == [(n, "a.py", (n,)) for n in range(len(places))]


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [((), {}), ((1, "b", (), 4), {}), ((1,), {"line": 2}), ((1,), {"column": 2}), ((), {"path": "b"})],
)
def test_wrong_arguments_are_refused_as_usual(arguments: tuple[object, ...], keywords: dict[str, object]) -> None:
    usual: Any = dataclass(frozen=True, slots=True)(copied(Plain))
    with pytest.raises(TypeError) as expected:
        usual(*arguments, **keywords)
    place = made()
    for _ in range(2):  # by the placeholder, and by the method that is written then
        with pytest.raises(TypeError) as caught:
            place(*arguments, **keywords)
        assert str(caught.value) == str(expected.value)


@pytest.mark.parametrize("use", [hash, str, lambda one: one == one, lambda one: one != one])  # to compare
def test_the_first_comparison_is_the_usual_one(use: Callable[[object], object]) -> None:
    usual = dataclass(frozen=True, slots=True)(copied(Plain))
    assert use(made()(3)) == use(usual(3))


def test_a_class_that_is_only_asked_for_its_fields_is_written() -> None:
    assert [one.name for one in fields(made())] == ["line", "path", "marks"]
    assert made().__match_args__ == ("line", "path", "marks")
    assert list(inspect.signature(made()).parameters) == ["line", "path", "marks"]


@pytest.mark.parametrize(
    "options", [{"frozen": True}, {"frozen": False}, {"frozen": True, "weakref_slot": True}], ids=str
)
def test_it_has_what_the_usual_one_has(options: dict[str, bool]) -> None:
    usual: Any = dataclass(slots=True, **options)(copied(Plain))
    ours: Any = lazy.dataclass(slots=True, **options)(copied(Plain))
    assert str(ours(1)) == str(usual(1))
    assert (ours.__hash__ is None) == (usual.__hash__ is None)
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


def test_a_field_cannot_be_deleted() -> None:
    one = made()(3)
    with pytest.raises(FrozenInstanceError):
        del one.line
    assert one.line == 3


class Counted:
    """A count, and what follows from it."""

    names: list[str] = field(default_factory=list)
    count: int = field(init=False)
    limit: int = field(init=False, default=8)
    seen: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", len(self.names))


@pytest.mark.parametrize("frozen", [True, False])
def test_fields_that_no_caller_sets_have_their_values(frozen: bool) -> None:
    kind, usual = made(Counted, frozen=frozen), dataclass(frozen=frozen, slots=True)(copied(Counted))
    first, second = kind(["a"]), kind()
    assert not written(kind)
    assert str(first) == str(usual(["a"])) == "Counted(names=['a'], count=1, limit=8, seen=[])"
    assert first.seen is not second.seen
    assert kind.__init__.__annotations__ == usual.__init__.__annotations__


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


def test_a_regular_expression_is_compiled_by_its_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def spy(expression: str, flags: int) -> re.Pattern[str]:
        compiled.append(expression)
        return original(expression, flags)

    original = re.compile
    monkeypatch.setattr(re, "compile", spy)
    word = lazy.regex(r"[A-Z]\w*", re.IGNORECASE)
    assert compiled == []
    assert [word.findall("one Two"), word.findall("three")] == [["one", "Two"], ["three"]]
    assert compiled == [r"[A-Z]\w*"]
    assert word.sub("x", "one Two") == "x x"
    assert word.pattern == r"[A-Z]\w*"


def test_a_wrong_regular_expression_is_raised_by_its_first_use() -> None:
    wrong = lazy.regex("(")
    with pytest.raises(re.error, match="unterminated subpattern"):
        wrong.search("text")


def test_all_is_made_at_once_for_a_process_that_others_are_forked_from() -> None:
    # In a process of its own: here there are classes that cannot be written.
    asked = "from ebbtide.tools import base, lazy; lazy.build_pending(); print(vars(base.Result)['__eq__'])"
    done = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("<function ")


def test_a_subclass_calls_the_generated_init_however_many_instances_there_are() -> None:
    @lazy.dataclass(slots=True)
    class Base:
        x: int
        y: int = 2

    class Derived(Base):
        def __init__(self, z: int) -> None:
            super().__init__(x=z + 1)

    assert [(made.x, made.y) for made in map(Derived, range(20))] == [(number + 1, 2) for number in range(20)]
