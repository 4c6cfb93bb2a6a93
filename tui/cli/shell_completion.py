"""Shell completions for the word being typed. No I/O except through `CompletionSources`."""

import re
from argparse import Action, ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ebbtide.tui.cli.arguments import SUBCOMMANDS, action_names, first_positional_index, parse_integer

ListCandidates = Callable[[], Iterable[tuple[str, str]]]
"""Looks up names with their descriptions on demand."""


class GetParser(Protocol):
    def __call__(self, *words: str) -> ArgumentParser:
        """Get the parser of a command, or of `ebb` itself if there are no words."""


@dataclass(frozen=True, slots=True)
class CompletionSources:
    """Functions that list names to complete, taken from stored sessions, settings and the model registry."""

    list_sessions: ListCandidates
    """Session ids with titles, newest first."""
    list_models: ListCandidates
    """Models as PROVIDER/NAME."""
    list_settings: ListCandidates
    """Configuration keys with their help texts."""
    list_servers: ListCandidates
    """Names of MCP servers."""
    list_tags: ListCandidates
    """Session tags, each with its number of sessions."""


@dataclass(frozen=True, slots=True)
class ShellCompletion:
    candidates: tuple[tuple[str, str], ...] = ()
    """Possible words, each with its description."""
    paths: Literal["files", "folders"] | None = None
    """Whether the shell should suggest file or folder names as well."""


def complete(
    preceding_words: Sequence[str], word: str, get_parser: GetParser, sources: CompletionSources
) -> ShellCompletion:
    """Complete `word`, which may be empty, in `ebb PRECEDING_WORDS… WORD`."""
    if "--" in preceding_words:
        return ShellCompletion(paths="files")
    parser, command_words = _parser_for(preceding_words, get_parser)
    flags = {name: action for action in parser._actions for name in action.option_strings}
    if command_words and (action := flags.get(command_words[-1])) and _takes_value(action) and not word.startswith("-"):
        return _filter_by_prefix(_complete_value(action, sources), word)
    flag, equals, value = word.partition("=")
    if equals and (action := flags.get(flag)) and _takes_value(action):
        completion = _filter_by_prefix(_complete_value(action, sources), value)
        return ShellCompletion(
            tuple((f"{flag}={name}", description) for name, description in completion.candidates), completion.paths
        )
    if word.startswith("-"):
        return _filter_by_prefix(
            ShellCompletion(tuple((name, action.help or "") for name, action in _flags_by_longest_name(flags))), word
        )
    return _filter_by_prefix(_complete_positional(parser, command_words, sources), word)


def _parser_for(preceding_words: Sequence[str], get_parser: GetParser) -> tuple[ArgumentParser, Sequence[str]]:
    """Find the parser of the command in `preceding_words`. Also returns the words after the command's name."""
    command_index = first_positional_index(preceding_words)
    if command_index is None or preceding_words[command_index] not in SUBCOMMANDS:
        return get_parser(), preceding_words
    name = preceding_words[command_index]
    command_words = [*preceding_words[:command_index], *preceding_words[command_index + 1 :]]
    parser = get_parser(name)
    action_index = first_positional_index(command_words)
    if action_index is not None and command_words[action_index] in action_names(parser):
        action_parser = get_parser(name, command_words[action_index])
        if action_parser.prog != parser.prog:
            return action_parser, [*command_words[:action_index], *command_words[action_index + 1 :]]
    return parser, command_words


def _flags_by_longest_name(flags: dict[str, Action]) -> Iterator[tuple[str, Action]]:
    """Yield each flag once, under the longest of its names."""
    for name, action in flags.items():
        if name == max(action.option_strings, key=len):
            yield name, action


def _complete_positional(
    parser: ArgumentParser, command_words: Sequence[str], sources: CompletionSources
) -> ShellCompletion:
    words = [*_positional_words(command_words, parser)]
    positionals = [action for action in parser._actions if not action.option_strings]
    if parser.prog == "ebb":
        return ShellCompletion(() if words else tuple(SUBCOMMANDS.items()))
    if not positionals:
        return ShellCompletion()
    action = positionals[min(len(words), len(positionals) - 1)]
    if len(words) >= len(positionals) and action.nargs not in ("*", "+"):
        return ShellCompletion()
    return _complete_value(action, sources)


def _positional_words(command_words: Sequence[str], parser: ArgumentParser) -> Iterator[str]:
    """Yield the positional words, skipping flags and their values."""
    flags_with_value = {name for action in parser._actions if _takes_value(action) for name in action.option_strings}
    is_flag_value = False
    for word in command_words:
        if is_flag_value or word.startswith("-"):
            is_flag_value = not is_flag_value and word in flags_with_value
            continue
        yield word


def _takes_value(action: Action) -> bool:
    return bool(action.option_strings) and action.nargs != 0


def _complete_value(action: Action, sources: CompletionSources) -> ShellCompletion:
    if action.choices is not None:
        return ShellCompletion(tuple((str(choice), "") for choice in action.choices))
    if action.type is parse_integer:
        return ShellCompletion()
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest
    match metavar:
        case "PROVIDER/NAME":
            return ShellCompletion(tuple(sources.list_models()))
        case "KEY=VALUE":
            return ShellCompletion(tuple((f"{key}=", description) for key, description in sources.list_settings()))
        case "id" | "ID":
            return ShellCompletion(tuple(sources.list_sessions()))
        case "SERVER":
            return ShellCompletion(tuple(sources.list_servers()))
        case "TAG":
            return ShellCompletion(tuple(sources.list_tags()))
        case "DIR" | "FOLDER":
            return ShellCompletion(paths="folders")
        case _ if re.search(r"FILE|PATH|file", metavar):
            return ShellCompletion(paths="files")
        case _:
            return ShellCompletion()


def _filter_by_prefix(completion: ShellCompletion, word: str) -> ShellCompletion:
    return ShellCompletion(
        tuple((name, description) for name, description in completion.candidates if name.startswith(word)),
        completion.paths,
    )
