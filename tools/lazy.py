"""Dataclasses, regular expressions and modules that are built or loaded on first use, for modules that every run
imports.

Python takes 0.07 ms to generate one method of a dataclass, and some 240 classes have six each. Compiling a regular
expression takes 0.1 ms. Before its first request, a run uses only a few of them.
"""

import dataclasses
import gc
import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, AnyStr

_CONSTRUCTION_ATTRIBUTES = ("__dataclass_params__", "__dataclass_fields__", "__match_args__", "__init__")
"""Attributes that may be read from a class before it has an instance. `__init__` comes last, because no instance can be
created before it exists."""
_COMPARISON_ATTRIBUTES = ("__repr__", "__hash__", "__eq__")
_generation_lock = RLock()


def _dataclass(*, slots: bool, frozen: bool = False, weakref_slot: bool = False) -> Callable[[type], type]:
    """Like `dataclasses.dataclass`, for classes that define none of the generated methods and have no dataclass base.
    Errors in the fields are raised on first use."""
    making = dataclasses.dataclass(frozen=frozen, slots=slots, repr=False, eq=False)
    comparing = dataclasses.dataclass(unsafe_hash=frozen, slots=slots, init=False)

    def unwritten(plain: type) -> type:
        made = _copy_of_class(plain, (*plain.__annotations__, *(("__weakref__",) if weakref_slot else ())))
        _LazyAttribute.install(made, _CONSTRUCTION_ATTRIBUTES, lambda: making(_copy_of_class(plain)))
        _LazyAttribute.install(made, _COMPARISON_ATTRIBUTES, lambda: comparing(_copy_of_class(plain)))
        return made

    return unwritten


class _LazyAttribute:
    """A placeholder for a class attribute that is generated when first read."""

    def __init__(self, name: str, write: Callable[[], None]) -> None:
        self._name = name
        self.write = write

    def __get__(self, instance: object, owner: type) -> object:
        self.write()
        return getattr(owner if instance is None else instance, self._name)

    @classmethod
    def install(cls, lazy_class: type, names: tuple[str, ...], build_twin: Callable[[], type]) -> None:
        """Install placeholders on the class for the attributes that its generated twin will define."""

        def generate() -> None:
            with _generation_lock:
                if isinstance(vars(lazy_class)[names[-1]], cls):
                    found = vars(build_twin())
                    new = [name for name in found if name not in vars(lazy_class)]
                    for name in (*new, *names):
                        setattr(lazy_class, name, found[name])

        for name in names:
            setattr(lazy_class, name, cls(name, generate))


def _copy_of_class(original: type, slots: tuple[str, ...] | None = None) -> type:
    """Return a copy of the class, with slots for its fields. Slots cannot be added to an existing class."""
    excluded_names = ("__dict__", "__weakref__", *(slots or ()))
    namespace = {name: value for name, value in vars(original).items() if name not in excluded_names}
    namespace["__doc__"] = original.__doc__ or original.__name__  # else `dataclasses` generates one in 0.3 ms
    copy = type(original)(
        original.__name__, original.__bases__, namespace if slots is None else {**namespace, "__slots__": slots}
    )
    copy.__qualname__ = original.__qualname__
    return copy


class _Pattern:
    """A regular expression that is compiled on first use. An invalid pattern therefore raises its error only then."""

    def __init__(self, expression: AnyStr, flags: int = 0) -> None:
        self._compile = partial(re.compile, expression, flags)

    def __getattr__(self, name: str) -> object:
        found = getattr(self._compile(), name)
        setattr(self, name, found)  # later accesses bypass `__getattr__`
        return found


def build_pending() -> None:
    """Build everything that is still pending. Useful in a process that forks many others."""
    for each in gc.get_objects():
        if type(each) is _LazyAttribute:
            each.write()
        elif type(each) is _Pattern:
            for name in ("match", "search", "fullmatch", "finditer", "sub"):
                getattr(each, name)


if TYPE_CHECKING:  # type checkers see the originals
    from dataclasses import dataclass as dataclass

    regex = re.compile
else:
    dataclass, regex = _dataclass, _Pattern


def lazy_submodules(package: str) -> Callable[[str], ModuleType]:
    """Return a `__getattr__` for a package (PEP 562) that imports a submodule on first use: after `from ebbtide.tools
    import process`, `process.git.run_git()` imports `ebbtide.tools.process.git`."""

    def load(name: str) -> ModuleType:
        try:
            return import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{name}":
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None

    return load
