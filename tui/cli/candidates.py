"""Shell completions for the word being typed. Pure apart from its sources."""

import re
from argparse import Action, ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ebbtide.tui.cli.arguments import SUBCOMMANDS, action_names, first_positional_index, whole_number

LazyNames = Callable[[], Iterable[tuple[str, str]]]
"""Names with descriptions, looked up on demand."""


class CommandParsers(Protocol):
    def __call__(self, *words: str) -> ArgumentParser:
        """Return the parser of a command, or of `ebb` itself without words."""


@dataclass(frozen=True, slots=True)
class CompletionSources:
    """Completion sources outside the program."""

    sessions: LazyNames
    """Session ids with titles, newest first."""
    models: LazyNames
    """Models as PROVIDER/NAME."""
    settings: LazyNames
    """Configuration keys with their help."""
    servers: LazyNames
    """Names of MCP servers."""
    tags: LazyNames
    """Session tags with their number of sessions."""


@dataclass(frozen=True, slots=True)
class ShellCompletion:
    words: tuple[tuple[str, str], ...] = ()
    """Possible words, each with its description."""
    paths: Literal["files", "folders"] | None = None
    """Whether the shell should add file or folder names."""


def complete(before: Sequence[str], word: str, parsers: CommandParsers, sources: CompletionSources) -> ShellCompletion:
    """Complete `ebb BEFORE… WORD`; WORD may be empty."""
    if "--" in before:
        return ShellCompletion(paths="files")
    parser, rest = _parser_for(before, parsers)
    flags = {name: action for action in parser._actions for name in action.option_strings}
    if rest and (action := flags.get(rest[-1])) and _takes_value(action) and not word.startswith("-"):
        return _matching_prefix(_value_completion(action, sources), word)
    flag, equals, value = word.partition("=")
    if equals and (action := flags.get(flag)) and _takes_value(action):
        found = _matching_prefix(_value_completion(action, sources), value)
        return ShellCompletion(tuple((f"{flag}={name}", help) for name, help in found.words), found.paths)
    if word.startswith("-"):
        return _matching_prefix(
            ShellCompletion(tuple((name, action.help or "") for name, action in _long_flags(flags))), word
        )
    return _matching_prefix(_positional_completion(parser, rest, sources), word)


def _parser_for(before: Sequence[str], parsers: CommandParsers) -> tuple[ArgumentParser, Sequence[str]]:
    """Return the parser of the command in `before`, and the words without the command's name."""
    first = first_positional_index(before)
    if first is None or before[first] not in SUBCOMMANDS:
        return parsers(), before
    name, rest = before[first], [*before[:first], *before[first + 1 :]]
    parser = parsers(name)
    second = first_positional_index(rest)
    if second is not None and rest[second] in action_names(parser):
        own = parsers(name, rest[second])
        if own.prog != parser.prog:
            return own, [*rest[:second], *rest[second + 1 :]]
    return parser, rest


def _long_flags(flags: dict[str, Action]) -> Iterator[tuple[str, Action]]:
    """Yield each flag under its long name, if it has one."""
    for name, action in flags.items():
        if name == max(action.option_strings, key=len):
            yield name, action


def _positional_completion(parser: ArgumentParser, rest: Sequence[str], sources: CompletionSources) -> ShellCompletion:
    words = [*_positional_words(rest, parser)]
    positionals = [action for action in parser._actions if not action.option_strings]
    if parser.prog == "ebb":
        return ShellCompletion(() if words else tuple(SUBCOMMANDS.items()))
    if not positionals:
        return ShellCompletion()
    action = positionals[min(len(words), len(positionals) - 1)]
    if len(words) >= len(positionals) and action.nargs not in ("*", "+"):
        return ShellCompletion()
    return _value_completion(action, sources)


def _positional_words(rest: Sequence[str], parser: ArgumentParser) -> Iterator[str]:
    """Yield the positional words, without flags and their values."""
    valued = {name for action in parser._actions if _takes_value(action) for name in action.option_strings}
    skip = False
    for word in rest:
        if skip or word.startswith("-"):
            skip = not skip and word in valued
            continue
        yield word


def _takes_value(action: Action) -> bool:
    return bool(action.option_strings) and action.nargs != 0


def _value_completion(action: Action, sources: CompletionSources) -> ShellCompletion:
    if action.choices is not None:
        return ShellCompletion(tuple((str(choice), "") for choice in action.choices))
    if action.type is whole_number:
        return ShellCompletion()
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest
    match metavar:
        case "PROVIDER/NAME":
            return ShellCompletion(tuple(sources.models()))
        case "KEY=VALUE":
            return ShellCompletion(tuple((f"{key}=", help) for key, help in sources.settings()))
        case "id" | "ID":
            return ShellCompletion(tuple(sources.sessions()))
        case "SERVER":
            return ShellCompletion(tuple(sources.servers()))
        case "TAG":
            return ShellCompletion(tuple(sources.tags()))
        case "DIR" | "FOLDER":
            return ShellCompletion(paths="folders")
        case _ if re.search(r"FILE|PATH|file", metavar):
            return ShellCompletion(paths="files")
        case _:
            return ShellCompletion()


def _matching_prefix(completion: ShellCompletion, word: str) -> ShellCompletion:
    return ShellCompletion(
        tuple((name, help) for name, help in completion.words if name.startswith(word)), completion.paths
    )
