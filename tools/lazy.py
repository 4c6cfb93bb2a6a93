"""Dataclasses that are written when they are first used: Python takes 0.4 ms to write the methods of one, and a run
uses a third of those it loads. For modules that every run loads; all others take `dataclasses` itself."""

import dataclasses
from collections.abc import Callable
from threading import RLock
from typing import TYPE_CHECKING

_ASKED_FOR = ("__dataclass_fields__", "__match_args__", "__init__")
"""What a class may be asked for while it has no instance. `__init__` is last: until it is written, nobody makes one."""
_writing = RLock()


def _dataclass(*, slots: bool, frozen: bool = False, weakref_slot: bool = False) -> Callable[[type], type]:
    """As `dataclasses.dataclass`, for a class without dataclasses among its bases. What is wrong with its fields is
    raised by its first use."""

    def unwritten(plain: type) -> type:
        made = _with_slots(plain, ("__weakref__",) if weakref_slot else ())

        def write() -> None:
            with _writing:
                if isinstance(vars(made)["__init__"], _Unwritten):
                    usual = dataclasses.dataclass(frozen=frozen, slots=slots, weakref_slot=weakref_slot)
                    _copy(usual(plain), made)

        for name in _ASKED_FOR:
            setattr(made, name, _Unwritten(name, write))
        return made

    return unwritten


class _Unwritten:
    """Stands in a class for an attribute that its first reader has written."""

    def __init__(self, name: str, write: Callable[[], None]) -> None:
        self._name = name
        self._write = write

    def __get__(self, instance: object, owner: type) -> object:
        self._write()
        return getattr(owner if instance is None else instance, self._name)


def _with_slots(plain: type, more: tuple[str, ...]) -> type:
    """The class with a slot for each of its fields and more: slots cannot be added later."""
    fields = tuple(plain.__annotations__)
    kept = {name: value for name, value in vars(plain).items() if name not in (*fields, "__dict__", "__weakref__")}
    made = type(plain)(plain.__name__, plain.__bases__, {**kept, "__slots__": (*fields, *more)})
    made.__qualname__ = plain.__qualname__
    return made


def _copy(written: type, made: type) -> None:
    """Gives a class what was written for its twin."""
    own = vars(made)
    for name in (*(name for name in vars(written) if name not in own), *_ASKED_FOR):
        setattr(made, name, vars(written)[name])


if TYPE_CHECKING:  # to a reader of types it is the one that it stands for
    from dataclasses import dataclass as dataclass
else:
    dataclass = _dataclass
