"""What a server wants the user to fill in, as questions one after the other. Pure: schemas in, questions and values
out.

A form is flat: texts, numbers, yes or no, and choices. What a server writes is data: it is shown, never obeyed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tools.mcp.client_handlers import FieldValue
from tools.schema import mismatches

FieldKind: TypeAlias = Literal["text", "integer", "number", "flag", "choice", "choices"]

LEAVE_OUT, DECLINE = "leave it out", "do not answer the server"
"""Answers that are offered besides those of the field."""

_KINDS: Mapping[object, FieldKind] = {"string": "text", "integer": "integer", "number": "number", "boolean": "flag"}
_YES, _NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class FormChoice:
    value: str
    title: str


@dataclass(frozen=True, slots=True)
class FormField:
    """One value that is asked for."""

    name: str
    title: str
    description: str
    kind: FieldKind
    required: bool
    schema: Mapping[str, object]
    choices: tuple[FormChoice, ...] = ()
    default: FieldValue = None

    @property
    def options(self) -> tuple[str, ...]:
        """Answers to choose from."""
        own = (_YES, _NO) if self.kind == "flag" else tuple(choice.title for choice in self.choices)
        if self.kind == "choices":
            own = ()
        suggested = (f"{shown(self.default, self)}",) if self.default is not None and not own else ()
        return (*suggested, *own, *(() if self.required else (LEAVE_OUT,)), DECLINE)

    def question(self) -> str:
        """What the user is asked, a line or a few."""
        name = self.title if self.title == self.name else f"{self.title} ({self.name})"
        hints = {
            "text": "",
            "integer": "a whole number",
            "number": "a number",
            "flag": "",
            "choice": "",
            "choices": f"any of {', '.join(choice.title for choice in self.choices)}, with commas in between",
        }
        told = [self.description, hints[self.kind], *_limits(self.schema)]
        if self.default is not None:
            told.append(f"usually {shown(self.default, self)}")
        return ": ".join(filter(None, (name, "; ".join(filter(None, told)))))

    def value(self, answer: str) -> FieldValue:
        """What the user's words stand for. Raises `ValueError` with what is wrong with them."""
        found = self._read(answer)
        problems = mismatches(list(found) if isinstance(found, tuple) else found, _checkable(self.schema))
        if problems:
            raise ValueError(problems[0])
        return found

    def _read(self, answer: str) -> FieldValue:
        match self.kind:
            case "text":
                return answer
            case "integer" | "number":
                return _number(answer, whole=self.kind == "integer")
            case "flag":
                if answer.lower() not in (_YES, _NO, "true", "false"):
                    raise ValueError(f"`{answer}` is neither `{_YES}` nor `{_NO}`")
                return answer.lower() in (_YES, "true")
            case "choice":
                return self._chosen(answer)
            case "choices":
                return tuple(self._chosen(each.strip()) for each in answer.split(",") if each.strip())

    def _chosen(self, answer: str) -> str:
        for choice in self.choices:
            if answer in (choice.title, choice.value):
                return choice.value
        raise ValueError(f"`{answer}` is none of {', '.join(choice.title for choice in self.choices)}")


def fields_of(schema: Mapping[str, object]) -> tuple[FormField, ...]:
    """The fields of a form, in order. Raises `ValueError` when it asks for what no form can hold."""
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    if not isinstance(properties, Mapping) or not isinstance(required, Sequence):
        raise ValueError("its form has no fields that can be read")
    return tuple(_field(str(name), inner, name in required) for name, inner in properties.items())


def shown(value: FieldValue, field: FormField) -> str:
    """A value as the user would write it."""
    match value:
        case bool():
            return _YES if value else _NO
        case str():
            return next((choice.title for choice in field.choices if choice.value == value), value)
        case None:
            return ""
        case int() | float():
            return str(value)
        case _:
            return ", ".join(shown(each, field) for each in value)


def _field(name: str, schema: object, required: bool) -> FormField:
    if not isinstance(schema, Mapping):
        raise ValueError(f"its form asks for `{name}` in a way that cannot be read")
    kind, choices = _kind(name, schema)
    title, description = (str(schema.get(key) or "") for key in ("title", "description"))
    default = schema.get("default")
    if isinstance(default, list):
        default = tuple(map(str, default))
    sound = default if isinstance(default, str | int | float | bool | tuple) else None
    return FormField(name, title or name, description, kind, required, schema, choices, sound)


def _kind(name: str, schema: Mapping[str, object]) -> tuple[FieldKind, tuple[FormChoice, ...]]:
    choices = _choices(schema)
    if choices:
        return "choice", choices
    items = schema.get("items")
    if schema.get("type") == "array" and isinstance(items, Mapping):
        choices = _choices(items)
        if choices:
            return "choices", choices
    kind = _KINDS.get(schema.get("type"))
    if kind is None:
        raise ValueError(f"its form asks for `{name}`, which is not a text, a number, a choice, or yes or no")
    return kind, ()


def _choices(schema: Mapping[str, object]) -> tuple[FormChoice, ...]:
    values = schema.get("enum")
    if isinstance(values, list):
        names = schema.get("enumNames")
        titles = names if isinstance(names, list) and len(names) == len(values) else values
        return tuple(FormChoice(str(value), str(title)) for value, title in zip(values, titles, strict=True))
    for key in ("oneOf", "anyOf"):
        found = schema.get(key)
        if isinstance(found, list) and all(isinstance(each, Mapping) and "const" in each for each in found):
            return tuple(FormChoice(str(each["const"]), str(each.get("title") or each["const"])) for each in found)
    return ()


def _number(answer: str, *, whole: bool) -> int | float:
    try:
        return int(answer) if whole else float(answer)
    except ValueError:
        raise ValueError(f"`{answer}` is not a {'whole ' if whole else ''}number") from None


def _limits(schema: Mapping[str, object]) -> list[str]:
    told = {
        "minimum": "at least {}",
        "maximum": "at most {}",
        "minLength": "at least {} characters",
        "maxLength": "at most {} characters",
        "minItems": "at least {} of them",
        "maxItems": "at most {} of them",
    }
    limits = [text.format(schema[key]) for key, text in told.items() if isinstance(schema.get(key), int | float)]
    form = schema.get("format")
    return [*limits, f"as {form}"] if isinstance(form, str) else limits


def _checkable(schema: Mapping[str, object]) -> Mapping[str, object]:
    """Only what says which values are right."""
    return {key: value for key, value in schema.items() if key not in ("title", "description", "default", "enumNames")}
