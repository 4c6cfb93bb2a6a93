"""The keys that may be set, what each may hold and what it is for."""

from collections.abc import Callable
from typing import Literal, TypeAlias, cast, get_args

from ebbtide.agent.config.option_values import (
    Unset,
    count,
    dollars,
    factor,
    flag,
    hooks,
    keep_alive,
    one_of,
    optional_count,
    optional_days,
    optional_share,
    optional_text,
    optional_wait,
    search_command,
    seconds,
    share,
    texts,
    tokenizer_name,
)
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import MAX_OUTPUT_BYTES
from ebbtide.tools.outputs.recall_scope import SCOPES, Scope

Mode: TypeAlias = Literal["ask", "accept-edits", "plan", "auto"]

MODES: tuple[Mode, ...] = ("ask", "accept-edits", "plan", "auto")

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

KeysName: TypeAlias = Literal["usual", "vim"]

KEY_NAMES: tuple[KeysName, ...] = ("usual", "vim")

THEMES: tuple[ThemeName, ...] = get_args(ThemeName)

DetailName: TypeAlias = Literal["compact", "normal", "full"]

DETAILS: tuple[DetailName, ...] = ("compact", "normal", "full")

ThoughtsName: TypeAlias = Literal["line", "open", "hidden"]
THOUGHTS: tuple[ThoughtsName, ...] = ("line", "open", "hidden")

NotifyName: TypeAlias = Literal["auto", "bell", "osc", "desktop", "off"]

NOTIFY: tuple[NotifyName, ...] = ("auto", "bell", "osc", "desktop", "off")

StatusPart: TypeAlias = Literal["speed", "cache", "branch", "mode", "turn", "model", "cost", "context"]

STATUS: tuple[StatusPart, ...] = ("speed", "cache", "branch", "mode", "turn", "model", "cost", "context")

PortRule: TypeAlias = Literal["off", "ask", "forward"]

PORT_RULES: tuple[PortRule, ...] = ("off", "ask", "forward")

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


def stricter_mode(one: Mode, other: Mode) -> Mode:
    return min(one, other, key=lambda mode: _STRICTNESS[mode])


def _stricter(current: object, project: object) -> object:
    return min(current, project, key=lambda mode: _STRICTNESS[str(mode)])


def _narrower_scope(current: object, project: object) -> object:
    return min(current, project, key=lambda scope: SCOPES.index(cast(Scope, scope)))


def _also(current: object, project: object) -> object:
    return tuple(dict.fromkeys((*rules(current), *rules(project))))


def _also_names(current: object, project: object) -> object:
    return tuple(dict.fromkeys((*texts(current), *texts(project))))


def _both(current: object, project: object) -> object:
    """The names that both have; an empty list names all."""
    here, there = texts(current), texts(project)
    return tuple(name for name in there if name in here) or here if here else there


def _neither(current: object, project: object) -> object:
    return flag(current) and flag(project)


def _fewer_ports(current: object, project: object) -> object:
    return min(current, project, key=lambda rule: PORT_RULES.index(cast(PortRule, rule)))


EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

effort = one_of(*EFFORTS)

OPTIONS: tuple[Option, ...] = (
    Option("agent.model", None, optional_text, "the model, as PROVIDER/NAME", "EBB_MODEL"),
    Option("agent.fallback_models", (), texts, "models that take over, in order, when a conversation does not fit"),
    Option(
        "agent.permission_mode", "ask", one_of(*MODES), "what runs without a question", "EBB_PERMISSION_MODE", _stricter
    ),
    Option(
        "agent.sandbox",
        "auto",
        one_of("require", "auto", "off"),
        "whether commands run in a sandbox: where one works, always (`require` refuses them without one), or never",
        "EBB_SANDBOX",
    ),
    Option("agent.reasoning_effort", None, Unset(effort), "how hard to think"),
    Option("agent.context_window", None, optional_count, "tokens of the model's window, over what is known of it"),
    Option("agent.max_output_tokens", None, optional_count, "tokens that a reply may take"),
    Option("agent.context_window_buffer_tokens", None, optional_count, "tokens kept free for errors of the estimate"),
    Option("agent.tokenizer", None, Unset(tokenizer_name), "how texts are counted"),
    Option("agent.compact_trigger", 0.95, share, "share of the usable window at which older messages are summarised"),
    Option("agent.threshold_ratio", None, optional_share, "the same as a share of the whole window"),
    Option("agent.hard_block", 0.98, share, "share of the usable window above which no request is sent"),
    Option("agent.background_at", 0.65, share, "share of the usable window from which summaries are made while idle"),
    Option("agent.background_messages", 400, count, "messages from which summaries are made while idle"),
    Option("agent.context_note_at", 0.80, share, "share of the usable window from which the model is told of it"),
    Option(
        "agent.on_full", "compact", one_of("compact", "final"), "when the window is full: make room, or one last turn"
    ),
    Option(
        "agent.protect_tokens",
        None,
        optional_count,
        "tokens of the newest outputs that stay in view while there is room",
    ),
    Option("agent.keep_last_n", None, optional_count, "newest messages whose outputs stay in view while there is room"),
    Option("agent.result_offload_threshold", 4096, count, "bytes from which an output is stored and shown in part"),
    Option("agent.preview_bytes", 2048, count, "bytes that are shown of an output that is stored"),
    Option("agent.max_message_bytes", 51_200, count, "bytes of a file that one read shows"),
    Option("agent.max_line_length", 2000, count, "characters of a line that a read shows"),
    Option(
        "agent.tool_output_mode",
        "auto",
        one_of("auto", "full-chunked", "read-grep", "truncate"),
        "what is shown of large outputs: their ends (`auto`, `read-grep`), more of them (`truncate`), or what a model "
        "finds in them (`full-chunked`, which costs requests)",
    ),
    Option("agent.tool_deferral_threshold", 0.10, share, "share of the usable window that tool definitions may take"),
    Option("agent.tail_tokens", 6000, count, "tokens of the newest steps that a compaction leaves as they are"),
    Option("agent.retain_last_turns", 1, count, "newest turns that a compaction leaves as they are, if they fit"),
    Option("agent.retain_tokens", 1200, count, "tokens of what is retained for the whole session"),
    Option("agent.summary_tokens", 1800, count, "tokens of a summary"),
    Option("agent.summary_model", None, optional_text, "the model that summarises, as PROVIDER/NAME"),
    Option("agent.summary_prompt", None, optional_text, "what a summary has to hold, in place of the usual"),
    Option("agent.summary_directives", (), texts, "what else a summary is asked for"),
    Option("agent.retain_prompt", None, optional_text, "what is retained for the whole session, in place of the usual"),
    Option("agent.retain_directives", (), texts, "what else the retained document is asked for"),
    Option(
        "rewrite.policy",
        "rent",
        one_of("rent", "total_budget", "fixed", "off"),
        "when older parts leave the view: as soon as that pays, when all outputs together exceed `protect_tokens`, "
        "only near the end of the window, or when you ask",
    ),
    Option(
        "rewrite.patience",
        "usual",
        one_of("usual", "careful"),
        "`careful`: older parts leave later, outputs after five times the saving and the rest after half as much "
        "again. In recorded sessions at a window of 200,000 tokens 39 % fewer of them were needed again, for 7 % "
        "more cost; at 100,000 it changes little",
    ),
    Option(
        "rewrite.kappa_mask",
        1.5,
        factor,
        "how many times its cost it must have saved to show old outputs as one line each",
    ),
    Option("rewrite.kappa_compact", 6.0, factor, "how many times its cost a summary must have saved"),
    Option(
        "recall.scope",
        "project",
        one_of(*SCOPES),
        "what may be recalled: this session, the sessions of this project, or those of all projects",
        tightens=_narrower_scope,
    ),
    Option("recall.embedding_model", None, optional_text, "folder of a model2vec model, to search by meaning, too"),
    Option("archive.max_age", None, optional_days, "days after which a kept output is removed that nothing refers to"),
    Option(
        "archive.max_bytes",
        None,
        optional_count,
        "bytes that kept outputs may take before the oldest go that nothing refers to",
    ),
    Option(
        "archive.max_output_bytes",
        MAX_OUTPUT_BYTES,
        count,
        "bytes that are kept of what one command prints; of more, the middle is dropped",
    ),
    Option(
        "checkpoints.enabled", True, flag, "keep files as they were before the agent changes them: `/undo` needs that"
    ),
    Option("checkpoints.max_file_bytes", 10_000_000, count, "bytes of a file above which it is not kept"),
    Option("checkpoints.max_files", 100_000, count, "files above which a folder is not kept before commands run in it"),
    Option(
        "checkpoints.max_bytes",
        2_000_000_000,
        count,
        "bytes of a folder's files above which it is not kept before commands run in it, and that its checkpoints may "
        "take before the oldest go",
    ),
    Option("hooks.after_tool", (), hooks, "programs of yours that get the outputs of some calls, each as it came"),
    Option(
        "retry.patience", 600.0, seconds, "seconds that a request is tried again; in a terminal until Esc, if unset"
    ),
    Option("retry.first", 10.0, seconds, "the same for an address that was never reached yet"),
    Option("retry.fallback_after", None, optional_wait, "seconds after which a model of `fallback_models` takes over"),
    Option(
        "sandbox.ports",
        "ask",
        one_of(*PORT_RULES),
        "whether you reach the ports that background jobs listen on in the sandbox, at 127.0.0.1: always, or by "
        "`/tasks forward`",
        tightens=_fewer_ports,
    ),
    Option(
        "jobs.wake",
        False,
        flag,
        "whether the model continues by itself, in a terminal, when a background job is over while nothing else runs",
        tightens=_neither,
    ),
    Option("tools.allowed", (), texts, "the built-in tools that are offered; none named: all", tightens=_both),
    Option("tools.denied", (), texts, "built-in tools that are neither offered nor run", tightens=_also_names),
    Option(
        "agent.keep_alive",
        "off",
        keep_alive,
        "how often the provider's cache is kept alive while you think, in a terminal only: a request shortly before it "
        "runs out, which costs a read of all that is in it; sent only where that will probably save more",
    ),
    Option(
        "web.search",
        (),
        search_command,
        "the program that `web_search` runs, with its words; the query replaces `{query}` or comes last",
    ),
    Option(
        "web.private",
        (),
        texts,
        "hosts on private networks that `web_fetch` may reach, and commands by rule, as `HOST` or `HOST:PORT`",
    ),
    Option("agent.max_turns", None, optional_count, "requests that one turn may make"),
    Option("agent.max_cost", None, dollars, "US dollars one run may cost"),
    Option("agents.model", None, optional_text, "the model of agents that name none, in place of the session's own"),
    Option("agents.concurrent", 4, count, "agents that work at the same time, ten at most"),
    Option("agents.max_turns", 50, optional_count, "requests that an agent may make for one task"),
    Option(
        "mcp.wait",
        None,
        optional_wait,
        "seconds that the first request waits for servers; without it 30, and 0 in a terminal",
    ),
    Option("mcp.disabled", (), texts, "servers that are not started", tightens=_also_names),
    Option(
        "lsp.enabled",
        True,
        flag,
        "tell the model what language servers find wrong with what it has just changed, where there are some",
        tightens=_neither,
    ),
    Option("lsp.timeout", 2.0, seconds, "seconds that a change of a file waits for what language servers say of it"),
    Option(
        "telemetry.endpoint",
        None,
        optional_text,
        "the OpenTelemetry collector that is told what sessions do, such as http://127.0.0.1:4318; none: nobody is",
    ),
    Option(
        "telemetry.content",
        False,
        flag,
        "whether it is also told prompts, answers, arguments and outputs, without keys and passwords that can be told",
    ),
    Option("tui.keys", "usual", one_of(*KEY_NAMES), "keys of the prompt; `vim`: those of vi"),
    Option("tui.theme", "auto", one_of(*THEMES), "the terminal's colours; `auto`: light or dark, as the terminal is"),
    Option("tui.panel", True, flag, "list, files, context and servers beside the conversation, from 140 columns on"),
    Option("tui.animation", True, flag, "a mark that moves in the status line while it works"),
    Option(
        "tui.detail",
        "normal",
        one_of(*DETAILS),
        "how much of each call is shown: its line; also its diff, its list or the end of its output; or all of it",
    ),
    Option(
        "tui.thoughts", "line", one_of(*THOUGHTS), "how much of the model's thoughts is shown: a line, all, or nothing"
    ),
    Option(
        "tui.notify",
        "auto",
        one_of(*NOTIFY),
        "how you are told that it waits or is done while you look elsewhere; `auto`: by the terminal, or by its bell",
    ),
    Option(
        "tui.status",
        STATUS,
        status_parts,
        "parts of the status line; where room is short, the first are left out first",
    ),
    Option("permissions.allow", (), rules, "calls that run without a question"),
    Option("permissions.deny", (), rules, "calls that never run", tightens=_also),
    Option("permissions.roots", (), texts, "further folders that are worked in as in the working folder"),
    Option(
        "permissions.sandboxed",
        "ask",
        one_of("ask", "allow"),
        "`allow`: commands need no question where a sandbox holds them",
    ),
)

BY_KEY = {option.key: option for option in OPTIONS}

PROVIDERS = ("anthropic", "openai", "openai-chat", "ollama", "scripted")
