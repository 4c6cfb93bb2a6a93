"""Generates the manual page of `ebb` from the tables that the program itself uses."""

import argparse
import re
from collections.abc import Iterator, Sequence, Set

from ebbtide.agent.config.options import OPTIONS
from ebbtide.agent.errors import EXIT_CODES
from ebbtide.tui.cli.arguments import SUBCOMMANDS, VersionAction
from ebbtide.tui.cli.command_tree import all_parsers
from ebbtide.version import VERSION

_OTHER_VARIABLES = {
    "ANTHROPIC_API_KEY, OPENAI_API_KEY": "API keys of the providers; `ebb key set` stores them instead",
    "ANTHROPIC_BASE_URL, OPENAI_BASE_URL, OLLAMA_HOST": "addresses of the providers",
    "EBB_HOME": "one folder for the configuration, all data and the logs",
    "EBB_PASS_ENV": "additional variables passed to commands, separated by commas",
    "HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE": "proxies and certificates",
    "NO_COLOR, COLORTERM": "colours of the output",
    "VISUAL, EDITOR": "editor for prompts, plans and files",
}

_SYNOPSIS = (
    r".B ebb",
    r"[\fIOPTIONS\fR] [\fIPROMPT\fR ...]",
    ".br",
    r".B ebb \-p",
    r"\fITEXT\fR [\fIOPTIONS\fR]",
    ".br",
    ".B ebb",
    r"\fICOMMAND\fR [\fIARGUMENTS\fR]",
)


def man_page() -> str:
    """Return the page in man(7) format."""
    lines = [f'.TH EBB 1 "" "ebbtide {VERSION}" "User Commands"', *_section("NAME")]
    lines.append(
        r"ebb \- a coding agent for the terminal that never overflows its context window and never loses anything"
    )
    parsers = list(all_parsers())
    own = parsers[0][1]
    lines += [*_section("SYNOPSIS"), *_SYNOPSIS, *_section("DESCRIPTION")]
    lines += [
        _text(
            "Without `-p` it starts an interactive session, with PROMPT as the first message. With `-p` it prints the "
            "answer and exits."
        ),
        *_section("OPTIONS"),
        *_arguments(own),
        *_section("COMMANDS"),
        _text("See also `ebb COMMAND --help`. All commands accept `-C`, `-m`, `--config` and `--debug`."),
    ]
    common = {"-h", "--help", "-m", "--model", "--context-window", "-C", "--cd", "--config", "--debug"}
    for words, parser in parsers[1:]:
        lines += [f".SS {_escape_roff(' '.join(('ebb', *words)))}", _text(parser.description or SUBCOMMANDS[words[0]])]
        lines += _arguments(parser, without=common)
        lines += [".PP", _text(parser.epilog)] if parser.epilog else []
    lines += [
        *_section("EXIT STATUS"),
        *(row for code, (_, description) in EXIT_CODES.items() for row in _row(str(code), description)),
    ]
    lines += _section("ENVIRONMENT")
    for option in OPTIONS:
        if option.environment_variable:
            lines += _row(option.environment_variable, f"`{option.key}`: {option.description}")
    lines += [row for names, description in _OTHER_VARIABLES.items() for row in _row(names, description)]
    lines += [*_section("FILES"), *_row("config.toml", "your settings; `ebb config` shows its path and all values")]
    lines += _row(".ebb/config.toml", "settings of a project; may only tighten permissions")
    lines += [*_section("SEE ALSO"), _text("the pages in `docs/` of the source code")]
    return "\n".join(lines) + "\n"


def _section(name: str) -> Sequence[str]:
    return (f".SH {name}",)


def _arguments(parser: argparse.ArgumentParser, without: Set[str] = frozenset()) -> Iterator[str]:
    """Yield a row for each argument that is not shared by all commands."""
    for action in parser._actions:
        if action.help != argparse.SUPPRESS and without.isdisjoint(action.option_strings):
            yield from _row(_name(action), _help(action))


def _name(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else action.dest
    if action.choices is not None:
        value = "|".join(map(str, action.choices))
    if not action.option_strings:
        return value
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 else f"{names} {value}"


def _help(action: argparse.Action) -> str:
    text = (action.help or "").replace("%%", "%")
    return "show the versions that matter, a line each" if isinstance(action, VersionAction) else text


def _row(name: str, description: str) -> Sequence[str]:
    return (".TP", rf"\fB{_escape_roff(name)}\fR", _text(description))


def _text(words: str) -> str:
    """Format a paragraph; text in backticks becomes bold."""
    escaped = re.sub("`([^`]*)`", r"\\fB\1\\fR", _escape_roff(words))
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _escape_roff(words: str) -> str:
    escaped = words.replace("\\", r"\e").replace("-", r"\-").replace("\n", " ")
    return "".join(sign if sign.isascii() else rf"\[u{ord(sign):04X}]" for sign in escaped)
