"""Dataclasses, regular expressions and modules that are built or loaded on first use. Meant for modules that every run
imports.

Python takes 0.07 ms to generate one method of a dataclass, and about 300 classes have up to eight each. Compiling a
regular expression takes 0.1 ms. Before its first request, a run instantiates only half of the classes, and compares
instances of only a few.
"""

import dataclasses
import gc
import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any, AnyStr, ClassVar

_FIELD_ATTRIBUTES = ("__match_args__", "__dataclass_fields__")
_COMPARISON_ATTRIBUTES = ("__dataclass_params__", "__repr__", "__hash__", "__eq__")
_generation_lock = RLock()


def _dataclass(*, slots: bool, frozen: bool = False, weakref_slot: bool = False) -> Callable[[type], type]:
    """Like `dataclasses.dataclass`, for classes that define none of the generated methods themselves and have no
    dataclass base and no keyword-only fields. Errors in the fields are raised on first use."""
    read_fields = dataclasses.dataclass(init=False, repr=False, eq=False)
    comparing = dataclasses.dataclass(frozen=frozen, slots=slots, init=False)

    def build_class(plain: type) -> type:
        made = _copy_of_class(plain, (*plain.__annotations__, *(("__weakref__",) if weakref_slot else ())))
        if frozen:
            for name in ("__setattr__", "__delattr__", "__getstate__", "__setstate__"):
                setattr(made, name, vars(_Frozen)[name])
        _LazyAttribute.install(made, _FIELD_ATTRIBUTES, lambda: vars(read_fields(_copy_of_class(plain))))
        _LazyAttribute.install(made, ("__init__",), lambda: {"__init__": _make_init(made, frozen=frozen)})
        _LazyAttribute.install(made, _COMPARISON_ATTRIBUTES, lambda: vars(comparing(_copy_of_class(plain))))
        return made

    return build_class


def _make_init(lazy_class: type, *, frozen: bool) -> Callable[..., None]:
    """Create an `__init__` that sets the fields. `dataclasses` could only generate it together with the methods of
    frozen classes, which takes three times as long."""
    namespace: dict[str, Any] = {"_set_value": object.__setattr__, "_UNSET": object()}
    parameters, lines = ["self"], []
    for field in dataclasses.fields(lazy_class):
        name = value = field.name
        parameter = name
        if field.default is not dataclasses.MISSING:
            namespace[f"_default_{name}"] = field.default
            parameter = f"{name}=_default_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            namespace[f"_make_{name}"] = field.default_factory
            parameter, value = f"{name}=_UNSET", f"_make_{name}() if {name} is _UNSET else {name}"
        if field.init:
            parameters.append(parameter)
        elif parameter == name:
            continue  # the class sets it later
        else:
            value = f"_default_{name}" if f"_default_{name}" in namespace else f"_make_{name}()"
        lines.append(f"_set_value(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(lazy_class, "__post_init__"):
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n  " + "\n  ".join(lines or ["pass"]), namespace)
    init: Callable[..., None] = namespace["__init__"]
    init.__qualname__ = f"{lazy_class.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in dataclasses.fields(lazy_class) if field.init} | {
        "return": None
    }
    return init


class _Frozen:
    """The methods of a frozen class with slots. They are the same for all such classes."""

    __dataclass_fields__: ClassVar[dict[str, "dataclasses.Field[Any]"]]

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __getstate__(self) -> list[object]:
        return [getattr(self, name) for name in self.__dataclass_fields__]

    def __setstate__(self, state: list[object]) -> None:
        for name, value in zip(self.__dataclass_fields__, state, strict=True):
            object.__setattr__(self, name, value)


class _LazyAttribute:
    """A placeholder for a class attribute that is generated when first read."""

    def __init__(self, name: str, write: Callable[[], None]) -> None:
        self._name = name
        self.write = write

    def __get__(self, instance: object, owner: type) -> object:
        self.write()
        return getattr(owner if instance is None else instance, self._name)

    @classmethod
    def install(
        cls, lazy_class: type, names: tuple[str, ...], generate_attributes: Callable[[], Mapping[str, object]]
    ) -> None:
        """Install placeholders on the class for the attributes that will be generated."""

        def generate() -> None:
            with _generation_lock:
                if isinstance(vars(lazy_class)[names[-1]], cls):
                    found = generate_attributes()
                    for name in names:
                        setattr(lazy_class, name, found[name])

        for name in names:
            setattr(lazy_class, name, cls(name, generate))


def _copy_of_class(original: type, slots: tuple[str, ...] | None = None) -> type:
    """Copy the class, with slots for its fields. Slots cannot be added to an existing class."""
    excluded_names = ("__dict__", "__weakref__", *(slots or ()))
    namespace = {name: value for name, value in vars(original).items() if name not in excluded_names}
    namespace["__doc__"] = original.__doc__ or original.__name__  # else `dataclasses` generates one in 0.3 ms
    copy = type(original)(
        original.__name__, original.__bases__, namespace if slots is None else {**namespace, "__slots__": slots}
    )
    copy.__qualname__ = original.__qualname__
    return copy


class _LazyPattern:
    """A regular expression that is compiled on first use. Only then does an invalid pattern raise an error."""

    def __init__(self, expression: AnyStr, flags: int = 0) -> None:
        self._compile = partial(re.compile, expression, flags)

    def __getattr__(self, name: str) -> object:
        found = getattr(self._compile(), name)
        setattr(self, name, found)  # later accesses bypass `__getattr__`
        return found


def build_pending() -> None:
    """Build everything that is still pending. Useful in a process that forks many others."""
    for candidate in gc.get_objects():
        if type(candidate) is _LazyAttribute:
            candidate.write()
        elif type(candidate) is _LazyPattern:
            for name in ("match", "search", "fullmatch", "finditer", "sub"):
                getattr(candidate, name)


if TYPE_CHECKING:  # type checkers see the originals
    from dataclasses import dataclass as dataclass

    regex = re.compile
else:
    dataclass, regex = _dataclass, _LazyPattern


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
