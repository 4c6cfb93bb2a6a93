"""The arguments of `ebb`, and the settings derived from them. It starts no front end."""

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

from ebbtide.agent.errors import EXIT_CODES, UsageError

if TYPE_CHECKING:  # types only: `--help` should import nothing it does not need
    from _typeshed import SupportsWrite

    from ebbtide.agent.config.values import Config
    from ebbtide.agent.sessions import Sessions

T = TypeVar("T")

_TAKES_VALUE = {
    "-w", "--worktree",
    "-p", "--prompt", "--output-format", "--output-schema", "--max-turns", "--max-cost", "--permission-mode", "--allow",
    "--deny", "--rules", "--mode", "--add-dir", "-m", "--model", "--context-window", "-C", "--cd", "--config",
    "--input-format", "--max-time", "--output-last-message", "--session-id", "--append-system-prompt",
    "--system-prompt-file", "--permission-prompt-tool",
}  # fmt: skip


SUBCOMMANDS: Mapping[str, str] = {
    "sessions": "list, search, tag, fork, rename, export, import or delete stored sessions",
    "context": "what a session's context holds and what it has cost",
    "usage": "tokens and costs by day, model or project",
    "config": "every setting, its value and where it comes from; `ebb config schema`",
    "key": "keep the key of a provider",
    "mcp": "servers of the Model Context Protocol; `ebb mcp serve` is one",
    "plugin": "folders that bring skills, commands, agents, hooks and servers",
    "trust": "what this project brings, and what of it is approved",
    "hooks": "programs that are told what happens",
    "permissions": "what would be decided about a command",
    "doctor": "check settings, keys, network, terminal, servers and the store",
    "undo": "take back what the agent changed in files",
    "import": "take over what other agents have kept",
    "review": "what a model finds wrong with a change, also for CI",
    "batch": "many tasks from a file, each once",
    "claude-code": "as `claude -p`, for programs that are written for it",
    "completion": "complete commands, sessions and models in your shell",
    "demo": "a scripted model repairs a real bug",
    "serve": "the terminal in a browser",
    "acp": "sessions for an editor",
}
"""The subcommands and their descriptions."""

_MAX_SYSTEM_PROMPT_CHARS = 1_000_000
"""Limit in characters. A device may be endless, and no window is larger."""
_LIKE_ID = r"[0-9a-f]{4,12}|[0-9a-f]{8}-[0-9a-f-]{0,27}"
"""The start of a session id, as typed."""

FORMATS = ("text", "json", "stream-json", "claude-stream-json")
INPUT_FORMATS = ("text", "stream-json", "claude-stream-json")

_inspecting: ContextVar[bool] = ContextVar("_inspecting", default=False)


class ParserMade(Exception):
    """Raised instead of parsing, to get the parser itself."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__(parser.prog)
        self.parser = parser


class CliArguments(argparse.ArgumentParser):
    """An argument parser that reports usage errors in one line, and output errors like any other."""

    def parse_known_args(  # type: ignore[override]  # namespaces of another type are nowhere asked for
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        if _inspecting.get():
            raise ParserMade(self)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the error in one line and exit with 2. The usual list of flags would hide it."""
        from ebbtide.tools.secrets.redaction import redact_text  # noqa: PLC0415  # deferred: few command lines are wrong
        from ebbtide.tui.text.sanitise import sanitised_line  # noqa: PLC0415  # deferred: as above

        self.exit(2, f"ebb: {sanitised_line(redact_text(message, {}))}; `{self.prog} --help` lists what there is\n")

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        if file is not None and file is sys.stdout:
            file.write(message)  # argparse itself would say nothing, and exit with 0
        else:
            super()._print_message(message, file)


def whole_number(word: str) -> int:
    """Parse an integer argument. Its range is checked with the setting."""
    try:
        return int(word)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"it is `{word}`, but must be a whole number") from error


def decimal_number(word: str) -> float:
    """Parse a float argument. Its range is checked with the setting."""
    try:
        return float(word)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"it is `{word}`, but must be a number") from error


def parser_made_by(command: Callable[[Sequence[str]], object], arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser that a command would use for these arguments, without running the command."""
    token = _inspecting.set(True)
    try:
        command(arguments)
    except ParserMade as made:
        return made.parser
    finally:
        _inspecting.reset(token)
    raise LookupError("the command reads no arguments")


def verbs(parser: argparse.ArgumentParser) -> Sequence[str]:
    """The allowed values of a command's first positional argument, if it is an action."""
    for action in parser._actions:
        if not action.option_strings:
            return tuple(map(str, action.choices or ())) if action.dest == "action" else ()
    return ()


class ShowVersions(argparse.Action):
    """Print the versions, one per line, the program's first, and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from ebbtide.agent.doctor.versions import versions  # noqa: PLC0415  # deferred: few want to know

        parser._print_message("".join(f"{name} {version}\n" for name, version in versions().items()), sys.stdout)
        parser.exit()


def first_word(arguments: Sequence[str]) -> int | None:
    """Index of the first word that is neither a flag nor a flag's value; None if there is none or it follows `--`."""
    index = 0
    while index < len(arguments):
        word = arguments[index]
        if word == "--":
            return None
        if not word.startswith("-") or word == "-":
            return index
        takes_next = word in _TAKES_VALUE and not (word in ("-p", "--prompt") and _is_flag(arguments[index + 1 :]))
        index += 2 if takes_next else 1
    return None


def _is_flag(rest: Sequence[str]) -> bool:
    """Whether the next word is a flag, so a flag with an optional value has none."""
    return bool(rest) and rest[0].startswith("-") and rest[0] != "-"


def make_parser() -> argparse.ArgumentParser:
    parser = CliArguments(
        prog="ebb",
        description="A terminal coding agent whose context window never overflows and never forgets.",
        epilog=_commands_and_codes(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("words", nargs="*", metavar="PROMPT", help="open the terminal with this first message")
    headless_prompt = "print the answer and exit; without TEXT, or with `-`, stdin is the prompt"
    parser.add_argument("-p", "--prompt", nargs="?", const="-", metavar="TEXT", help=headless_prompt)
    add_common(parser)
    parser.add_argument("--plain", action="store_true", help="the terminal in lines, without a screen")
    headless = parser.add_argument_group("without a terminal")
    forms = "the answer, one JSON object, one event per line and that object last, or messages as Claude Code has them"
    headless.add_argument("--output-format", choices=FORMATS, default="text", help=forms)
    lines = "what standard input holds: text for the prompt, or messages and answers, a JSON object per line"
    headless.add_argument(
        "--input-format", choices=("text", "stream-json", "claude-stream-json"), default="text", help=lines
    )
    asks = "who is asked what may run, with `--input-format claude-stream-json`: `stdio`, that program"
    headless.add_argument("--permission-prompt-tool", choices=("stdio",), help=asks)
    parts = "tell text as it is written, too, with `--output-format claude-stream-json`"
    headless.add_argument("--include-partial-messages", action="store_true", help=parts)
    headless.add_argument("--output-schema", metavar="FILE", help="JSON Schema that the answer must meet")
    headless.add_argument("--max-turns", type=whole_number, metavar="N", help="requests the run may make")
    headless.add_argument(
        "--max-cost", type=decimal_number, metavar="USD", help="dollars after which no request is made"
    )
    headless.add_argument("--max-time", metavar="SECONDS", help="seconds after which the run is stopped")
    headless.add_argument("--output-last-message", metavar="FILE", help="write the answer there, too")
    headless.add_argument("--session-id", metavar="UUID", help="the id that the new session is to have")
    headless.add_argument("--verbose", action="store_true", help="tell each step and call on stderr")
    headless.add_argument("--quiet", action="store_true", help="say nothing on stderr of rewrites of the context")
    modes = "what may run without a question"
    parser.add_argument("--permission-mode", choices=("ask", "accept-edits", "plan", "auto"), help=modes)
    parser.add_argument("--allow", action="append", metavar="RULE", help="let calls run, such as 'bash(git status)'")
    parser.add_argument("--deny", action="append", metavar="RULE", help="never let calls run, such as 'write(.env)'")
    more = "work in this folder, too; may be given several times"
    parser.add_argument("--add-dir", action="append", metavar="DIR", help=more)
    parser.add_argument("--no-sandbox", action="store_true", help="run commands outside the sandbox")
    trust = "have the servers that the project declares, in this run, unasked"
    parser.add_argument("--trust", action="store_true", help=trust)
    beside = "work in a git work tree of this name, on a branch of its own; it is made, or entered again"
    parser.add_argument("-w", "--worktree", metavar="NAME", help=beside)
    parser.add_argument("--ephemeral", action="store_true", help="keep nothing of the session")
    said = "what the model is told besides, at the end of its system text"
    parser.add_argument("--append-system-prompt", metavar="TEXT", help=said)
    own = "what it is told in place of the program's own instructions"
    parser.add_argument("--system-prompt-file", metavar="FILE", help=own)
    session = parser.add_mutually_exclusive_group()
    session.add_argument("-c", "--continue", dest="resume", action="store_const", const="", help="the newest session")
    session.add_argument(
        "-r", "--resume", dest="pick", nargs="?", const="", metavar="ID", help="that session; without ID: choose"
    )
    parser.add_argument("--version", action=ShowVersions, nargs=0, help="show the versions that matter and exit")
    return parser


def _commands_and_codes() -> str:
    """The epilog of `--help`: commands and exit codes."""
    import textwrap  # noqa: PLC0415  # deferred: argparse itself loads it only to print a help

    commands = "\n".join(f"  ebb {name:<12} {does}" for name, does in SUBCOMMANDS.items())
    codes = ", ".join(f"{code} {short}" for code, (short, _) in EXIT_CODES.items())
    return (
        f"commands (`ebb COMMAND --help` tells more; `--` makes a first word a prompt):\n{commands}\n\n"
        + textwrap.fill(f"exit codes: {codes}", 78, subsequent_indent="  ")
    )


def parser_of(command: str, description: str, epilog: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of a subcommand, for `parse_subcommand_args`."""
    return CliArguments(prog=f"ebb {command}", description=description, epilog=epilog, allow_abbrev=False)


def parse_subcommand_args(
    parser: argparse.ArgumentParser, arguments: Sequence[str], prints: str, *, has_one_word: bool = False
) -> argparse.Namespace:
    """Parse the arguments of a subcommand, adding the common flags, in any order of flags and words. `prints`: the
    output of `--json`. `has_one_word`: it takes at most one positional argument."""
    parser.add_argument("--json", action="store_true", help=f"print {prints}")
    add_common(parser)
    return parser.parse_args(arguments) if has_one_word else parser.parse_intermixed_args(arguments)


def add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-m", "--model", metavar="PROVIDER/NAME", help="anthropic/…, openai/…, openai-chat/…, ollama/…")
    parser.add_argument("--context-window", type=whole_number, metavar="N", help="tokens of the model's window")
    parser.add_argument("-C", "--cd", metavar="DIR", default=".", help="work in this folder")
    parser.add_argument("--config", action="append", metavar="KEY=VALUE", default=[], help="set one configuration key")
    parser.add_argument("--debug", action="store_true", help="show where an error comes from")


def confirm(question: str, *, as_json: bool) -> bool:
    """Ask in the terminal. Input typed before the question is discarded."""
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    import termios  # noqa: PLC0415  # deferred: few runs ask

    from ebbtide.tui.text.sanitise import sanitised  # noqa: PLC0415  # deferred: as above

    with suppress(termios.error):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    try:
        return input(f"{sanitised(question)} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def with_resume(arguments: Sequence[str]) -> list[str]:
    """Join `-r WORD` if WORD is meant as a session id: it looks like one, it is the only word, or there is another
    prompt. Several words, or one with spaces, are a prompt."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    known, rest = arguments[:end], arguments[end:]
    has_prompt = any(re.match(r"-p|--prompt(=|$)", word) for word in known)
    joined: list[str] = []
    for index, word in enumerate(known):
        if joined and joined[-1] in ("-r", "--resume"):
            is_alone = word.split() == [word] and first_word([*known[:index], *known[index + 1 :]]) is None
            is_word = not word.startswith("-")
            may_be_id = is_word and (has_prompt or is_alone or re.fullmatch(_LIKE_ID, word))
            joined[-1] = f"--resume={word}" if may_be_id else "--resume="
            if may_be_id:
                continue
        joined.append(word)
    return [*("--resume=" if word in ("-r", "--resume") else word for word in joined), *rest]


def open_sessions(options: argparse.Namespace, *, interactive: bool) -> "Sessions":
    """Open the sessions of the working folder with its settings. Raises `UsageError`."""
    root, config = read_settings_with_warnings(options)
    return sessions_of(root, config, options, interactive=interactive)


def with_sessions(options: argparse.Namespace, work: "Callable[[Sessions], Coroutine[Any, Any, T]]") -> T:
    """Run `work` with the sessions of the working folder and close them. Raises `UsageError`."""
    import asyncio  # noqa: PLC0415  # deferred: `--help` should import nothing it does not need

    async def run() -> T:
        sessions = open_sessions(options, interactive=False)
        try:
            return await work(sessions)
        finally:
            await sessions.close()

    return asyncio.run(run())


def read_settings_with_warnings(options: argparse.Namespace) -> tuple[Path, "Config"]:
    """Call `read_settings` and print its warnings on stderr."""
    from ebbtide.tui.text.sanitise import sanitised_line  # noqa: PLC0415  # deferred: `--help` should import nothing it does not need

    root, config = read_settings(options)
    for notice in config.notices:
        print(f"ebb: {sanitised_line(notice)}", file=sys.stderr)
    return root, config


def sessions_of(root: Path, config: "Config", options: argparse.Namespace, *, interactive: bool) -> "Sessions":
    """Create the sessions of a folder with these settings."""
    from ebbtide.agent.sessions import Sessions  # noqa: PLC0415  # deferred: `--help` should import nothing it does not need

    environment = environment_of(config)
    return Sessions(config, root, environment, interactive=interactive, ephemeral=getattr(options, "ephemeral", False))


def environment_of(config: "Config") -> Mapping[str, str]:
    """The environment, with the API keys stored by `ebb key`."""
    if not os.path.lexists(config.folders.config / "keys.json"):
        return os.environ
    from ebbtide.agent.providers.keys import with_stored_keys  # noqa: PLC0415  # deferred: many have their keys in variables

    return with_stored_keys(config.folders.config, os.environ)


def read_settings(options: argparse.Namespace) -> tuple[Path, "Config"]:
    """Return the working folder and its configuration. Raises `UsageError`."""
    from ebbtide.agent.config.load import load_config  # noqa: PLC0415  # deferred: `--help` should import nothing it does not need

    try:
        root = Path(options.cd).expanduser()
        is_folder = root.is_dir() and root.resolve(strict=True).is_dir()
    except (OSError, RuntimeError) as error:
        raise UsageError(f"cannot work in `{options.cd}`: {error}; give another folder with -C") from error
    if not is_folder:
        raise UsageError(f"there is no folder `{options.cd}`; give one that exists with -C")
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
    config = load_config(root, os.environ, flags, tuple(options.config))
    return root, replace(
        config,
        trusts_project=getattr(options, "trust", False),
        system_prompt=_system_prompt(getattr(options, "system_prompt_file", None)),
        append_system_prompt=(getattr(options, "append_system_prompt", None) or "").encode("utf-8", "replace").decode(),
    )


def _system_prompt(name: str | None) -> str:
    """Read the system prompt file; empty if none is given. Raises `UsageError`."""
    if name is None:
        return ""
    try:
        with Path(name).open(encoding="utf-8") as file:
            text = file.read(_MAX_SYSTEM_PROMPT_CHARS + 1).strip()
    except (OSError, ValueError) as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else getattr(error, "strerror", None) or error
        raise UsageError(f"cannot read the system prompt `{name}`: {why}") from error
    if not text:
        raise UsageError(f"the system prompt `{name}` is empty; leave the flag out for the program's own")
    if len(text) > _MAX_SYSTEM_PROMPT_CHARS:
        raise UsageError(f"the system prompt `{name}` is longer than a million characters; make it shorter")
    return text
