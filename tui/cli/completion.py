"""`ebb completion`: the shell script, and the completions it requests at each Tab."""

import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.agent.errors import AgentError
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.cli.arguments import make_parser, parser_of, read_settings, with_sessions
from ebbtide.tui.cli.candidates import CommandParsers, ShellCompletion, Sources, complete
from ebbtide.tui.text.sanitise import sanitised_line

if TYPE_CHECKING:  # a type only: most words are completed without sessions
    from ebbtide.agent.sessions import Sessions

SHELLS = ("bash", "zsh", "fish")

MAX_OFFERED_SESSIONS = 50
"""Maximum sessions offered."""

_PROVIDERS = ("anthropic", "openai")
"""Providers whose models are known offline."""


def run(arguments: Sequence[str], parsers: CommandParsers) -> int:
    """Run `ebb completion`; return the exit code. `parsers`: those of all commands."""
    parser = parser_of(
        "completion",
        "Prints what makes your shell complete commands, flags, sessions, models and settings of `ebb`.",
        "bash: `source <(ebb completion bash)` in ~/.bashrc. zsh: `source <(ebb completion zsh)` in ~/.zshrc, behind "
        "`compinit`. fish: `ebb completion fish > ~/.config/fish/completions/ebb.fish`.",
    )
    parser.add_argument("shell", choices=SHELLS)
    asked = parser.add_argument_group("what the script asks for")
    asked.add_argument("--line", help="complete the end of this line")
    asked.add_argument("--last", help="the part of its last word that the shell replaces")
    end = list(arguments).index("--") if "--" in arguments else None
    options = parser.parse_args(arguments[:end])
    if options.line is None and end is None:
        print(Path(__file__).with_name("shells").joinpath(f"ebb.{options.shell}").read_text("utf-8"), end="")
        return 0
    words = split_line(options.line) if options.line is not None else arguments[(end or 0) + 1 :]
    *before, word = words or ("",)
    found = complete(before, word, parsers, _sources(before))
    kept = "" if options.last is None else word.removesuffix(options.last)
    for line in _lines(found, options.shell, len(kept)):
        print(line)
    return 0


def split_line(line: str) -> Sequence[str]:
    """Split a line after the program's name into words. The last may be incomplete or an open quotation."""
    for quote in ("", "'", '"'):
        with suppress(ValueError):
            words = shlex.split(line + quote)
            return [*words[1:], *([""] if not quote and (not line or line[-1].isspace()) else [])]
    return [""]


def _lines(found: ShellCompletion, shell: str, known: int) -> Iterable[str]:
    """`known`: number of characters of the word that the shell keeps."""
    for name, help in found.words:
        means = sanitised_line(help) if help and shell != "bash" else ""
        yield f"{name[known:]}\t{means}" if means else name[known:]
    if found.paths:
        yield f":{found.paths}"


def _sources(before: Sequence[str]) -> Sources:
    """Completion sources on this machine, with the settings selected by these words. Unreadable ones are skipped."""
    flags = [
        word
        for place, word in enumerate(before)
        if word in ("-C", "--cd") or (place and before[place - 1] in ("-C", "--cd"))
    ]
    options = make_parser().parse_args(flags if len(flags) % 2 == 0 else [])

    def sessions() -> Iterable[tuple[str, str]]:
        async def page(opened: "Sessions") -> Iterable[tuple[str, str]]:
            return [(info.id, info.title) for info in await (await opened.library()).page(limit=MAX_OFFERED_SESSIONS)]

        with suppress(AgentError):
            return with_sessions(options, page)
        return ()

    def tags() -> Iterable[tuple[str, str]]:
        async def all_tags(opened: "Sessions") -> Iterable[tuple[str, str]]:
            return [(tag, pluralize(count, "session")) for tag, count in await (await opened.library()).tags()]

        with suppress(AgentError):
            return with_sessions(options, all_tags)
        return ()

    def models() -> Iterable[tuple[str, str]]:
        from ebbtide.agent.providers.factory import configured_models  # noqa: PLC0415  # deferred: asked for at `-m` only
        from ebbtide.agent.providers.registry import known_models  # noqa: PLC0415  # deferred: as above

        own: Sequence[str] = ()
        with suppress(AgentError):
            own = configured_models(read_settings(options)[1])
        usual = (f"{provider}/{name}" for provider in _PROVIDERS for name in known_models(provider))
        return [(name, "") for name in dict.fromkeys((*own, *usual))]

    def servers() -> Iterable[tuple[str, str]]:
        with suppress(AgentError):
            return [(name, "") for name in read_settings(options)[1].servers]
        return ()

    def settings() -> Iterable[tuple[str, str]]:
        from ebbtide.agent.config.options import OPTIONS  # noqa: PLC0415  # deferred: as above

        return [(option.key, option.help) for option in OPTIONS]

    return Sources(sessions, models, settings, servers, tags)
