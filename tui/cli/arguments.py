"""The arguments of `ebb`, and the settings derived from them. Nothing here starts a front end."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ebbtide.agent import config as agent_config
from ebbtide.agent import providers, records
from ebbtide.agent.errors import EXIT_CODES, UsageError
from ebbtide.agent.integration_registry import STREAM_FORMATS
from ebbtide.tools import secrets
from ebbtide.tui import integration_registry
from ebbtide.tui import text as tui_text

if TYPE_CHECKING:  # imported for types only: `--help` should import nothing that it does not need
    from _typeshed import SupportsWrite

    from ebbtide.agent.compose.sessions import ProjectSessions
    from ebbtide.agent.config.values import Config

T = TypeVar("T")

_FLAGS_WITH_VALUE = {
    "-w", "--worktree",
    "-p", "--prompt", "--output-format", "--output-schema", "--max-turns", "--max-cost", "--permission-mode", "--allow",
    "--deny", "--rules", "--mode", "--add-dir", "-m", "--model", "--context-window", "-C", "--cd", "--config",
    "--input-format", "--max-time", "--output-last-message", "--session-id", "--append-system-prompt",
    "--system-prompt-file", "--permission-prompt-tool",
}  # fmt: skip


SUBCOMMANDS: Mapping[str, str] = {
    "sessions": "list, search, tag, fork, rename, export, import or delete sessions",
    "context": "show what fills a session's context and what it has cost",
    "usage": "show tokens and costs by day, model or project",
    "config": "show every setting, its value and source, or the JSON Schema",
    "key": "store or remove API keys",
    "plugin": "manage plugins (skills, commands, agents, hooks, MCP servers)",
    "trust": "review and approve what this project ships",
    "hooks": "list hooks: your programs, run on events",
    "permissions": "show whether a command would be allowed",
    "undo": "revert the agent's file changes",
    "completion": "print a completion script for your shell",
    "demo": "watch a scripted model fix a real bug",
    **{name: row.description for name, row in integration_registry.SUBCOMMANDS.items()},
}
"""The subcommands and their descriptions."""

_MAX_SYSTEM_PROMPT_CHARS = 1_000_000
"""Maximum number of characters read from a system prompt file, which could be an endless device. No context window is
larger."""
_SESSION_ID_START = r"[0-9a-f]{4,12}|[0-9a-f]{8}-[0-9a-f-]{0,27}"
"""The beginning of a session id, as a user would type it."""

OUTPUT_FORMATS = ("text", "json", "stream-json", *STREAM_FORMATS)
INPUT_FORMATS = ("text", "stream-json", *STREAM_FORMATS)

_is_capturing: ContextVar[bool] = ContextVar("_is_capturing", default=False)


class ParserCaptured(Exception):
    """Raised instead of parsing arguments, so that the caller gets the parser."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__(parser.prog)
        self.parser = parser


class CliParser(argparse.ArgumentParser):
    """An argument parser that reports usage errors in one line and does not hide output errors."""

    def parse_known_args(  # type: ignore[override]  # no caller passes a namespace of another type
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        if _is_capturing.get():
            raise ParserCaptured(self)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the error in one line and exit with 2. argparse would also print a list of flags, in which the error
        would get lost."""
        text = tui_text.sanitise.sanitise_line(secrets.redaction.redact_text(message, {}))
        self.exit(2, f"ebb: {text}; see `{self.prog} --help`\n")

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        if file is not None and file is sys.stdout:
            file.write(message)  # argparse would print nothing and exit with 0
        else:
            super()._print_message(message, file)


def parse_integer(word: str) -> int:
    """Parse an integer argument. The setting checks its range."""
    try:
        return int(word)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected a whole number, got `{word}`") from error


def parse_number(word: str) -> float:
    """Parse a float argument. The setting checks its range."""
    try:
        return float(word)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected a number, got `{word}`") from error


def capture_parser(command: Callable[[Sequence[str]], object], arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Get the parser that a command would use for these arguments, without running the command."""
    token = _is_capturing.set(True)
    try:
        command(arguments)
    except ParserCaptured as captured:
        return captured.parser
    finally:
        _is_capturing.reset(token)
    raise LookupError("the command reads no arguments")


def action_names(parser: argparse.ArgumentParser) -> Sequence[str]:
    """Get the names of a command's actions, which are the allowed values of its first positional argument. Empty if
    that argument is not `action`."""
    for action in parser._actions:
        if not action.option_strings:
            return tuple(map(str, action.choices or ())) if action.dest == "action" else ()
    return ()


class VersionAction(argparse.Action):
    """Print the versions and exit. Each is on its own line, the program's version first."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser._print_message(
            "".join(f"{name} {version}\n" for name, version in records.versions.collect_versions().items()), sys.stdout
        )
        parser.exit()


def first_positional_index(arguments: Sequence[str]) -> int | None:
    """Find the index of the first word that is neither a flag nor a flag's value. None if there is no such word or if
    it follows `--`."""
    index = 0
    while index < len(arguments):
        word = arguments[index]
        if word == "--":
            return None
        if not word.startswith("-") or word == "-":
            return index
        takes_next = word in _FLAGS_WITH_VALUE and not (
            word in ("-p", "--prompt") and _starts_with_flag(arguments[index + 1 :])
        )
        index += 2 if takes_next else 1
    return None


def _starts_with_flag(words: Sequence[str]) -> bool:
    """Whether the next word is a flag. If so, a preceding flag with an optional value has no value."""
    return bool(words) and words[0].startswith("-") and words[0] != "-"


def make_parser() -> argparse.ArgumentParser:
    parser = CliParser(
        prog="ebb",
        description="A terminal coding agent that never overflows its context window and never loses anything.",
        epilog=_help_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("words", nargs="*", metavar="PROMPT", help="start an interactive session with this message")
    prompt_help = "print the answer and exit; without TEXT, or with `-`, read the prompt from stdin"
    parser.add_argument("-p", "--prompt", nargs="?", const="-", metavar="TEXT", help=prompt_help)
    add_common_flags(parser)
    parser.add_argument("--plain", action="store_true", help="line mode: no full-screen interface")
    headless = parser.add_argument_group("without an interface (`-p`)")
    output_format_help = "plain text, one JSON object, a stream of JSON events, or Claude Code's format"
    headless.add_argument("--output-format", choices=OUTPUT_FORMATS, default="text", help=output_format_help)
    input_format_help = "read stdin as the prompt, or as one JSON message per line"
    headless.add_argument("--input-format", choices=INPUT_FORMATS, default="text", help=input_format_help)
    permission_tool_help = (
        "who answers permission requests; `stdio`: the calling program (needs `--input-format claude-stream-json`)"
    )
    headless.add_argument("--permission-prompt-tool", choices=("stdio",), help=permission_tool_help)
    partial_messages_help = "include partial messages as they stream (needs `--output-format claude-stream-json`)"
    headless.add_argument("--include-partial-messages", action="store_true", help=partial_messages_help)
    headless.add_argument("--output-schema", metavar="FILE", help="require an answer that matches this JSON Schema")
    headless.add_argument("--max-turns", type=parse_integer, metavar="N", help="stop after N model requests")
    headless.add_argument("--max-cost", type=parse_number, metavar="USD", help="stop when the cost reaches USD")
    headless.add_argument("--max-time", metavar="SECONDS", help="stop after SECONDS")
    headless.add_argument("--output-last-message", metavar="FILE", help="also write the answer to FILE")
    headless.add_argument("--session-id", metavar="UUID", help="id for the new session")
    headless.add_argument("--verbose", action="store_true", help="log every step and tool call to stderr")
    headless.add_argument("--quiet", action="store_true", help="do not report compactions on stderr")
    permission_mode_help = "what may run without asking"
    parser.add_argument("--permission-mode", choices=("ask", "accept-edits", "plan", "auto"), help=permission_mode_help)
    parser.add_argument(
        "--allow", action="append", metavar="RULE", help="always allow matching calls, e.g. 'bash(git status)'"
    )
    parser.add_argument(
        "--deny", action="append", metavar="RULE", help="never allow matching calls, e.g. 'write(.env)'"
    )
    add_dir_help = "also allow work in this folder (repeatable)"
    parser.add_argument("--add-dir", action="append", metavar="DIR", help=add_dir_help)
    parser.add_argument("--no-sandbox", action="store_true", help="run commands outside the sandbox")
    trust_help = "start the project's MCP servers without asking, for this run"
    parser.add_argument("--trust", action="store_true", help=trust_help)
    worktree_help = "work in a git worktree of this name, on its own branch; created if missing"
    parser.add_argument("-w", "--worktree", metavar="NAME", help=worktree_help)
    parser.add_argument("--ephemeral", action="store_true", help="do not save this session")
    append_help = "append TEXT to the system prompt"
    parser.add_argument("--append-system-prompt", metavar="TEXT", help=append_help)
    system_prompt_help = "replace the built-in system prompt with FILE"
    parser.add_argument("--system-prompt-file", metavar="FILE", help=system_prompt_help)
    session_group = parser.add_mutually_exclusive_group()
    session_group.add_argument(
        "-c", "--continue", dest="resume", action="store_const", const="", help="continue the most recent session"
    )
    session_group.add_argument(
        "-r",
        "--resume",
        dest="pick",
        nargs="?",
        const="",
        metavar="ID",
        help="resume session ID; without ID, pick from a list",
    )
    parser.add_argument("--version", action=VersionAction, nargs=0, help="show version information and exit")
    return parser


def _help_epilog() -> str:
    """Build the epilog of `--help`: commands and exit codes."""
    import textwrap  # noqa: PLC0415  # deferred: argparse loads it only to print help

    commands = "\n".join(f"  ebb {name:<12} {description}" for name, description in SUBCOMMANDS.items())
    exit_codes = ", ".join(f"{code} {meaning}" for code, (meaning, _) in EXIT_CODES.items())
    return (
        f"commands (`ebb COMMAND --help` for details; `ebb -- WORD` sends a command name as a prompt):\n{commands}\n\n"
        + textwrap.fill(f"exit codes: {exit_codes}", 78, subsequent_indent="  ")
    )


def create_subcommand_parser(command: str, description: str, epilog: str | None = None) -> argparse.ArgumentParser:
    """Create the parser of a subcommand, for use with `parse_subcommand_args`."""
    return CliParser(prog=f"ebb {command}", description=description, epilog=epilog, allow_abbrev=False)


def parse_subcommand_args(
    parser: argparse.ArgumentParser, arguments: Sequence[str], json_description: str, *, has_one_word: bool = False
) -> argparse.Namespace:
    """Parse a subcommand's arguments and the common flags, which may appear in any order. `json_description`: what
    `--json` prints, for the help text. `has_one_word`: whether only one positional argument is allowed."""
    parser.add_argument("--json", action="store_true", help=f"print {json_description}")
    add_common_flags(parser)
    return parser.parse_args(arguments) if has_one_word else parser.parse_intermixed_args(arguments)


def add_common_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-m", "--model", metavar="PROVIDER/NAME", help="use this model: anthropic/…, openai/…, openai-chat/…, ollama/…"
    )
    parser.add_argument("--context-window", type=parse_integer, metavar="N", help="context window size, in tokens")
    parser.add_argument("-C", "--cd", metavar="DIR", default=".", help="work in this folder")
    parser.add_argument(
        "--config", action="append", metavar="KEY=VALUE", default=[], help="override one setting (repeatable)"
    )
    parser.add_argument("--debug", action="store_true", help="show tracebacks")


def confirm(question: str, *, as_json: bool) -> bool:
    """Ask a yes-no question in the terminal and return the answer. Anything typed before the question is discarded."""
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    import termios  # noqa: PLC0415  # deferred: few runs ask

    with suppress(termios.error):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    try:
        return input(f"{tui_text.sanitise.sanitise(question)} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def join_resume_id(arguments: Sequence[str]) -> list[str]:
    """Turn `-r WORD` into one argument if WORD is meant as a session id: it looks like one, it is the only word, or
    there is another prompt. Several words, or one argument that contains spaces, are taken as a prompt."""
    separator_index = arguments.index("--") if "--" in arguments else len(arguments)
    before_separator, after_separator = arguments[:separator_index], arguments[separator_index:]
    has_prompt = any(re.match(r"-p|--prompt(=|$)", word) for word in before_separator)
    joined_arguments: list[str] = []
    for index, word in enumerate(before_separator):
        if joined_arguments and joined_arguments[-1] in ("-r", "--resume"):
            is_only_word = (
                word.split() == [word]
                and first_positional_index([*before_separator[:index], *before_separator[index + 1 :]]) is None
            )
            is_word = not word.startswith("-")
            may_be_id = is_word and (has_prompt or is_only_word or re.fullmatch(_SESSION_ID_START, word))
            joined_arguments[-1] = f"--resume={word}" if may_be_id else "--resume="
            if may_be_id:
                continue
        joined_arguments.append(word)
    return [*("--resume=" if word in ("-r", "--resume") else word for word in joined_arguments), *after_separator]


def open_sessions(options: argparse.Namespace, *, is_interactive: bool) -> "ProjectSessions":
    """Open the sessions of the working folder, with its settings. Raises `UsageError`."""
    root, config = read_settings_with_warnings(options)
    return create_sessions(root, config, options, is_interactive=is_interactive)


def run_with_sessions(
    options: argparse.Namespace, use_sessions: "Callable[[ProjectSessions], Coroutine[Any, Any, T]]"
) -> T:
    """Run `use_sessions` with the sessions of the working folder, and close them afterwards. Raises `UsageError`."""
    import asyncio  # noqa: PLC0415  # deferred: `--help` should import nothing it does not need

    async def run() -> T:
        sessions = open_sessions(options, is_interactive=False)
        try:
            return await use_sessions(sessions)
        finally:
            await sessions.close()

    return asyncio.run(run())


def read_settings_with_warnings(options: argparse.Namespace) -> tuple[Path, "Config"]:
    """Read the settings, printing warnings on stderr."""
    root, config = read_settings(options)
    for notice in config.notices:
        print(f"ebb: {tui_text.sanitise.sanitise_line(notice)}", file=sys.stderr)
    return root, config


def create_sessions(
    root: Path, config: "Config", options: argparse.Namespace, *, is_interactive: bool
) -> "ProjectSessions":
    """Create the sessions of a folder with the given settings."""
    from ebbtide.agent.compose.sessions import ProjectSessions  # noqa: PLC0415  # deferred: `--help` should import nothing it does not need

    environment = environment_with_keys(config)
    return ProjectSessions(
        config, root, environment, is_interactive=is_interactive, is_ephemeral=getattr(options, "ephemeral", False)
    )


def environment_with_keys(config: "Config") -> Mapping[str, str]:
    """Return the environment, with the API keys and sign-ins stored by `ebb key`."""
    if not any(os.path.lexists(config.folders.config / name) for name in ("keys.json", "sign-ins.json")):
        return os.environ
    return providers.keys.add_stored_keys(config.folders.config, os.environ)


def read_settings(options: argparse.Namespace) -> tuple[Path, "Config"]:
    """Determine the working folder and read its configuration. Raises `UsageError`."""
    try:
        root = Path(options.cd).expanduser()
        is_folder = root.is_dir() and root.resolve(strict=True).is_dir()
    except (OSError, RuntimeError) as error:
        raise UsageError(f"cannot work in `{options.cd}`: {error}; use another folder with -C") from error
    if not is_folder:
        raise UsageError(f"no such folder: `{options.cd}`; use an existing one with -C")
    flags = {
        key: value
        for key, value in (
            ("agent.model", options.model),
            ("agent.context_window", options.context_window),
            ("agent.permission_mode", getattr(options, "permission_mode", None)),
            ("agent.max_turns", getattr(options, "max_turns", None)),
            ("agent.max_cost", getattr(options, "max_cost", None)),
            ("permissions.allow", getattr(options, "allow", None)),
            ("permissions.deny", getattr(options, "deny", None)),
            ("permissions.roots", getattr(options, "add_dir", None)),
            ("agent.sandbox", "off" if getattr(options, "no_sandbox", False) else None),
        )
        if value is not None
    }
    config = agent_config.load.load_config(root, os.environ, flags, tuple(options.config))
    return root, replace(
        config,
        is_project_trusted=getattr(options, "trust", False),
        system_prompt=_read_system_prompt(getattr(options, "system_prompt_file", None)),
        append_system_prompt=(getattr(options, "append_system_prompt", None) or "").encode("utf-8", "replace").decode(),
    )


def _read_system_prompt(file_name: str | None) -> str:
    """Read the system prompt file; empty if no file is given. Raises `UsageError`."""
    if file_name is None:
        return ""
    try:
        with Path(file_name).open(encoding="utf-8") as file:
            text = file.read(_MAX_SYSTEM_PROMPT_CHARS + 1).strip()
    except (OSError, ValueError) as error:
        problem = (
            "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else getattr(error, "strerror", None) or error
        )
        raise UsageError(f"cannot read the system prompt `{file_name}`: {problem}") from error
    if not text:
        raise UsageError(f"the system prompt `{file_name}` is empty; omit the flag to use the built-in one")
    if len(text) > _MAX_SYSTEM_PROMPT_CHARS:
        raise UsageError(f"the system prompt `{file_name}` is longer than a million characters; make it shorter")
    return text
