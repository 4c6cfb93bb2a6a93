"""Generates the tables of the documentation from those in the code: `python -m docs.reference`, or `make docs`.

A page marks a table with `<!-- keys -->` and `<!-- end -->`; the text between these marks is replaced."""

import argparse
import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from docs.man_page import man_page
from docs.stream_input_schema import stream_input_schema
from docs.stream_schema import LINES, stream_schema
from ebbtide.agent.config.aliases import COMPACTION_OFF_VALUES, IGNORED_KEYS, KEY_ALIASES, RENAMED_KEYS, TABLE_ALIASES
from ebbtide.agent.config.options import OPTIONS, Option
from ebbtide.agent.errors import EXIT_CODES, AgentError
from ebbtide.agent.headless.json_output import event_type_name
from ebbtide.tui.cli.arguments import make_parser
from ebbtide.tui.keys import KEYS
from ebbtide.tui.slash_commands import COMMANDS
from ebbtide.tui.view.advice import ADVICE_BY_CODE

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

_TABLE_MARK = re.compile(r"^<!-- (?P<name>[a-z ]+) -->\n.*?^<!-- end -->\n", re.MULTILINE | re.DOTALL)


def fill_tables(page: str) -> str:
    """Return a page with up-to-date tables. Raises `KeyError` for an unknown table."""

    def table(mark: re.Match[str]) -> str:
        return f"<!-- {mark['name']} -->\n\n{TABLES[mark['name']]()}\n<!-- end -->\n"

    return _TABLE_MARK.sub(table, page)


def keys() -> str:
    return _rows(("key", "what it does"), ((f"`{key.label}`", key.help) for key in KEYS))


def commands() -> str:
    def rows() -> Iterator[Sequence[str]]:
        for command in COMMANDS:
            yield f"`{command.usage}`", command.help, "yes" if command.can_run_during_turn else ""

    return _rows(("command", "what it does", "also while it works"), rows())


def flags() -> str:
    """The flags of `ebb` without a subcommand."""
    return _rows(("flag", "what it does"), (_flag(action) for action in _actions() if action.option_strings))


def settings() -> str:
    """The settings."""
    return _rows(("key", "default", "what it is"), (_setting(option) for option in OPTIONS))


def other_names() -> str:
    """The aliases of settings used by other programs, with the settings they stand for."""

    def rows() -> Iterator[Sequence[str]]:
        for name, key in (KEY_ALIASES | TABLE_ALIASES | RENAMED_KEYS).items():
            if name.rpartition(".")[2] != key.rpartition(".")[2]:
                yield f"`{name}`", f"`{key}`"
        yield "`summarization_provider`, `summarization_model`", "`agent.summary_model`, as PROVIDER/NAME"
        for name, value in COMPACTION_OFF_VALUES.items():
            yield f"`{name} = {json.dumps(value)}`", '`rewrite.policy = "off"`'
        for name, why in IGNORED_KEYS.items():
            yield f"`{name}`", f"no effect: {why}"

    return _rows(("name", "equivalent to"), rows())


def exit_codes() -> str:
    return _rows(("exit code", "what happened"), ((str(code), meaning) for code, (_, meaning) in EXIT_CODES.items()))


def events() -> str:
    """The kinds of lines that `stream-json` prints, with their fields."""

    def rows() -> Iterator[Sequence[str]]:
        for kind in LINES:
            fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(kind))
            yield f"`{event_type_name(kind)}`", " ".join((inspect.getdoc(kind) or "").split()), fields

    return _rows(("`type`", "what it says", "fields"), rows())


def errors() -> str:
    """The error codes, with exit code and advice."""
    codes = {kind.code: kind.exit_code for kind in _family(AgentError)}
    rows = ((f"`{code}`", str(codes[code]), ADVICE_BY_CODE.get(code, "")) for code in codes if ADVICE_BY_CODE.get(code))
    return _rows(("code", "exit code", "what to do in the terminal"), rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "keys": keys,
    "commands": commands,
    "flags": flags,
    "settings": settings,
    "other names": other_names,
    "exit codes": exit_codes,
    "events": events,
    "errors": errors,
}


def _actions() -> Sequence[argparse.Action]:
    return make_parser()._actions


def _flag(action: argparse.Action) -> Sequence[str]:
    if action.choices is not None:
        value = " " + "|".join(str(choice) for choice in action.choices)
    elif action.nargs == 0:
        value = ""
    else:
        value = f" {action.metavar}"
    return ", ".join(f"`{name}{value}`" for name in action.option_strings), action.help or ""


def _setting(option: Option) -> Sequence[str]:
    default = "" if option.default is None else f"`{json.dumps(option.default)}`"
    variable = f" (`{option.environment_variable}` in the environment)" if option.environment_variable else ""
    return f"`{option.key}`", default, option.description + variable


def _family(kind: type[AgentError]) -> Iterator[type[AgentError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _family(child)


def _rows(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


GENERATED_FILES: Mapping[str, Callable[[], str]] = {
    "ebb.1": man_page,
    "stream.schema.json": stream_schema,
    "stream-input.schema.json": stream_input_schema,
}
"""Files in `docs/` that are generated as a whole."""


def main() -> int:
    for name, make in GENERATED_FILES.items():
        (ROOT / "docs" / name).write_text(make(), "utf-8")
    for page in PAGES:
        text = page.read_text("utf-8")
        if (new := fill_tables(text)) != text:
            page.write_text(new, "utf-8")
            print(page.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
