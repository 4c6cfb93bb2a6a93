"""Keys of the tables for providers, models and servers, with their validators."""

from collections.abc import Callable

from ebbtide.agent.config.option_values import (
    command_words,
    count,
    extensions,
    flag,
    named_texts,
    nested_table,
    one_of,
    plain_text,
    port,
    prices,
    seconds,
    shell_command,
    temperature,
    texts,
    tokenizer_name,
    word_list,
)
from ebbtide.agent.config.options import effort

TOOL_CALLS = ("auto", "native", "text")


def variable_name(value: object) -> str:
    if isinstance(value, str) and value.isidentifier():
        return value
    raise ValueError("the name of the environment variable with the key, not the key itself")


PROVIDER_KEYS: dict[str, Callable[[object], object]] = {
    "base_url": plain_text,
    "api_key_env": variable_name,
    "key_command": shell_command,
    "wire": one_of("auto", "sdk", "http"),
    "timeout": seconds,
    "context_window": count,
    "max_output_tokens": count,
    "context_window_buffer_tokens": count,
    "tokenizer": tokenizer_name,
    "reasoning_effort": effort,
    "tool_calls": one_of(*TOOL_CALLS),
    "temperature": temperature,
}

MODEL_KEYS: dict[str, Callable[[object], object]] = {
    "context_window": count,
    "max_output_tokens": count,
    "max_input_tokens": count,
    "context_window_buffer_tokens": count,
    "tokenizer": tokenizer_name,
    "reasoning_effort": effort,
    "tool_calls": one_of(*TOOL_CALLS),
    "temperature": temperature,
    "prices": prices,
    "images": flag,
    "thinking": one_of("none", "adaptive", "budget", "effort"),
    "tool_search": one_of("none", "plain", "grouped"),
}

SERVER_KEYS: dict[str, Callable[[object], object]] = {
    "command": command_words,
    "args": word_list,
    "env": named_texts,
    "cwd": plain_text,
    "url": plain_text,
    "headers": named_texts,
    "type": one_of("stdio", "http", "streamable-http", "streamable_http", "sse"),
    "enabled": flag,
    "required": flag,
    "enabled_tools": texts,
    "disabled_tools": texts,
    "startup_timeout": seconds,
    "call_timeout": seconds,
    "most_bytes": count,
    "client_id": plain_text,
    "client_secret": plain_text,
    "scopes": texts,
    "login_port": port,
    "login_timeout": seconds,
}
"""Keys of an MCP server."""

LANGUAGE_SERVER_KEYS: dict[str, Callable[[object], object]] = {
    "command": command_words,
    "args": word_list,
    "extensions": extensions,
    "env": named_texts,
    "settings": nested_table,
    "options": nested_table,
    "enabled": flag,
    "startup_timeout": seconds,
}
"""Keys of a language server."""
