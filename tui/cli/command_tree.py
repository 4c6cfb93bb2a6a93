"""The parsers of all commands."""

from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence

from ebbtide.tui.cli import completion, serve
from ebbtide.tui.cli.arguments import SUBCOMMANDS, make_parser, parser_made_by, verbs


def command_parser(*words: str) -> ArgumentParser:
    """Return the parser of a command (`sessions`, `sessions search`), or of `ebb` itself without words."""
    return parser_made_by(_command(words[0]), words[1:]) if words else make_parser()


def all_parsers() -> Iterator[tuple[Sequence[str], ArgumentParser]]:
    """All commands and verbs with their parsers, `ebb` first."""
    yield (), make_parser()
    for name in SUBCOMMANDS:
        parser = command_parser(name)
        yield (name,), parser
        for verb in verbs(parser):
            own = command_parser(name, verb)
            if own.prog != parser.prog:
                yield (name, verb), own


def _command(name: str) -> Callable[[Sequence[str]], object]:
    match name:
        case "serve":
            return serve.run
        case "completion":
            return lambda arguments: completion.run(arguments, command_parser)
        case "acp":
            from ebbtide.tui.cli import acp  # noqa: PLC0415  # deferred: a Tab behind `ebb` alone needs no command's own code

            return acp.run
        case _:
            from ebbtide.tui.cli import subcommands  # noqa: PLC0415  # deferred: as above

            return lambda arguments: subcommands.run(name, arguments)
