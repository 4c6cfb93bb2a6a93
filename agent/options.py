"""The keys that may be set, what each may hold and what it is for. It knows no file, no environment and no provider."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from tools.scope import SCOPES, Scope

Mode: TypeAlias = Literal["ask", "accept-edits", "plan", "auto"]
MODES: tuple[Mode, ...] = ("ask", "accept-edits", "plan", "auto")
ThemeName: TypeAlias = Literal["auto", "dark", "light", "high-contrast", "ansi"]
KeysName: TypeAlias = Literal["usual", "vim"]
KEY_NAMES: tuple[KeysName, ...] = ("usual", "vim")
THEMES: tuple[ThemeName, ...] = ("auto", "dark", "light", "high-contrast", "ansi")
NotifyName: TypeAlias = Literal["auto", "bell", "osc", "desktop", "off"]
NOTIFY: tuple[NotifyName, ...] = ("auto", "bell", "osc", "desktop", "off")
StatusPart: TypeAlias = Literal["speed", "cache", "branch", "mode", "turn", "model", "cost", "context"]
STATUS: tuple[StatusPart, ...] = ("speed", "cache", "branch", "mode", "turn", "model", "cost", "context")
_STRICTNESS = {"plan": 0, "ask": 1, "accept-edits": 2, "auto": 3}


@dataclass(frozen=True, slots=True)
class Option:
    """One key that may be set."""

    key: str
    default: object
    parse: Callable[[object], object]
    """The value as the program uses it. Raises `ValueError` with what is allowed."""
    help: str
    environment: str | None = None
    tightens: Callable[[object, object], object] | None = None
    """(value so far, the project's value) -> the value that holds. None: a project may not set it at all."""


@dataclass(frozen=True, slots=True)
class AfterTool:
    """A program that sees the outputs of some calls."""

    match: str
    """A permission rule for the calls."""
    command: str | tuple[str, ...]
    """For the shell, or a program with its arguments."""
    timeout: float = 60.0
    """Seconds."""


def _text(value: object) -> str:
    if isinstance(value, str) and value:
        return value
    raise ValueError("a text in quotes")


def _variable(value: object) -> str:
    if isinstance(value, str) and value.isidentifier():
        return value
    raise ValueError("the name of the environment variable that holds the key, not the key itself")


def _optional_text(value: object) -> str | None:
    return None if value is None else _text(value)


def _count(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise ValueError("a whole number above 0")


def _optional_count(value: object) -> int | None:
    return None if value is None else _count(value)


def _seconds(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    raise ValueError("a number of seconds above 0")


def _optional_wait(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf"):
        return float(value)
    raise ValueError("a number of seconds, or 0 to wait for nothing")


def _factor(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    raise ValueError("a number above 0")


def _optional_days(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    raise ValueError("a number of days above 0")


def _dollars(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    raise ValueError("a number of US dollars above 0")


def _share(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1:
        return float(value)
    raise ValueError("a number above 0 and at most 1")


def _optional_share(value: object) -> float | None:
    return None if value is None else _share(value)


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(text, str) and text for text in value):
        return tuple(value)
    raise ValueError("a list of texts in quotes")


def _hooks(value: object) -> tuple[AfterTool, ...]:
    try:
        if isinstance(value, list | tuple):
            return tuple(_hook(table) for table in value)
    except ValueError:
        pass
    raise ValueError(
        'tables such as {match = "bash(git *)", command = ["notify", "-q"], timeout = 60}: `match` is a permission '
        "rule, `command` a list or a line for the shell, `timeout` seconds"
    )


def _hook(table: object) -> AfterTool:
    if isinstance(table, AfterTool):
        return table
    if not isinstance(table, dict) or not {"match", "command"} <= set(table) <= {"match", "command", "timeout"}:
        raise ValueError
    command = table["command"]
    argv = _text(command) if isinstance(command, str) else _texts(command)
    if not argv:
        raise ValueError
    return AfterTool(_text(table["match"]), argv, _seconds(table.get("timeout", 60.0)))


def tokenizer_name(value: object) -> str:
    """The name of a way to count. Whether its vocabulary is there is found out when it is used."""
    if isinstance(value, str) and re.fullmatch(_TOKENIZERS, value):
        return value
    raise ValueError(
        'one of "tiktoken:NAME" (an encoding or a model of OpenAI), "anthropic", "claude:NAME", "gemini", '
        '"google:gemini", "google-gemini", "approximate", "approximate:2.5" (characters a token) or "bytes"'
    )


def rules(value: object) -> tuple[str, ...]:
    """The permission rules of a list. Raises `ValueError`."""
    if isinstance(value, list | tuple) and all(isinstance(rule, str) and rule for rule in value):
        return tuple(value)
    raise ValueError('a list of rules such as ["bash(git status)", "write(src/)"]')


def status_parts(value: object) -> tuple[StatusPart, ...]:
    """The parts of the status line. Raises `ValueError`."""
    if isinstance(value, list | tuple) and all(part in STATUS for part in value) and len(set(value)) == len(value):
        return cast(tuple[StatusPart, ...], tuple(value))
    raise ValueError("a list of some of " + ", ".join(f'"{part}"' for part in STATUS))


def one_of(*allowed: str) -> Callable[[object], object]:
    def parse(value: object) -> object:
        if value in allowed:
            return value
        raise ValueError("one of " + ", ".join(f'"{name}"' for name in allowed))

    return parse


def stricter_mode(one: Mode, other: Mode) -> Mode:
    return min(one, other, key=lambda mode: _STRICTNESS[mode])


def _stricter(current: object, project: object) -> object:
    return min(current, project, key=lambda mode: _STRICTNESS[str(mode)])


def _narrower_scope(current: object, project: object) -> object:
    return min(current, project, key=lambda scope: SCOPES.index(cast(Scope, scope)))


def _also(current: object, project: object) -> object:
    return tuple(dict.fromkeys((*rules(current), *rules(project))))


def _also_names(current: object, project: object) -> object:
    return tuple(dict.fromkeys((*_texts(current), *_texts(project))))


def _both(current: object, project: object) -> object:
    """The names that both have; an empty list names all."""
    here, there = _texts(current), _texts(project)
    return tuple(name for name in there if name in here) or here if here else there


_TOKENIZERS = (
    r"tiktoken:.+|anthropic(:.*)?|claude:.*|gemini(:.*)?|google:gemini.*|google-gemini.*|"
    r"approximate(:[1-9](\.\d+)?)?|bytes"
)

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

OPTIONS: tuple[Option, ...] = (
    Option("agent.model", None, _optional_text, "the model, as PROVIDER/NAME", "EBB_MODEL"),
    Option("agent.fallback_models", (), _texts, "models that take over, in order, when a conversation does not fit"),
    Option(
        "agent.permission_mode", "ask", one_of(*MODES), "what runs without a question", "EBB_PERMISSION_MODE", _stricter
    ),
    Option(
        "agent.sandbox",
        "auto",
        one_of("require", "auto", "off"),
        "`require` refuses commands: there is no sandbox yet",
        "EBB_SANDBOX",
    ),
    Option("agent.reasoning_effort", None, lambda v: None if v is None else one_of(*EFFORTS)(v), "how hard to think"),
    Option("agent.context_window", None, _optional_count, "tokens of the model's window, over what is known of it"),
    Option("agent.max_output_tokens", None, _optional_count, "tokens that a reply may take"),
    Option("agent.context_window_buffer_tokens", None, _optional_count, "tokens kept free for errors of the estimate"),
    Option("agent.tokenizer", None, lambda v: None if v is None else tokenizer_name(v), "how texts are counted"),
    Option("agent.compact_trigger", 0.95, _share, "share of the usable window at which older messages are summarised"),
    Option("agent.threshold_ratio", None, _optional_share, "the same as a share of the whole window"),
    Option("agent.hard_block", 0.98, _share, "share of the usable window above which no request is sent"),
    Option("agent.background_at", 0.80, _share, "share of the usable window from which summaries are made while idle"),
    Option("agent.background_messages", 400, _count, "messages from which summaries are made while idle"),
    Option("agent.context_note_at", 0.80, _share, "share of the usable window from which the model is told of it"),
    Option(
        "agent.on_full", "compact", one_of("compact", "final"), "when the window is full: make room, or one last turn"
    ),
    Option("agent.protect_tokens", None, _optional_count, "tokens of the newest outputs that are not masked early"),
    Option("agent.keep_last_n", None, _optional_count, "newest messages whose outputs are not masked early"),
    Option(
        "agent.result_offload_threshold", 4096, _count, "bytes from which an output is kept apart and shown in part"
    ),
    Option("agent.preview_bytes", 2048, _count, "bytes that are shown of an output that is kept apart"),
    Option("agent.max_message_bytes", 51_200, _count, "bytes of a file that one read shows"),
    Option("agent.max_line_length", 2000, _count, "characters of a line that a read shows"),
    Option(
        "agent.tool_output_mode",
        "auto",
        one_of("auto", "full-chunked", "read-grep", "truncate"),
        "what is shown of large outputs: their ends (`auto`, `read-grep`), more of them (`truncate`), or what a model "
        "finds in them (`full-chunked`, which costs requests)",
    ),
    Option("agent.tool_deferral_threshold", 0.10, _share, "share of the usable window that tool definitions may take"),
    Option("agent.tail_tokens", 8000, _count, "tokens of the newest steps that a compaction leaves as they are"),
    Option("agent.retain_last_turns", 1, _count, "newest turns that a compaction leaves as they are, if they fit"),
    Option("agent.retain_tokens", 1200, _count, "tokens of what is retained for the whole session"),
    Option("agent.summary_tokens", 1800, _count, "tokens of a summary"),
    Option("agent.summary_model", None, _optional_text, "the model that summarises, as PROVIDER/NAME"),
    Option("agent.summary_prompt", None, _optional_text, "what a summary is to hold, in place of the usual"),
    Option("agent.summary_directives", (), _texts, "what is asked of a summary besides"),
    Option(
        "agent.retain_prompt", None, _optional_text, "what is retained for the whole session, in place of the usual"
    ),
    Option("agent.retain_directives", (), _texts, "what is asked of the retained document besides"),
    Option(
        "rewrite.policy",
        "rent",
        one_of("rent", "total_budget", "fixed", "off"),
        "when older parts leave the view: as soon as that pays, when all outputs together exceed `protect_tokens`, "
        "only near the end of the window, or when you ask",
    ),
    Option("rewrite.kappa_mask", 1.5, _factor, "how many times its cost the masking of old outputs must have saved"),
    Option("rewrite.kappa_compact", 8.0, _factor, "how many times its cost a summary must have saved"),
    Option(
        "recall.scope",
        "project",
        one_of(*SCOPES),
        "what may be recalled: this session, the sessions of this project, or those of all projects",
        tightens=_narrower_scope,
    ),
    Option("recall.embedding_model", None, _optional_text, "folder of a model2vec model, to search by meaning, too"),
    Option("archive.max_age", None, _optional_days, "days after which a kept output is removed that nothing refers to"),
    Option(
        "archive.max_bytes",
        None,
        _optional_count,
        "bytes that kept outputs may take before the oldest go that nothing refers to",
    ),
    Option("hooks.after_tool", (), _hooks, "programs of yours that see each output of some calls as it came"),
    Option(
        "retry.patience", 600.0, _seconds, "seconds that a request is tried again; in a terminal until Esc, if unset"
    ),
    Option("retry.first", 10.0, _seconds, "the same for an address that nobody has reached yet"),
    Option("retry.fallback_after", None, _optional_wait, "seconds after which a model of `fallback_models` takes over"),
    Option("tools.allowed", (), _texts, "the built-in tools that are offered; none named: all", tightens=_both),
    Option("tools.denied", (), _texts, "built-in tools that are neither offered nor run", tightens=_also_names),
    Option("agent.max_turns", None, _optional_count, "requests that one turn may make"),
    Option("agent.max_cost", None, _dollars, "US dollars one run may cost"),
    Option(
        "mcp.startup_timeout",
        None,
        _optional_wait,
        "seconds that the first request waits for servers; without it 5, and 0 in a terminal",
    ),
    Option("mcp.disabled", (), _texts, "servers that are not started", tightens=_also_names),
    Option("tui.keys", "usual", one_of(*KEY_NAMES), "the keys of the prompt; `vim`: as in vi"),
    Option("tui.theme", "auto", one_of(*THEMES), "the terminal's colours; `auto`: light or dark, as the terminal is"),
    Option(
        "tui.notify",
        "auto",
        one_of(*NOTIFY),
        "how you are told that it waits or is done while you look elsewhere; `auto`: by the terminal, or by its bell",
    ),
    Option("tui.status", STATUS, status_parts, "parts of the status line; the first of them give way first"),
    Option("permissions.allow", (), rules, "calls that run without a question"),
    Option("permissions.deny", (), rules, "calls that never run", tightens=_also),
)
BY_KEY = {option.key: option for option in OPTIONS}

PROVIDERS = ("anthropic", "openai", "openai-chat", "ollama", "scripted")
PROVIDER_KEYS: dict[str, Callable[[object], object]] = {
    "base_url": _text,
    "api_key_env": _variable,
    "wire": one_of("auto", "sdk", "http"),
    "timeout": _seconds,
    "context_window": _count,
    "max_output_tokens": _count,
    "context_window_buffer_tokens": _count,
    "tokenizer": tokenizer_name,
}
_PRICES = ("input", "output", "cache_read", "cache_write")


def _prices(value: object) -> Mapping[str, float]:
    if (
        isinstance(value, dict)
        and set(value) <= set(_PRICES)
        and all(
            isinstance(price, int | float) and not isinstance(price, bool) and price >= 0 for price in value.values()
        )
    ):
        return {name: float(price) for name, price in value.items()}
    raise ValueError("a table of US dollars per million tokens: input, output, cache_read, cache_write")


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("true or false")


MODEL_KEYS: dict[str, Callable[[object], object]] = {
    "context_window": _count,
    "max_output_tokens": _count,
    "max_input_tokens": _count,
    "context_window_buffer_tokens": _count,
    "tokenizer": tokenizer_name,
    "prices": _prices,
    "images": _flag,
    "thinking": one_of("none", "adaptive", "budget", "effort"),
    "tool_search": one_of("none", "plain", "grouped"),
}


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(text, str) for text in value):
        return tuple(value)
    raise ValueError("a list of texts in quotes")


def _command(value: object) -> tuple[str, ...]:
    words = (value,) if isinstance(value, str) else _words(value)
    if words and words[0]:
        return words
    raise ValueError("a program, or a list of a program and its arguments, in quotes")


def _named_texts(value: object) -> Mapping[str, str]:
    if isinstance(value, dict) and all(isinstance(text, str) for text in value.values()):
        return dict(value)
    raise ValueError("a table of texts in quotes")


def _port(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 65_536:
        return value
    raise ValueError("a port, a whole number from 1 to 65535")


SERVER_KEYS: dict[str, Callable[[object], object]] = {
    "command": _command,
    "args": _words,
    "env": _named_texts,
    "cwd": _text,
    "url": _text,
    "headers": _named_texts,
    "type": one_of("stdio", "http", "streamable-http", "streamable_http"),
    "enabled": _flag,
    "enabled_tools": _texts,
    "disabled_tools": _texts,
    "startup_timeout": _seconds,
    "call_timeout": _seconds,
    "most_bytes": _count,
    "client_id": _text,
    "client_secret": _text,
    "scopes": _texts,
    "login_port": _port,
    "login_timeout": _seconds,
}
"""What may be said of a server of the Model Context Protocol."""
