"""Dataclasses and regular expressions that are built on first use, for modules that every run loads.

Python takes 0.07 ms to generate one dataclass method, and some 240 classes have six each. Compiling a regular
expression takes 0.1 ms. A run uses few of them before its first request.
"""

import dataclasses
import gc
import re
from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, AnyStr

_MAKING = ("__dataclass_params__", "__dataclass_fields__", "__match_args__", "__init__")
"""Attributes that a class may be asked for before it has an instance. `__init__` comes last: no instance can be created
before it is written."""
_COMPARING = ("__repr__", "__hash__", "__eq__")
_writing = RLock()


def _dataclass(*, slots: bool, frozen: bool = False, weakref_slot: bool = False) -> Callable[[type], type]:
    """Like `dataclasses.dataclass`, for a class that defines none of the generated methods and has no dataclass base.
    Errors in its fields are raised on first use."""
    making = dataclasses.dataclass(frozen=frozen, slots=slots, repr=False, eq=False)
    comparing = dataclasses.dataclass(unsafe_hash=frozen, slots=slots, init=False)

    def unwritten(plain: type) -> type:
        made = _rebuilt(plain, (*plain.__annotations__, *(("__weakref__",) if weakref_slot else ())))
        _Unwritten.stand_in(made, _MAKING, lambda: making(_rebuilt(plain)))
        _Unwritten.stand_in(made, _COMPARING, lambda: comparing(_rebuilt(plain)))
        return made

    return unwritten


class _Unwritten:
    """A placeholder for a class attribute that is generated when first read."""

    def __init__(self, name: str, write: Callable[[], None]) -> None:
        self._name = name
        self.write = write

    def __get__(self, instance: object, owner: type) -> object:
        self.write()
        return getattr(owner if instance is None else instance, self._name)

    @classmethod
    def stand_in(cls, made: type, names: tuple[str, ...], twin: Callable[[], type]) -> None:
        """Install placeholders on the class for the names that its twin will define."""

        def write() -> None:
            with _writing:
                if isinstance(vars(made)[names[-1]], cls):
                    found = vars(twin())
                    new = [name for name in found if name not in vars(made)]
                    for name in (*new, *names):
                        setattr(made, name, found[name])

        for name in names:
            setattr(made, name, cls(name, write))


def _rebuilt(plain: type, slots: tuple[str, ...] | None = None) -> type:
    """Return a copy of the class, with slots for its fields, since slots cannot be added later."""
    left_out = ("__dict__", "__weakref__", *(slots or ()))
    kept = {name: value for name, value in vars(plain).items() if name not in left_out}
    kept["__doc__"] = plain.__doc__ or plain.__name__  # otherwise `dataclasses` generates one, which takes 0.3 ms
    again = type(plain)(plain.__name__, plain.__bases__, kept if slots is None else {**kept, "__slots__": slots})
    again.__qualname__ = plain.__qualname__
    return again


class _Pattern:
    """A regular expression that is compiled on first use. An invalid pattern raises then."""

    def __init__(self, expression: AnyStr, flags: int = 0) -> None:
        self._compile = partial(re.compile, expression, flags)

    def __getattr__(self, name: str) -> object:
        found = getattr(self._compile(), name)
        setattr(self, name, found)  # later calls go directly to the compiled pattern
        return found


def write_all() -> None:
    """Build everything that is still pending, for a process that forks many others."""
    for each in gc.get_objects():
        if type(each) is _Unwritten:
            each.write()
        elif type(each) is _Pattern:
            for name in ("match", "search", "fullmatch", "finditer", "sub"):
                getattr(each, name)


if TYPE_CHECKING:  # type checkers see the originals
    from dataclasses import dataclass as dataclass

    regex = re.compile
else:
    dataclass, regex = _dataclass, _Pattern
