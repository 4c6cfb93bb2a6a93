"""`ebb completion`: the shell script, and the completions that it requests whenever Tab is pressed."""

import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.agent import config, providers
from ebbtide.agent.errors import AgentError
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.cli.arguments import create_subcommand_parser, make_parser, read_settings, run_with_sessions
from ebbtide.tui.cli.shell_completion import CompletionSources, GetParser, ShellCompletion, complete
from ebbtide.tui.text.sanitise import sanitise_line

if TYPE_CHECKING:  # imported for types only: most words are completed without opening a session
    from ebbtide.agent.compose.sessions import ProjectSessions

SHELLS = ("bash", "zsh", "fish")

MAX_SUGGESTED_SESSIONS = 50
"""Maximum number of sessions suggested."""

_OFFLINE_PROVIDERS = ("anthropic", "openai")
"""Providers whose models can be listed offline."""


def run(arguments: Sequence[str], get_parser: GetParser) -> int:
    """Run `ebb completion`; return the exit code. `get_parser` returns the parser of any command."""
    parser = create_subcommand_parser(
        "completion",
        "Print a script that completes the commands, flags, sessions, models and settings of `ebb` in your shell.",
        "bash: `source <(ebb completion bash)` in ~/.bashrc. zsh: `source <(ebb completion zsh)` in ~/.zshrc, after "
        "`compinit`. fish: `ebb completion fish > ~/.config/fish/completions/ebb.fish`.",
    )
    parser.add_argument("shell", choices=SHELLS)
    script_group = parser.add_argument_group("used by the script")
    script_group.add_argument("--line", help="complete the end of this line")
    script_group.add_argument("--last", help="replace this part of the last word")
    separator_index = list(arguments).index("--") if "--" in arguments else None
    options = parser.parse_args(arguments[:separator_index])
    if options.line is None and separator_index is None:
        print(Path(__file__).with_name("shells").joinpath(f"ebb.{options.shell}").read_text("utf-8"), end="")
        return 0
    words = split_line(options.line) if options.line is not None else arguments[(separator_index or 0) + 1 :]
    *preceding_words, word = words or ("",)
    completion = complete(preceding_words, word, get_parser, _choose_completion_sources(preceding_words))
    inserted_text = "" if options.last is None else word.removesuffix(options.last)
    for line in _shell_lines(completion, options.shell, len(inserted_text)):
        print(line)
    return 0


def split_line(line: str) -> Sequence[str]:
    """Split a command line into the words after the program's name. The last word may be incomplete or have an unclosed
    quote."""
    for quote in ("", "'", '"'):
        with suppress(ValueError):
            words = shlex.split(line + quote)
            return [*words[1:], *([""] if not quote and (not line or line[-1].isspace()) else [])]
    return [""]


def _shell_lines(completion: ShellCompletion, shell: str, inserted_chars: int) -> Iterable[str]:
    """Format the completions for the shell script. `inserted_chars`: how many characters of the word the shell has
    already inserted."""
    for name, help_text in completion.candidates:
        description = sanitise_line(help_text) if help_text and shell != "bash" else ""
        yield f"{name[inserted_chars:]}\t{description}" if description else name[inserted_chars:]
    if completion.paths:
        yield f":{completion.paths}"


def _choose_completion_sources(preceding_words: Sequence[str]) -> CompletionSources:
    """Create the completion sources for the folder selected by `-C` in `preceding_words`. Sources that cannot be read
    are skipped."""
    flags = [
        word
        for index, word in enumerate(preceding_words)
        if word in ("-C", "--cd") or (index and preceding_words[index - 1] in ("-C", "--cd"))
    ]
    options = make_parser().parse_args(flags if len(flags) % 2 == 0 else [])

    def list_sessions() -> Iterable[tuple[str, str]]:
        async def load_newest(sessions: "ProjectSessions") -> Iterable[tuple[str, str]]:
            return [
                (info.id, info.title)
                for info in await (await sessions.open_library()).page(limit=MAX_SUGGESTED_SESSIONS)
            ]

        with suppress(AgentError):
            return run_with_sessions(options, load_newest)
        return ()

    def list_tags() -> Iterable[tuple[str, str]]:
        async def load_tags(sessions: "ProjectSessions") -> Iterable[tuple[str, str]]:
            return [(tag, pluralize(count, "session")) for tag, count in await (await sessions.open_library()).tags()]

        with suppress(AgentError):
            return run_with_sessions(options, load_tags)
        return ()

    def list_models() -> Iterable[tuple[str, str]]:
        configured: Sequence[str] = ()
        with suppress(AgentError):
            configured = providers.factory.configured_models(read_settings(options)[1])
        registry_models = (
            f"{provider}/{name}"
            for provider in _OFFLINE_PROVIDERS
            for name in providers.registry.registry_models(provider)
        )
        return [(name, "") for name in dict.fromkeys((*configured, *registry_models))]

    def list_servers() -> Iterable[tuple[str, str]]:
        with suppress(AgentError):
            return [(name, "") for name in read_settings(options)[1].mcp_servers]
        return ()

    def list_settings() -> Iterable[tuple[str, str]]:
        return [(option.key, option.description) for option in config.options.OPTIONS]

    return CompletionSources(list_sessions, list_models, list_settings, list_servers, list_tags)
