"""Dataclasses, regular expressions and modules that are built or loaded on first use. Meant for modules that every run
imports.

Python takes 0.07 ms to generate one method of a dataclass, and about 300 classes have up to eight each. Compiling a
regular expression takes 0.1 ms. Before its first request, a run instantiates only half of the classes, and compares
instances of only a few.
"""

import dataclasses
import gc
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any, AnyStr, ClassVar, cast

_COMPARISON_ATTRIBUTES = ("__dataclass_params__", "__repr__", "__hash__", "__eq__")
_GENERIC_INITS = 8
"""Number of instances that are created before `__init__` is generated, which takes as long as 40 of them."""
_generation_lock = RLock()


def _dataclass(*, slots: bool, frozen: bool = False, weakref_slot: bool = False) -> Callable[[type], type]:
    """Like `dataclasses.dataclass`, for classes that define none of the generated methods themselves and have no
    dataclass base and no keyword-only fields. Errors in the fields are raised on first use."""
    read_fields = dataclasses.dataclass(init=False, repr=False, eq=False)
    comparing = dataclasses.dataclass(frozen=frozen, slots=slots, init=False)

    def build_class(plain: type) -> type:
        fields = _Fields(plain)
        return _copy_of_class(
            plain,
            {
                "__slots__": (*plain.__annotations__, *(("__weakref__",) if weakref_slot else ())),
                "__match_args__": fields.init_names,
                "__init__": _LazyInit(fields, frozen=frozen),
                **_LazyAttribute.group(("__dataclass_fields__",), lambda: vars(read_fields(_copy_of_class(plain, {})))),
                **_LazyAttribute.group(_COMPARISON_ATTRIBUTES, lambda: vars(comparing(_copy_of_class(plain, {})))),
                **(_FROZEN_METHODS if frozen else {}),
            },
        )

    return build_class


class _Fields:
    """The fields of a class. `dataclasses` takes five times as long to read them."""

    def __init__(self, plain: type) -> None:
        namespace = vars(plain)
        self.annotations = plain.__annotations__
        self._values = {name: namespace[name] for name in self.annotations if name in namespace}
        self.init_names = tuple(name for name in self.annotations if getattr(self._values.get(name), "init", True))
        self.has_post_init = hasattr(plain, "__post_init__")

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """Raises `ValueError` if a default could be changed."""
        defaults = {}
        for name, value in self._values.items():
            if type(value).__hash__ is None:
                raise ValueError(f"mutable default {type(value)} for field {name} is not allowed: use default_factory")
            default = value.default if isinstance(value, dataclasses.Field) else value
            if default is not dataclasses.MISSING:
                defaults[name] = default
        return defaults

    @cached_property
    def factories(self) -> Mapping[str, Callable[[], Any]]:
        """What creates the defaults of the other fields."""
        fields = {name: value for name, value in self._values.items() if isinstance(value, dataclasses.Field)}
        return {
            name: field.default_factory
            for name, field in fields.items()
            if field.default_factory is not dataclasses.MISSING
        }


def _make_init(fields: _Fields, class_name: str, *, frozen: bool) -> Callable[..., None]:
    """Create an `__init__` that sets the fields. `dataclasses` could only generate it together with the methods of
    frozen classes, which takes three times as long."""
    namespace: dict[str, Any] = {"_set_value": object.__setattr__, "_UNSET": object()}
    parameters, lines = ["self"], []
    for name in fields.annotations:
        parameter = value = name
        if name in fields.defaults:
            namespace[f"_default_{name}"] = fields.defaults[name]
            parameter = f"{name}=_default_{name}"
        elif name in fields.factories:
            namespace[f"_make_{name}"] = fields.factories[name]
            parameter, value = f"{name}=_UNSET", f"_make_{name}() if {name} is _UNSET else {name}"
        if name in fields.init_names:
            parameters.append(parameter)
        elif parameter == name:
            continue  # the class sets it later
        else:
            value = f"_default_{name}" if f"_default_{name}" in namespace else f"_make_{name}()"
        lines.append(f"_set_value(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if fields.has_post_init:
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n  " + "\n  ".join(lines or ["pass"]), namespace)
    init: Callable[..., None] = namespace["__init__"]
    init.__qualname__ = f"{class_name}.__init__"
    init.__annotations__ = {name: fields.annotations[name] for name in fields.init_names} | {"return": None}
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


_FROZEN_METHODS = {name: vars(_Frozen)[name] for name in ("__setattr__", "__delattr__", "__getstate__", "__setstate__")}


class _LazyAttribute:
    """A placeholder for a class attribute that is generated when first read, together with others."""

    _owner: type
    _name: str

    def __init__(self, names: tuple[str, ...], generate: Callable[[], Mapping[str, object]]) -> None:
        self._names = names
        self._generate = generate

    @classmethod
    def group(cls, names: tuple[str, ...], generate: Callable[[], Mapping[str, object]]) -> dict[str, object]:
        """Return a placeholder for each name. `generate` returns all of these attributes."""
        return {name: cls(names, generate) for name in names}

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type) -> object:
        self.write()
        found = vars(self._owner)[self._name]  # not that of a subclass, which may have called `super().__init__`
        bind = getattr(type(found), "__get__", None)
        return found if bind is None else bind(found, instance, owner)

    def write(self) -> None:
        """Replace the placeholders of the group by the attributes."""
        with _generation_lock:
            if isinstance(vars(self._owner)[self._names[-1]], _LazyAttribute):
                found = self._generate()
                for name in self._names:
                    setattr(self._owner, name, found[name])


class _LazyInit(_LazyAttribute):
    """A placeholder for `__init__`, which creates the first instances itself."""

    def __init__(self, fields: _Fields, *, frozen: bool) -> None:
        def generate() -> Mapping[str, object]:
            return {"__init__": _make_init(fields, self._owner.__qualname__, frozen=frozen)}

        super().__init__(("__init__",), generate)
        self._fields = fields
        self._use_count = 0

    def __get__(self, instance: object, owner: type) -> object:
        self._use_count += 1
        if instance is None or self._use_count > _GENERIC_INITS:
            return super().__get__(instance, owner)
        return partial(self._initialise, instance)

    def _initialise(self, instance: object, /, *arguments: object, **keywords: object) -> None:
        fields, names = self._fields, self._fields.init_names
        given = {**dict(zip(names, arguments, strict=False)), **keywords}
        created = {name: create() for name, create in fields.factories.items() if name not in given}
        values = {**fields.defaults, **created, **given}
        if len(given) != len(arguments) + len(keywords) or not given.keys() <= {*names} <= values.keys():
            self.write()
            vars(self._owner)["__init__"](instance, *arguments, **keywords)  # raises the usual error
        for name, value in values.items():
            object.__setattr__(instance, name, value)
        if fields.has_post_init:
            instance.__post_init__()  # type: ignore[attr-defined]  # has been checked


def _copy_of_class(original: type, attributes: Mapping[str, object]) -> type:
    """Copy the class, with further attributes. Slots cannot be added to an existing class."""
    excluded_names = ("__dict__", "__weakref__", *cast(Sequence[str], attributes.get("__slots__", ())))
    namespace = {name: value for name, value in vars(original).items() if name not in excluded_names}
    namespace["__doc__"] = original.__doc__ or original.__name__  # else `dataclasses` generates one in 0.3 ms
    copy = type(original)(original.__name__, original.__bases__, {**namespace, **attributes})
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
        if isinstance(candidate, _LazyAttribute):
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
