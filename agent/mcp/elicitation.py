"""Forms that MCP servers ask the user to fill in, presented as one question with a line per field, and a question for
each field to change. Pure: schemas in, questions and values out.

Forms are flat: strings, numbers, booleans and choices. Text from a server is data, shown but never obeyed."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ebbtide.tools.mcp.client_handlers import FieldValue
from ebbtide.tools.mcp.texts import one_line
from ebbtide.tools.schema import mismatches

FieldKind: TypeAlias = Literal["text", "integer", "number", "flag", "choice", "choices"]

LEAVE_OUT, DECLINE, SEND = "leave it out", "do not answer the server", "send it"
"""Answers offered in addition to those of the field."""

MAX_FIELDS, MAX_CHOICES = 50, 200
"""Maximum number of fields in a form, and of choices in a field."""

_KINDS: Mapping[object, FieldKind] = {"string": "text", "integer": "integer", "number": "number", "boolean": "flag"}
_YES, _NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class FormChoice:
    value: str
    title: str


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form."""

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
        suggested = (f"{field_value_text(self.default, self)}",) if self.default is not None and not own else ()
        return (*suggested, *own, *(() if self.required else (LEAVE_OUT,)), DECLINE)

    @property
    def label(self) -> str:
        return self.title if self.title == self.name else f"{self.title} ({self.name})"

    def question(self) -> str:
        """The question for the user, one or several lines."""
        name = self.label
        hints = {
            "text": "",
            "integer": "a whole number",
            "number": "a number",
            "flag": "",
            "choice": "",
            "choices": f"any of {', '.join(choice.title for choice in self.choices)}, separated by commas",
        }
        told = [self.description, hints[self.kind], *_limits(self.schema)]
        if self.default is not None:
            told.append(f"usually {field_value_text(self.default, self)}")
        return ": ".join(filter(None, (name, "; ".join(filter(None, told)))))

    def value(self, answer: str) -> FieldValue:
        """Parse the user's answer. Raises `ValueError` if it is invalid."""
        found = self._parse_answer(answer)
        problems = mismatches(list(found) if isinstance(found, tuple) else found, _checkable(self.schema))
        if problems:
            raise ValueError(problems[0])
        return found

    def _parse_answer(self, answer: str) -> FieldValue:
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
                return self._choice_value(answer)
            case "choices":
                return tuple(self._choice_value(each.strip()) for each in answer.split(",") if each.strip())

    def _choice_value(self, answer: str) -> str:
        for choice in self.choices:
            if answer in (choice.title, choice.value):
                return choice.value
        raise ValueError(f"`{answer}` is not one of {', '.join(choice.title for choice in self.choices)}")


@dataclass(frozen=True, slots=True)
class Form:
    """All fields of a form, with the values so far."""

    fields: tuple[FormField, ...]
    values: Mapping[str, FieldValue]
    asked: frozenset[str] = frozenset()
    """Names of the fields that the user has been asked about."""
    problem: str = ""
    """Why the user's last input was rejected."""

    @property
    def _next(self) -> FormField | None:
        """The field to ask about next; required fields come first."""
        left = [field for field in self.fields if field.name not in self.asked]
        missing = [field for field in left if field.required and field.name not in self.values]
        return next(iter((*missing, *left)), None)

    @property
    def options(self) -> tuple[str, ...]:
        """The options: the next field, sending if nothing is missing, and each field with its value."""
        onward = (f"fill in {self._next.label}",) if self._next is not None else ()
        is_whole = all(field.name in self.values for field in self.fields if field.required)
        return (*onward, *((SEND,) if is_whole else ()), *map(self._row, self.fields), DECLINE)

    def question(self) -> str:
        problem = f"Invalid: {self.problem}.\n" if self.problem else ""
        return f"{problem}Choose what to fill in, or write several at once: {self.fields[0].name}=… and so on."

    def field_for(self, answer: str) -> FormField | None:
        """The field that an option stands for."""
        if self._next is not None and answer == f"fill in {self._next.label}":
            return self._next
        return next((field for field in self.fields if answer == self._row(field)), None)

    def with_value(self, field: FormField, value: FieldValue) -> "Form":
        """Return the form with a value set; None removes it."""
        others = {name: kept for name, kept in self.values.items() if name != field.name}
        values = others if value is None else {**others, field.name: value}
        return Form(self.fields, values, self.asked | {field.name})

    def with_assignments(self, answer: str) -> "Form":
        """Return the form with all `NAME=VALUE` assignments applied, or with the problem."""
        form, known = self, {field.name: field for field in self.fields}
        try:
            for word in shlex.split(answer):
                name, equals, text = word.partition("=")
                if not equals or name not in known:
                    raise ValueError(f"`{word}` is not a `NAME=VALUE` for a field")
                form = form.with_value(known[name], known[name].value(text))
        except ValueError as error:
            return replace(form, problem=str(error))
        return form

    def _row(self, field: FormField) -> str:
        empty = "(required)" if field.required else "(empty)"
        held = field_value_text(self.values[field.name], field) if field.name in self.values else empty
        return f"{field.label}: {held}"


def form_of(fields: tuple[FormField, ...]) -> Form:
    """The form with the server's default values."""
    return Form(fields, {field.name: field.default for field in fields if field.default is not None})


def fields_of(schema: Mapping[str, object]) -> tuple[FormField, ...]:
    """The fields of a form, in order. Raises `ValueError` for an unsupported schema."""
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    if not isinstance(properties, Mapping) or not isinstance(required, Sequence):
        raise ValueError("its form has no valid fields")
    if len(properties) > MAX_FIELDS:
        raise ValueError(f"its form has {len(properties):,} fields, more than the limit of {MAX_FIELDS}")
    return tuple(_field(str(name), inner, name in required) for name, inner in properties.items())


def field_value_text(value: FieldValue, field: FormField) -> str:
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
            return ", ".join(field_value_text(each, field) for each in value)


def _field(name: str, schema: object, required: bool) -> FormField:
    if not isinstance(schema, Mapping):
        raise ValueError(f"its form asks for `{one_line(name)}` with an invalid schema")
    if one_line(name) != name:
        raise ValueError(f"its form asks for `{one_line(name)}`, which is not a single-line name")
    kind, choices = _kind(name, schema)
    title, description = (one_line(str(schema.get(key) or "")) for key in ("title", "description"))
    if len(choices) > MAX_CHOICES:
        raise ValueError(
            f"its form asks for `{name}` with {len(choices):,} choices, more than the limit of {MAX_CHOICES}"
        )
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
        return tuple(FormChoice(str(value), one_line(str(title))) for value, title in zip(values, titles, strict=True))
    for key in ("oneOf", "anyOf"):
        found = schema.get(key)
        if isinstance(found, list) and all(isinstance(each, Mapping) and "const" in each for each in found):
            return tuple(
                FormChoice(str(each["const"]), one_line(str(each.get("title") or each["const"]))) for each in found
            )
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
    """The part of the schema that restricts values."""
    return {key: value for key, value in schema.items() if key not in ("title", "description", "default", "enumNames")}
