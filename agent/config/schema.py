"""JSON Schema (draft 7) of the configuration file, for editors."""

from collections.abc import Callable, Mapping

from ebbtide.agent.config import option_values as values
from ebbtide.agent.config.aliases import KEY_ALIASES
from ebbtide.agent.config.hook_tables import HOOK_EVENTS
from ebbtide.agent.config.option_values import BoundedNumber, OneOf, OptionalValue
from ebbtide.agent.config.options import OPTIONS, PROVIDER_NAMES, STATUS_PARTS, permission_rules, status_parts
from ebbtide.agent.config.table_keys import (
    LANGUAGE_SERVER_KEYS,
    MCP_SERVER_KEYS,
    MODEL_KEYS,
    PROVIDER_KEYS,
    variable_name,
)

Parser = Callable[[object], object]
Schema = Mapping[str, object]

_TEXT = {"type": "string", "minLength": 1}
_NUMBER_ABOVE_0 = {"type": "number", "exclusiveMinimum": 0}
_COUNT_SCHEMA = {"type": "integer", "minimum": 1}
_TEXT_LIST_SCHEMA = {"type": "array", "items": _TEXT}
_STRING_LIST_SCHEMA = {"type": "array", "items": {"type": "string"}}
_COMMAND = {"anyOf": [_TEXT, {"type": "array", "items": [_TEXT], "additionalItems": {"type": "string"}, "minItems": 1}]}

_SCHEMAS: Mapping[Parser, Schema] = {
    values.nonempty_text: _TEXT,
    values.positive_integer: _COUNT_SCHEMA,
    values.parse_keep_alive: {"enum": ["off", *range(1, values.MAX_KEEP_ALIVE_REQUESTS + 1)]},
    values.parse_flag: {"type": "boolean"},
    values.parse_nonempty_strings: _TEXT_LIST_SCHEMA,
    values.parse_strings: _STRING_LIST_SCHEMA,
    values.command_words: _COMMAND,
    values.shell_command: _COMMAND,
    values.web_search: {"anyOf": [*_COMMAND["anyOf"], {"type": "array", "maxItems": 0}]},
    values.text_table: {"type": "object", "additionalProperties": {"type": "string"}},
    values.nested_table: {"type": "object"},
    values.file_extensions: {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": r"^\.?[\w+#-]+$"}},
    values.parse_port: {"type": "integer", "minimum": 1, "maximum": 65_535},
    values.tokenizer_name: {"type": "string", "pattern": f"^({values.TOKENIZER_PATTERN})$"},
    values.parse_prices: {
        "type": "object",
        "properties": {key: {"type": "number", "minimum": 0} for key in values.PRICE_KEYS},
        "additionalProperties": False,
    },
    values.after_tool_hooks: {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "match": _TEXT,
                "command": {"anyOf": [_TEXT, {**_TEXT_LIST_SCHEMA, "minItems": 1}]},
                "timeout": _NUMBER_ABOVE_0,
            },
            "required": ["match", "command"],
            "additionalProperties": False,
        },
    },
    permission_rules: _TEXT_LIST_SCHEMA,
    status_parts: {"type": "array", "items": {"enum": list(STATUS_PARTS)}, "uniqueItems": True},
    variable_name: {"type": "string", "pattern": r"^[^\W\d]\w*$"},
}


def build_config_schema() -> Schema:
    """Return the JSON Schema of the whole configuration file. Unknown keys are rejected, except in a few free-form
    tables."""
    tables: dict[str, dict[str, Schema]] = {}
    for option in OPTIONS:
        table, key = option.key.split(".")
        option_schema = {**value_schema(option.parse), "description": option.description}
        if option.default not in (None, ()):
            option_schema["default"] = list(option.default) if isinstance(option.default, tuple) else option.default
        tables.setdefault(table, {})[key] = option_schema
    for name, key in KEY_ALIASES.items():
        table, real_key = key.split(".")
        tables["agent"].setdefault(name, {**tables[table][real_key], "description": f"the same as `{key}`"})
    for table, parsers in (("mcp", MCP_SERVER_KEYS), ("lsp", LANGUAGE_SERVER_KEYS)):
        tables[table]["servers"] = {"type": "object", "additionalProperties": _table_schema(parsers)}
    tables["hooks"] |= {event: {"type": "array", "items": {"type": "object"}} for event in HOOK_EVENTS}
    models = {"type": "object", "additionalProperties": _table_schema(MODEL_KEYS)}
    provider = _table_schema(PROVIDER_KEYS, {"models": models})
    providers = {"type": "object", "properties": dict.fromkeys(PROVIDER_NAMES, provider), "additionalProperties": False}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Configuration of Ebbtide",
        "type": "object",
        "properties": {**{table: _object_schema(keys) for table, keys in tables.items()}, "providers": providers},
        "additionalProperties": False,
    }


def value_schema(parse: Parser) -> Schema:
    """Return the schema of the values that a validator accepts. Raises `KeyError` for an unknown validator."""
    match parse:
        case OneOf(allowed_names=allowed, former_names=former):
            return {"enum": [*allowed, *(name for name, _ in former)]}
        case OptionalValue(parse):
            return value_schema(parse)
        case BoundedNumber(maximum=maximum, allows_zero=allows_zero):
            upper_bound = {"maximum": maximum} if maximum < values.MAX_NUMBER else {}
            return {"type": "number", "minimum" if allows_zero else "exclusiveMinimum": 0, **upper_bound}
        case _:
            return _SCHEMAS[parse]


def _table_schema(parsers: Mapping[str, Parser], extra: Mapping[str, Schema] = {}) -> Schema:
    return _object_schema({**{key: value_schema(parse) for key, parse in parsers.items()}, **extra})


def _object_schema(schemas: Mapping[str, Schema]) -> Schema:
    """Return the schema of a table with these keys, which may also be written in camel case."""
    camel_case_keys = {_camel_case(key): schema for key, schema in schemas.items()}
    return {"type": "object", "properties": {**camel_case_keys, **schemas}, "additionalProperties": False}


def _camel_case(key: str) -> str:
    first_word, *other_words = key.split("_")
    return first_word + "".join(word.capitalize() for word in other_words)
