"""Keys of the tables for providers, models and servers, with their validators."""

from collections.abc import Callable

from ebbtide.agent.config.option_values import (
    command_words,
    file_extensions,
    nested_table,
    nonempty_text,
    one_of,
    parse_flag,
    parse_nonempty_strings,
    parse_port,
    parse_prices,
    parse_seconds,
    parse_strings,
    positive_integer,
    shell_command,
    temperature,
    text_table,
    tokenizer_name,
)
from ebbtide.agent.config.options import effort

TOOL_CALL_MODES = ("auto", "native", "text")


def variable_name(value: object) -> str:
    if isinstance(value, str) and value.isidentifier():
        return value
    raise ValueError("the name of the environment variable with the key, not the key itself")


PROVIDER_KEYS: dict[str, Callable[[object], object]] = {
    "base_url": nonempty_text,
    "api_key_env": variable_name,
    "key_command": shell_command,
    "client_id": nonempty_text,
    "sign_in_url": nonempty_text,
    "wire": one_of("auto", "sdk", "http"),
    "timeout": parse_seconds,
    "context_window": positive_integer,
    "max_output_tokens": positive_integer,
    "context_window_buffer_tokens": positive_integer,
    "tokenizer": tokenizer_name,
    "reasoning_effort": effort,
    "tool_calls": one_of(*TOOL_CALL_MODES),
    "temperature": temperature,
}

MODEL_KEYS: dict[str, Callable[[object], object]] = {
    "context_window": positive_integer,
    "max_output_tokens": positive_integer,
    "max_input_tokens": positive_integer,
    "context_window_buffer_tokens": positive_integer,
    "tokenizer": tokenizer_name,
    "reasoning_effort": effort,
    "tool_calls": one_of(*TOOL_CALL_MODES),
    "temperature": temperature,
    "prices": parse_prices,
    "images": parse_flag,
    "thinking": one_of("none", "adaptive", "budget", "effort"),
    "tool_search": one_of("none", "plain", "grouped"),
}

MCP_SERVER_KEYS: dict[str, Callable[[object], object]] = {
    "command": command_words,
    "args": parse_strings,
    "env": text_table,
    "cwd": nonempty_text,
    "url": nonempty_text,
    "headers": text_table,
    "type": one_of("stdio", "http", "streamable-http", "streamable_http", "sse"),
    "enabled": parse_flag,
    "required": parse_flag,
    "enabled_tools": parse_nonempty_strings,
    "disabled_tools": parse_nonempty_strings,
    "startup_timeout": parse_seconds,
    "call_timeout": parse_seconds,
    "most_bytes": positive_integer,
    "client_id": nonempty_text,
    "client_secret": nonempty_text,
    "scopes": parse_nonempty_strings,
    "login_port": parse_port,
    "login_timeout": parse_seconds,
}
"""Keys of an MCP server."""

LANGUAGE_SERVER_KEYS: dict[str, Callable[[object], object]] = {
    "command": command_words,
    "args": parse_strings,
    "extensions": file_extensions,
    "env": text_table,
    "settings": nested_table,
    "options": nested_table,
    "enabled": parse_flag,
    "startup_timeout": parse_seconds,
}
"""Keys of a language server."""
