"""What a server wants the user to fill in, as one question with a line for each field, and a question for each that is
to be changed. Pure: schemas in, questions and values out.

A form is flat: texts, numbers, yes or no, and choices. What a server writes is data: it is shown, never obeyed.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ebbtide.tools.mcp.client_handlers import FieldValue
from ebbtide.tools.mcp.texts import one_line
from ebbtide.tools.schema import mismatches

FieldKind: TypeAlias = Literal["text", "integer", "number", "flag", "choice", "choices"]

LEAVE_OUT, DECLINE, SEND = "leave it out", "do not answer the server", "send it"
"""Answers that are offered besides those of the field."""

MAX_FIELDS, MAX_CHOICES = 50, 200
"""Of a form, and of a field."""

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
        suggested = (f"{field_value_text(self.default, self)}",) if self.default is not None and not own else ()
        return (*suggested, *own, *(() if self.required else (LEAVE_OUT,)), DECLINE)

    @property
    def label(self) -> str:
        return self.title if self.title == self.name else f"{self.title} ({self.name})"

    def question(self) -> str:
        """What the user is asked, a line or a few."""
        name = self.label
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
            told.append(f"usually {field_value_text(self.default, self)}")
        return ": ".join(filter(None, (name, "; ".join(filter(None, told)))))

    def value(self, answer: str) -> FieldValue:
        """What the user's words stand for. Raises `ValueError` with what is wrong with them."""
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
        raise ValueError(f"`{answer}` is none of {', '.join(choice.title for choice in self.choices)}")


@dataclass(frozen=True, slots=True)
class Form:
    """All fields, and how far they are filled in."""

    fields: tuple[FormField, ...]
    values: Mapping[str, FieldValue]
    asked: frozenset[str] = frozenset()
    """Names of the fields that the user has been at."""
    problem: str = ""
    """Why what the user wrote could not be taken."""

    @property
    def _next(self) -> FormField | None:
        """The field to go on with: what has to be filled in comes first."""
        left = [field for field in self.fields if field.name not in self.asked]
        missing = [field for field in left if field.required and field.name not in self.values]
        return next(iter((*missing, *left)), None)

    @property
    def options(self) -> tuple[str, ...]:
        """The next field, sending where nothing is missing, and every field with what it holds."""
        onward = (f"fill in {self._next.label}",) if self._next is not None else ()
        is_whole = all(field.name in self.values for field in self.fields if field.required)
        return (*onward, *((SEND,) if is_whole else ()), *map(self._row, self.fields), DECLINE)

    def question(self) -> str:
        problem = f"That cannot be: {self.problem}.\n" if self.problem else ""
        return f"{problem}Choose what to fill in, or write several at once: {self.fields[0].name}=… and so on."

    def field_for(self, answer: str) -> FormField | None:
        """The field that an option stands for."""
        if self._next is not None and answer == f"fill in {self._next.label}":
            return self._next
        return next((field for field in self.fields if answer == self._row(field)), None)

    def with_value(self, field: FormField, value: FieldValue) -> "Form":
        """With this value; None takes it out."""
        others = {name: kept for name, kept in self.values.items() if name != field.name}
        values = others if value is None else {**others, field.name: value}
        return Form(self.fields, values, self.asked | {field.name})

    def with_assignments(self, answer: str) -> "Form":
        """With all that the user wrote as `NAME=VALUE`, or with what is wrong with it."""
        form, known = self, {field.name: field for field in self.fields}
        try:
            for word in shlex.split(answer):
                name, equals, text = word.partition("=")
                if not equals or name not in known:
                    raise ValueError(f"`{word}` is no `NAME=VALUE` of a field")
                form = form.with_value(known[name], known[name].value(text))
        except ValueError as error:
            return replace(form, problem=str(error))
        return form

    def _row(self, field: FormField) -> str:
        empty = "(has to be filled in)" if field.required else "(empty)"
        held = field_value_text(self.values[field.name], field) if field.name in self.values else empty
        return f"{field.label}: {held}"


def form_of(fields: tuple[FormField, ...]) -> Form:
    """As the server has filled it in."""
    return Form(fields, {field.name: field.default for field in fields if field.default is not None})


def fields_of(schema: Mapping[str, object]) -> tuple[FormField, ...]:
    """The fields of a form, in order. Raises `ValueError` when it asks for what no form can hold."""
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    if not isinstance(properties, Mapping) or not isinstance(required, Sequence):
        raise ValueError("its form has no fields that can be read")
    if len(properties) > MAX_FIELDS:
        raise ValueError(f"its form has {len(properties):,} fields, and {MAX_FIELDS} are the most")
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
        raise ValueError(f"its form asks for `{one_line(name)}` in a way that cannot be read")
    if one_line(name) != name:
        raise ValueError(f"its form asks for `{one_line(name)}`, which is no name on one line")
    kind, choices = _kind(name, schema)
    title, description = (one_line(str(schema.get(key) or "")) for key in ("title", "description"))
    if len(choices) > MAX_CHOICES:
        raise ValueError(f"its form asks for `{name}` with {len(choices):,} choices, and {MAX_CHOICES} are the most")
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
    """Only what says which values are right."""
    return {key: value for key, value in schema.items() if key not in ("title", "description", "default", "enumNames")}
