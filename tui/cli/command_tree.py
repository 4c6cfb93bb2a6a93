"""The parsers of all commands."""

from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence

from ebbtide.tui import cli
from ebbtide.tui.cli import completion
from ebbtide.tui.cli.arguments import SUBCOMMANDS, action_names, capture_parser, make_parser


def command_parser(*words: str) -> ArgumentParser:
    """Get the parser of a command (`sessions`, `sessions search`), or of `ebb` itself if there are no words."""
    return capture_parser(_subcommand_function(words[0]), words[1:]) if words else make_parser()


def all_parsers() -> Iterator[tuple[Sequence[str], ArgumentParser]]:
    """Yield the words and parser of each command, and of each action with its own parser. `ebb` comes first."""
    yield (), make_parser()
    for name in SUBCOMMANDS:
        parser = command_parser(name)
        yield (name,), parser
        for action in action_names(parser):
            action_parser = command_parser(name, action)
            if action_parser.prog != parser.prog:
                yield (name, action), action_parser


def _subcommand_function(name: str) -> Callable[[Sequence[str]], object]:
    if name == "completion":
        return lambda arguments: completion.run(arguments, command_parser)
    return lambda arguments: cli.subcommands.run(name, arguments)
