"""The JSON Schema of the configuration file takes what the program takes."""

from collections.abc import Callable
from typing import Any

import pytest

from ebbtide.agent.config.aliases import KEY_ALIASES
from ebbtide.agent.config.options import OPTIONS
from ebbtide.agent.config.schema import build_config_schema, value_schema
from ebbtide.agent.config.table_keys import LANGUAGE_SERVER_KEYS, MCP_SERVER_KEYS, MODEL_KEYS, PROVIDER_KEYS
from ebbtide.tools.call_arguments.schema import schema_violations

PARSES: dict[str, Callable[[object], object]] = {
    **{option.key: option.parse for option in OPTIONS},
    **{f"providers.{key}": parse for key, parse in PROVIDER_KEYS.items()},
    **{f"models.{key}": parse for key, parse in MODEL_KEYS.items()},
    **{f"mcp.{key}": parse for key, parse in MCP_SERVER_KEYS.items()},
    **{f"lsp.{key}": parse for key, parse in LANGUAGE_SERVER_KEYS.items()},
}
DRAFT = build_config_schema()["$schema"]
VALUES: list[Any] = [
    0, 1, 2, 3, 4, 65_535, 65_536, -1, 0.0, 0.5, 1.0, 1.5, True, False,
    "", "a", "off", "auto", "high", "ask", "none", "usual", "stdio", "A_KEY", "2b", "sk-1", "bytes",
    "tiktoken:o200k_base",
    [], [""], ["a"], ["a", ""], ["", "a"], ["model", "cost"], ["cost", "cost"], [".py", "pyi"], ["a b"], [1],
    {}, {"a": "b"}, {"a": 1}, {"input": 1, "output": 2.5}, {"input": -1}, {"inptu": 1},
    [{"match": "bash", "command": "x"}], [{"match": "bash", "command": ["x"], "timeout": 5}], [{"match": "bash"}],
    [{"match": "bash", "command": []}], [{"match": "bash", "command": "x", "when": 1}],
]  # fmt: skip


def takes(parse: Callable[[object], object], value: object) -> bool:
    try:
        parse(value)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("key", PARSES)
def test_the_schema_of_a_key_takes_what_the_key_takes(key: str) -> None:
    parse = PARSES[key]
    schema: dict[str, Any] = {"$schema": DRAFT, **value_schema(parse)}
    values = [*VALUES, *schema.get("enum", ())]
    judged = [(value, takes(parse, value), not schema_violations(value, schema)) for value in values]
    # JSON has one kind of numbers, so 1.0 is a whole one there.
    assert [row for row in judged if row[1] != row[2] and not isinstance(row[0], float)] == []
    assert any(is_accepted for _, is_accepted, _ in judged)


def test_a_whole_file_is_taken_and_a_slip_is_not() -> None:
    schema = dict(build_config_schema())
    file = {
        "agent": {"model": "ollama/qwen3", "compactTrigger": 0.9, "context_budget": 100_000},
        "permissions": {"allow": ["bash(git status)"]},
        "providers": {"ollama": {"base_url": "http://127.0.0.1:1", "models": {"qwen3": {"context_window": 8192}}}},
        "mcp": {"servers": {"files": {"command": "npx", "args": ["-y", "x"]}}},
        "hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "true"}]}]},
    }
    assert schema_violations(file, schema) == []
    assert schema_violations({**file, "agent": {"modle": "x"}}, schema) != []
    assert schema_violations({**file, "providers": {"olama": {}}}, schema) != []


def test_every_key_and_every_other_name_is_described() -> None:
    tables: Any = build_config_schema()["properties"]
    described = {f"{table}.{key}" for table in tables for key in tables[table]["properties"]}
    assert {option.key for option in OPTIONS} <= described
    assert {f"agent.{name}" for name in KEY_ALIASES} <= described
    assert [key for key in described if key.startswith("agent.") and not key_help(tables, key)] == []


def key_help(tables: Any, key: str) -> str:
    table, name = key.split(".")
    return str(tables[table]["properties"][name].get("description", ""))
