"""Forms that MCP servers use to ask the user for data. A form is shown as one question with a line per field. Each
field that the user wants to change becomes another question. No I/O: schemas in, questions and values out.

Forms are flat: strings, numbers, booleans and choices. Text from a server is displayed, but never treated as
instructions.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ebbtide.tools.call_arguments.schema import schema_violations
from ebbtide.tools.integrations.mcp.client_handlers import FieldValue
from ebbtide.tools.integrations.mcp.texts import one_line

FieldKind: TypeAlias = Literal["text", "integer", "number", "flag", "choice", "choices"]

SKIP_FIELD, DECLINE_OPTION, SEND_OPTION = "leave it out", "do not answer the server", "send it"
"""Answers offered in addition to a field's or form's own options."""

MAX_FIELDS, MAX_CHOICES = 50, 200
"""Maximum number of fields in a form, and of choices in a field."""

_FIELD_KINDS: Mapping[object, FieldKind] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "flag",
}
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
    is_required: bool
    schema: Mapping[str, object]
    choices: tuple[FormChoice, ...] = ()
    default: FieldValue = None

    @property
    def options(self) -> tuple[str, ...]:
        """The answers that the user can choose from."""
        own_options = (_YES, _NO) if self.kind == "flag" else tuple(choice.title for choice in self.choices)
        if self.kind == "choices":
            own_options = ()
        suggested_options = (
            (f"{format_field_value(self.default, self)}",) if self.default is not None and not own_options else ()
        )
        return (*suggested_options, *own_options, *(() if self.is_required else (SKIP_FIELD,)), DECLINE_OPTION)

    @property
    def label(self) -> str:
        return self.title if self.title == self.name else f"{self.title} ({self.name})"

    def build_question(self) -> str:
        """Return the question for the user."""
        name = self.label
        hints = {
            "text": "",
            "integer": "a whole number",
            "number": "a number",
            "flag": "",
            "choice": "",
            "choices": f"any of {', '.join(choice.title for choice in self.choices)}, separated by commas",
        }
        details = [self.description, hints[self.kind], *_limit_hints(self.schema)]
        if self.default is not None:
            details.append(f"usually {format_field_value(self.default, self)}")
        return ": ".join(filter(None, (name, "; ".join(filter(None, details)))))

    def parse_value(self, answer: str) -> FieldValue:
        """Parse the user's answer. Raises `ValueError` if it is invalid."""
        value = self._parse_answer(answer)
        problems = schema_violations(list(value) if isinstance(value, tuple) else value, _value_schema(self.schema))
        if problems:
            raise ValueError(problems[0])
        return value

    def _parse_answer(self, answer: str) -> FieldValue:
        match self.kind:
            case "text":
                return answer
            case "integer" | "number":
                return _parse_number(answer, is_integer=self.kind == "integer")
            case "flag":
                if answer.lower() not in (_YES, _NO, "true", "false"):
                    raise ValueError(f"`{answer}` is neither `{_YES}` nor `{_NO}`")
                return answer.lower() in (_YES, "true")
            case "choice":
                return self._choice_value(answer)
            case "choices":
                return tuple(self._choice_value(item.strip()) for item in answer.split(",") if item.strip())

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
    asked_names: frozenset[str] = frozenset()
    """Names of the fields that the user has been asked about."""
    problem: str = ""
    """Why the user's last input was rejected."""

    @property
    def _next_field(self) -> FormField | None:
        """The field to ask about next; required fields come first."""
        unasked_fields = [field for field in self.fields if field.name not in self.asked_names]
        missing_fields = [field for field in unasked_fields if field.is_required and field.name not in self.values]
        return next(iter((*missing_fields, *unasked_fields)), None)

    @property
    def options(self) -> tuple[str, ...]:
        """The options to choose from: filling in the next field, sending the form if it is complete, each field with
        its value, and declining."""
        next_field_option = (f"fill in {self._next_field.label}",) if self._next_field is not None else ()
        is_complete = all(field.name in self.values for field in self.fields if field.is_required)
        return (
            *next_field_option,
            *((SEND_OPTION,) if is_complete else ()),
            *map(self._field_option, self.fields),
            DECLINE_OPTION,
        )

    def build_question(self) -> str:
        problem = f"Invalid: {self.problem}.\n" if self.problem else ""
        return f"{problem}Choose what to fill in, or write several at once: {self.fields[0].name}=… and so on."

    def field_for(self, answer: str) -> FormField | None:
        """Return the field that an option refers to, if any."""
        if self._next_field is not None and answer == f"fill in {self._next_field.label}":
            return self._next_field
        return next((field for field in self.fields if answer == self._field_option(field)), None)

    def with_value(self, field: FormField, value: FieldValue) -> "Form":
        """Return the form with a value set; None removes it."""
        other_values = {name: entry for name, entry in self.values.items() if name != field.name}
        values = other_values if value is None else {**other_values, field.name: value}
        return Form(self.fields, values, self.asked_names | {field.name})

    def with_assignments(self, answer: str) -> "Form":
        """Apply the `NAME=VALUE` assignments in an answer. At the first invalid assignment, stop and set `problem`."""
        form, fields_by_name = self, {field.name: field for field in self.fields}
        try:
            for word in shlex.split(answer):
                name, separator, text = word.partition("=")
                if not separator or name not in fields_by_name:
                    raise ValueError(f"`{word}` is not a `NAME=VALUE` for a field")
                form = form.with_value(fields_by_name[name], fields_by_name[name].parse_value(text))
        except ValueError as error:
            return replace(form, problem=str(error))
        return form

    def _field_option(self, field: FormField) -> str:
        empty = "(required)" if field.is_required else "(empty)"
        value = format_field_value(self.values[field.name], field) if field.name in self.values else empty
        return f"{field.label}: {value}"


def prefilled_form(fields: tuple[FormField, ...]) -> Form:
    """Return the form, filled in with the server's default values."""
    return Form(fields, {field.name: field.default for field in fields if field.default is not None})


def parse_fields(schema: Mapping[str, object]) -> tuple[FormField, ...]:
    """Return the fields of a form, in order. Raises `ValueError` for an unsupported schema."""
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    if not isinstance(properties, Mapping) or not isinstance(required, Sequence):
        raise ValueError("its form has no valid fields")
    if len(properties) > MAX_FIELDS:
        raise ValueError(f"its form has {len(properties):,} fields, more than the limit of {MAX_FIELDS}")
    return tuple(_parse_field(str(name), field_schema, name in required) for name, field_schema in properties.items())


def format_field_value(value: FieldValue, field: FormField) -> str:
    """Format a value as the user would write it."""
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
            return ", ".join(format_field_value(item, field) for item in value)


def _parse_field(name: str, schema: object, is_required: bool) -> FormField:
    if not isinstance(schema, Mapping):
        raise ValueError(f"its form asks for `{one_line(name)}` with an invalid schema")
    if one_line(name) != name:
        raise ValueError(f"its form asks for `{one_line(name)}`, which is not a single-line name")
    kind, choices = _field_kind(name, schema)
    title, description = (one_line(str(schema.get(key) or "")) for key in ("title", "description"))
    if len(choices) > MAX_CHOICES:
        raise ValueError(
            f"its form asks for `{name}` with {len(choices):,} choices, more than the limit of {MAX_CHOICES}"
        )
    default = schema.get("default")
    if isinstance(default, list):
        default = tuple(map(str, default))
    valid_default = default if isinstance(default, str | int | float | bool | tuple) else None
    return FormField(name, title or name, description, kind, is_required, schema, choices, valid_default)


def _field_kind(name: str, schema: Mapping[str, object]) -> tuple[FieldKind, tuple[FormChoice, ...]]:
    choices = _parse_choices(schema)
    if choices:
        return "choice", choices
    items = schema.get("items")
    if schema.get("type") == "array" and isinstance(items, Mapping):
        choices = _parse_choices(items)
        if choices:
            return "choices", choices
    kind = _FIELD_KINDS.get(schema.get("type"))
    if kind is None:
        raise ValueError(f"its form asks for `{name}`, which is not a text, a number, a choice, or yes or no")
    return kind, ()


def _parse_choices(schema: Mapping[str, object]) -> tuple[FormChoice, ...]:
    values = schema.get("enum")
    if isinstance(values, list):
        names = schema.get("enumNames")
        titles = names if isinstance(names, list) and len(names) == len(values) else values
        return tuple(FormChoice(str(value), one_line(str(title))) for value, title in zip(values, titles, strict=True))
    for key in ("oneOf", "anyOf"):
        entries = schema.get(key)
        if isinstance(entries, list) and all(isinstance(entry, Mapping) and "const" in entry for entry in entries):
            return tuple(
                FormChoice(str(entry["const"]), one_line(str(entry.get("title") or entry["const"])))
                for entry in entries
            )
    return ()


def _parse_number(answer: str, *, is_integer: bool) -> int | float:
    try:
        return int(answer) if is_integer else float(answer)
    except ValueError:
        raise ValueError(f"`{answer}` is not a {'whole ' if is_integer else ''}number") from None


def _limit_hints(schema: Mapping[str, object]) -> list[str]:
    templates = {
        "minimum": "at least {}",
        "maximum": "at most {}",
        "minLength": "at least {} characters",
        "maxLength": "at most {} characters",
        "minItems": "at least {} of them",
        "maxItems": "at most {} of them",
    }
    limits = [
        template.format(schema[key]) for key, template in templates.items() if isinstance(schema.get(key), int | float)
    ]
    format_name = schema.get("format")
    return [*limits, f"as {format_name}"] if isinstance(format_name, str) else limits


def _value_schema(schema: Mapping[str, object]) -> Mapping[str, object]:
    """Return the part of a schema that restricts values."""
    return {key: value for key, value in schema.items() if key not in ("title", "description", "default", "enumNames")}
