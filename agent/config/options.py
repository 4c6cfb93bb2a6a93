"""The settings: their keys, valid values and descriptions."""

from collections.abc import Callable
from typing import Literal, TypeAlias, cast, get_args

from ebbtide.agent.config.chat_hosts import CHAT_HOSTS
from ebbtide.agent.config.clouds import CLOUDS, SUBSCRIPTIONS
from ebbtide.agent.config.option_values import (
    OptionalValue,
    after_tool_hooks,
    one_of,
    optional_count,
    optional_days,
    optional_share,
    optional_text,
    parse_dollars,
    parse_factor,
    parse_flag,
    parse_keep_alive,
    parse_nonempty_strings,
    parse_optional_seconds,
    parse_seconds,
    parse_share,
    positive_integer,
    tokenizer_name,
    web_search,
)
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import MAX_OUTPUT_BYTES
from ebbtide.tools.outputs.recall_scope import RECALL_SCOPES, RecallScope

PermissionMode: TypeAlias = Literal["ask", "accept-edits", "plan", "auto"]

PERMISSION_MODES: tuple[PermissionMode, ...] = get_args(PermissionMode)

ThemeName: TypeAlias = Literal[
    "auto",
    "dark",
    "light",
    "high-contrast",
    "ansi",
    "catppuccin-mocha",
    "catppuccin-latte",
    "dracula",
    "gruvbox",
    "nord",
    "solarized-dark",
    "solarized-light",
    "tokyo-night",
]

KeyBindingStyle: TypeAlias = Literal["usual", "vim"]

KEY_BINDING_STYLES: tuple[KeyBindingStyle, ...] = get_args(KeyBindingStyle)

THEMES: tuple[ThemeName, ...] = get_args(ThemeName)

DetailLevel: TypeAlias = Literal["compact", "normal", "full"]

DETAIL_LEVELS: tuple[DetailLevel, ...] = get_args(DetailLevel)

ThoughtsDisplay: TypeAlias = Literal["line", "open", "hidden"]
THOUGHTS_DISPLAYS: tuple[ThoughtsDisplay, ...] = get_args(ThoughtsDisplay)

NotificationMethod: TypeAlias = Literal["auto", "bell", "osc", "desktop", "off"]

NOTIFICATION_METHODS: tuple[NotificationMethod, ...] = get_args(NotificationMethod)

StatusPart: TypeAlias = Literal["speed", "cache", "branch", "mode", "turn", "model", "cost", "context"]

STATUS_PARTS: tuple[StatusPart, ...] = get_args(StatusPart)

ContextStyle: TypeAlias = Literal["frugal", "balanced", "careful"]
"""How readily older parts leave the context. `frugal`: as soon as it saves money. `careful`: only if it saves much more
than it costs."""

CONTEXT_STYLES: tuple[ContextStyle, ...] = get_args(ContextStyle)

PortRule: TypeAlias = Literal["off", "ask", "forward"]

PORT_RULES: tuple[PortRule, ...] = get_args(PortRule)

_PERMISSIVENESS = {"plan": 0, "ask": 1, "accept-edits": 2, "auto": 3}


@dataclass(frozen=True, slots=True)
class Option:
    """One setting."""

    key: str
    default: object
    parse: Callable[[object], object]
    """Validates a value and converts it for use. Raises `ValueError` with a description of the valid values."""
    description: str
    environment_variable: str | None = None
    tighten: Callable[[object, object], object] | None = None
    """Combines the current value and the project's value into the effective value. None if projects are not allowed to
    set the key."""


def permission_rules(value: object) -> tuple[str, ...]:
    """Validate a list of permission rules. Raises `ValueError`."""
    if isinstance(value, list | tuple) and all(isinstance(rule, str) and rule for rule in value):
        return tuple(value)
    raise ValueError('a list of rules such as ["bash(git status)", "write(src/)"]')


def status_parts(value: object) -> tuple[StatusPart, ...]:
    """Validate the parts of the status line. Raises `ValueError`."""
    if (
        isinstance(value, list | tuple)
        and all(part in STATUS_PARTS for part in value)
        and len(set(value)) == len(value)
    ):
        return cast(tuple[StatusPart, ...], tuple(value))
    raise ValueError("a list of distinct values from " + ", ".join(f'"{part}"' for part in STATUS_PARTS))


def stricter_mode(first: PermissionMode, second: PermissionMode) -> PermissionMode:
    return min(first, second, key=lambda mode: _PERMISSIVENESS[mode])


def _combine_modes(current: object, project: object) -> object:
    return stricter_mode(cast(PermissionMode, current), cast(PermissionMode, project))


def _narrower_scope(current: object, project: object) -> object:
    return min(current, project, key=lambda scope: RECALL_SCOPES.index(cast(RecallScope, scope)))


def _with_project_rules(current: object, project: object) -> object:
    return tuple(dict.fromkeys((*permission_rules(current), *permission_rules(project))))


def _with_project_names(current: object, project: object) -> object:
    return tuple(dict.fromkeys((*parse_nonempty_strings(current), *parse_nonempty_strings(project))))


def _common_names(current: object, project: object) -> object:
    """Return the names in both lists. An empty list means all names. If the lists have no name in common, the current
    list applies."""
    current_names, project_names = parse_nonempty_strings(current), parse_nonempty_strings(project)
    return (
        tuple(name for name in project_names if name in current_names) or current_names
        if current_names
        else project_names
    )


def _both_enabled(current: object, project: object) -> object:
    return parse_flag(current) and parse_flag(project)


def _stricter_port_rule(current: object, project: object) -> object:
    return min(current, project, key=lambda rule: PORT_RULES.index(cast(PortRule, rule)))


EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

effort = one_of(*EFFORTS)

OPTIONS: tuple[Option, ...] = (
    Option("agent.model", None, optional_text, "the model, as PROVIDER/NAME", "EBB_MODEL"),
    Option(
        "agent.fallback_models",
        (),
        parse_nonempty_strings,
        "models that take over, in order, when a conversation does not fit",
    ),
    Option(
        "agent.permission_mode",
        "ask",
        one_of(*PERMISSION_MODES),
        "what may run without asking",
        "EBB_PERMISSION_MODE",
        _combine_modes,
    ),
    Option(
        "agent.sandbox",
        "auto",
        one_of("require", "auto", "off"),
        "sandbox for commands: `auto` if one is available, `require` to refuse commands without one, or `off`",
        "EBB_SANDBOX",
    ),
    Option("agent.reasoning_effort", None, OptionalValue(effort), "reasoning effort"),
    Option(
        "agent.context_window", None, optional_count, "context window size in tokens; overrides the model's known size"
    ),
    Option("agent.max_output_tokens", None, optional_count, "maximum tokens of a reply"),
    Option(
        "agent.context_window_buffer_tokens", None, optional_count, "tokens kept free as a margin for estimation errors"
    ),
    Option("agent.tokenizer", None, OptionalValue(tokenizer_name), "tokenizer used to count tokens"),
    Option(
        "agent.compact_trigger", 0.95, parse_share, "share of the usable window at which older messages are summarised"
    ),
    Option("agent.threshold_ratio", None, optional_share, "like `compact_trigger`, as a share of the whole window"),
    Option("agent.hard_block", 0.98, parse_share, "share of the usable window above which no request is sent"),
    Option(
        "agent.background_at",
        0.65,
        parse_share,
        "share of the usable window from which summaries are prepared while idle",
    ),
    Option(
        "agent.background_messages",
        400,
        positive_integer,
        "number of messages from which summaries are prepared while idle",
    ),
    Option("agent.context_note_at", 0.80, parse_share, "share of the usable window from which the model is notified"),
    Option(
        "agent.on_full",
        "compact",
        one_of("compact", "final"),
        "when the window is full: compact, or take one final turn",
    ),
    Option(
        "agent.protect_tokens",
        None,
        optional_count,
        "tokens of the newest outputs that stay in context while there is room",
    ),
    Option(
        "agent.keep_last_n", None, optional_count, "newest messages whose outputs stay in context while there is room"
    ),
    Option(
        "agent.result_offload_threshold",
        4096,
        positive_integer,
        "size in bytes from which an output is stored and only partly shown",
    ),
    Option("agent.preview_bytes", 2048, positive_integer, "bytes shown of a stored output"),
    Option("agent.max_message_bytes", 51_200, positive_integer, "maximum bytes of a file that one read returns"),
    Option("agent.max_line_length", 2000, positive_integer, "maximum characters of a line that a read returns"),
    Option(
        "agent.tool_output_mode",
        "auto",
        one_of("auto", "full-chunked", "read-grep", "truncate"),
        "what is shown of large outputs: head, tail and error lines (`auto`), more text (`truncate`), or what a model "
        "finds by reading all of it (`full-chunked`) or by looking it up (`read-grep`); a model costs requests",
    ),
    Option(
        "agent.tool_deferral_threshold", 0.10, parse_share, "share of the usable window that tool definitions may take"
    ),
    Option("agent.tail_tokens", 6000, positive_integer, "tokens of the newest steps that a compaction keeps unchanged"),
    Option(
        "agent.retain_last_turns", 1, positive_integer, "newest turns that a compaction keeps unchanged, if they fit"
    ),
    Option("agent.retain_tokens", 1200, positive_integer, "maximum tokens of the notes retained for the whole session"),
    Option("agent.summary_tokens", 1800, positive_integer, "maximum tokens of a summary"),
    Option("agent.summary_model", None, optional_text, "the model that writes summaries, as PROVIDER/NAME"),
    Option("agent.summary_prompt", None, optional_text, "instructions for summaries, replacing the built-in ones"),
    Option("agent.summary_directives", (), parse_nonempty_strings, "additional instructions for summaries"),
    Option(
        "agent.retain_prompt", None, optional_text, "instructions for the retained notes, replacing the built-in ones"
    ),
    Option("agent.retain_directives", (), parse_nonempty_strings, "additional instructions for the retained notes"),
    Option(
        "context.style",
        None,
        OptionalValue(one_of(*CONTEXT_STYLES, former_names={"usual": "balanced"})),
        "how readily older parts leave the context: `frugal` costs least, `balanced` waits until that saves more, "
        "`careful` until it saves much more, so that fewer are needed again. Not set: `careful` with 600,000 usable "
        "tokens or more, otherwise `balanced`. `/context` compares them",
    ),
    Option(
        "rewrite.policy",
        "cost",
        one_of("cost", "total_budget", "fixed", "off", former_names={"rent": "cost"}),
        "when older parts leave the context: as soon as it pays off, when all outputs exceed `protect_tokens`, "
        "only when the window is nearly full, or only on request",
    ),
    Option(
        "rewrite.kappa_mask",
        4.5,
        parse_factor,
        "minimum savings, as a multiple of the cost, for old outputs to be reduced to one line each",
    ),
    Option(
        "rewrite.kappa_compact",
        6.0,
        parse_factor,
        "minimum savings, as a multiple of the cost, for a summary to be written",
    ),
    Option(
        "recall.scope",
        "project",
        one_of(*RECALL_SCOPES),
        "what may be recalled: this session, all sessions of this project, or those of all projects",
        tighten=_narrower_scope,
    ),
    Option("recall.embedding_model", None, optional_text, "folder of a model2vec model, for semantic search"),
    Option("archive.max_age", None, optional_days, "days after which stored outputs without references are removed"),
    Option(
        "archive.max_bytes",
        None,
        optional_count,
        "total bytes of stored outputs above which the oldest without references are removed",
    ),
    Option(
        "archive.max_output_bytes",
        MAX_OUTPUT_BYTES,
        positive_integer,
        "bytes stored of one command's output; beyond that, the middle is dropped",
    ),
    Option("checkpoints.enabled", True, parse_flag, "save files before the agent changes them; needed for `/undo`"),
    Option("checkpoints.max_file_bytes", 10_000_000, positive_integer, "size in bytes above which a file is not saved"),
    Option(
        "checkpoints.max_files",
        100_000,
        positive_integer,
        "number of files above which a folder is not saved before commands run in it",
    ),
    Option(
        "checkpoints.max_bytes",
        2_000_000_000,
        positive_integer,
        "total bytes above which a folder is not saved before commands run in it, and limit for its checkpoints, above "
        "which the oldest are removed",
    ),
    Option("hooks.after_tool", (), after_tool_hooks, "your programs that receive the unmodified outputs of some calls"),
    Option(
        "retry.patience",
        600.0,
        parse_seconds,
        "seconds for which a request is retried; if unset, the interface retries until Esc",
    ),
    Option("retry.first", 10.0, parse_seconds, "the same for an address that has not been reached yet"),
    Option(
        "retry.fallback_after",
        None,
        parse_optional_seconds,
        "seconds after which a model of `fallback_models` takes over",
    ),
    Option(
        "sandbox.ports",
        "ask",
        one_of(*PORT_RULES),
        "whether ports of background jobs in the sandbox are reachable at 127.0.0.1: always (`forward`), or with "
        "`/tasks forward`",
        tighten=_stricter_port_rule,
    ),
    Option(
        "jobs.wake",
        False,
        parse_flag,
        "whether the model continues by itself when a background job ends while it is idle (interactive sessions)",
        tighten=_both_enabled,
    ),
    Option(
        "tools.allowed",
        (),
        parse_nonempty_strings,
        "the built-in tools to offer; empty means all",
        tighten=_common_names,
    ),
    Option("tools.denied", (), parse_nonempty_strings, "built-in tools to disable", tighten=_with_project_names),
    Option(
        "agent.cache_lifetime",
        "auto",
        one_of("auto", "5m", "1h"),
        "how long Anthropic keeps its cache of an interactive session; with an hour, cache writes cost more, "
        "but the cache survives longer pauses; `auto` decides from the length of your earlier pauses",
    ),
    Option(
        "agent.keep_alive",
        "off",
        parse_keep_alive,
        "how many requests keep the provider's cache alive while you think (interactive sessions): each is sent "
        "shortly before the cache expires and costs one cache read, and only if it will probably save more",
    ),
    Option(
        "web.search",
        "auto",
        web_search,
        "who runs searches for `web_search`: the model's provider with its own search (`auto`: Anthropic, OpenAI, "
        "Gemini, OpenRouter and xAI at their own addresses, `provider`: also at another address), or a program with "
        "arguments, in which the query replaces `{query}` or is appended; `off` removes the tool",
    ),
    Option(
        "web.private",
        (),
        parse_nonempty_strings,
        "hosts on private networks that `web_fetch`, and commands that a rule allows, may reach, as `HOST` or "
        "`HOST:PORT`",
    ),
    Option("agent.max_turns", None, optional_count, "maximum number of requests per turn"),
    Option("agent.max_cost", None, parse_dollars, "maximum cost of a run in US dollars"),
    Option(
        "agents.model",
        None,
        optional_text,
        "model of sub-agents whose definition names none; default: the session's model",
    ),
    Option("agents.concurrent", 4, positive_integer, "sub-agents that run at the same time, at most ten"),
    Option("agents.max_turns", 50, optional_count, "maximum number of requests of a sub-agent per task"),
    Option(
        "mcp.wait",
        None,
        parse_optional_seconds,
        "seconds that the first request waits for MCP servers; default 30, or 0 in interactive sessions",
    ),
    Option("mcp.disabled", (), parse_nonempty_strings, "MCP servers that are not started", tighten=_with_project_names),
    Option(
        "lsp.enabled",
        True,
        parse_flag,
        "send the model the language servers' diagnostics for its edits",
        tighten=_both_enabled,
    ),
    Option("lsp.timeout", 2.0, parse_seconds, "seconds that an edit waits for diagnostics of language servers"),
    Option(
        "telemetry.endpoint",
        None,
        optional_text,
        "address of an OpenTelemetry collector, such as http://127.0.0.1:4318; if unset, nothing is sent",
    ),
    Option(
        "telemetry.content",
        False,
        parse_flag,
        "also send prompts, answers, arguments and outputs, with recognised keys and passwords removed",
    ),
    Option("tui.keys", "usual", one_of(*KEY_BINDING_STYLES), "key bindings of the prompt; `vim` for vi keys"),
    Option("tui.theme", "auto", one_of(*THEMES), "colour theme; `auto` follows the terminal"),
    Option(
        "tui.panel", True, parse_flag, "side panel with the task list, files, context and servers (from 140 columns)"
    ),
    Option("tui.animation", True, parse_flag, "animated indicator in the status line while the agent works"),
    Option(
        "tui.detail",
        "normal",
        one_of(*DETAIL_LEVELS),
        "how much of each call is shown: one line; also its diff, list or last output lines; or everything",
    ),
    Option(
        "tui.thoughts",
        "line",
        one_of(*THOUGHTS_DISPLAYS),
        "how the model's thoughts are shown: one line, in full, or not at all",
    ),
    Option(
        "tui.notify",
        "auto",
        one_of(*NOTIFICATION_METHODS),
        "notification when the agent waits or has finished while you are away; `auto`: the terminal's notification, "
        "else its bell",
    ),
    Option(
        "tui.status",
        STATUS_PARTS,
        status_parts,
        "parts of the status line; if space is short, they are dropped from the start of the list",
    ),
    Option("permissions.allow", (), permission_rules, "calls that run without asking"),
    Option("permissions.deny", (), permission_rules, "calls that never run", tighten=_with_project_rules),
    Option("permissions.roots", (), parse_nonempty_strings, "additional folders, treated like the working folder"),
    Option(
        "permissions.sandboxed",
        "ask",
        one_of("ask", "allow"),
        "`allow`: sandboxed commands run without asking",
    ),
)

OPTIONS_BY_KEY = {option.key: option for option in OPTIONS}

PROVIDER_NAMES = ("anthropic", "openai", "openai-chat", "ollama", *CHAT_HOSTS, *CLOUDS, *SUBSCRIPTIONS, "scripted")
