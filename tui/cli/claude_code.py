"""`ebb claude-code`: Claude Code's command line, translated to ours. Unknown flags are errors."""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial

from ebbtide.agent.calls.skill_bounds import our_rules
from ebbtide.agent.errors import UsageError
from ebbtide.agent.headless.claude.messages import OUR_MODES
from ebbtide.agent.hooks.tool_names import our_names
from ebbtide.tools.catalog import builtin_tools
from ebbtide.tools.version import VERSION
from ebbtide.tui.cli import headless
from ebbtide.tui.cli.arguments import decimal_number, make_parser, parser_of, whole_number, with_resume

_IGNORED_FLAGS = (
    "--setting-sources", "--thinking", "--max-thinking-tokens", "--thinking-display", "--fallback-model", "--betas",
)  # fmt: skip
"""Flags with a value that are ignored."""


def run(arguments: Sequence[str]) -> int:
    parser = parser_of(
        "claude-code",
        "Runs as `claude -p` does, for programs that are written for it (the Agent SDKs): give them a "
        'script that says `exec ebb claude-code "$@"`. Flags that are not here are refused: they would be missed.',
        epilog="What goes in and comes out, and what of it is not the same: docs/scripts.md.",
    )
    parser.add_argument("words", nargs="*", metavar="PROMPT", help="what is asked, with `--input-format text`")
    parser.add_argument("-v", "--version", action="store_true", help="print the version")
    parser.add_argument("-p", "--print", action="store_true", help="taken for granted")
    parser.add_argument("--output-format", choices=("text", "stream-json"), default="text", help="what is printed")
    parser.add_argument("--input-format", choices=("text", "stream-json"), default="text", help="what is read")
    parser.add_argument("--include-partial-messages", action="store_true", help="tell text as it is written, too")
    parser.add_argument("--permission-prompt-tool", choices=("stdio",), help="the program is asked what may run")
    modes = ", ".join(OUR_MODES)
    parser.add_argument("--permission-mode", metavar="MODE", help=f"what may run without a question: {modes}")
    parser.add_argument("--dangerously-skip-permissions", action="store_true", help="the mode `bypassPermissions`")
    parser.add_argument("--allow-dangerously-skip-permissions", action="store_true", help="taken for granted")
    parser.add_argument("--model", help="PROVIDER/NAME; without a provider one of Anthropic's, such as `sonnet`")
    parser.add_argument("--effort", metavar="EFFORT", help="how hard to think")
    parser.add_argument("--system-prompt", metavar="TEXT", help="in place of the program's own instructions")
    parser.add_argument("--system-prompt-file", metavar="FILE", help="the same, in a file")
    parser.add_argument("--append-system-prompt", metavar="TEXT", help="besides, at the end of the system text")
    parser.add_argument("--tools", metavar="TOOLS", help="the tools that there are; `default`: all of them")
    for names, help in (
        (("--allowedTools", "--allowed-tools"), "rules for what runs without a question"),
        (("--disallowedTools", "--disallowed-tools"), "rules for what never runs"),
    ):
        parser.add_argument(*names, action="append", default=[], metavar="RULES", help=help)
    parser.add_argument("--max-turns", type=whole_number, metavar="N", help="requests that the run may make")
    parser.add_argument("--max-budget-usd", type=decimal_number, metavar="USD", help="dollars that it may take")
    parser.add_argument("--json-schema", metavar="SCHEMA", help="JSON Schema that the answer must meet")
    parser.add_argument("--add-dir", action="append", default=[], metavar="DIR", help="work in this folder, too")
    parser.add_argument("--session-id", metavar="UUID", help="the id that the new session is to have")
    parser.add_argument("-c", "--continue", dest="goes_on", action="store_true", help="the newest session")
    parser.add_argument("-r", "--resume", metavar="ID", help="that session")
    parser.add_argument("-C", "--cd", metavar="DIR", default=".", help="work in this folder, as with `ebb`")
    set_one = "set one key of Ebbtide's configuration"
    parser.add_argument("--config", action="append", metavar="KEY=VALUE", default=[], help=set_one)
    for name in ("--verbose", "--strict-mcp-config", "--debug-to-stderr"):
        parser.add_argument(name, action="store_true", help="nothing follows from it here")
    for name in _IGNORED_FLAGS:
        parser.add_argument(name, metavar="VALUE", help="nothing follows from it here")
    options = parser.parse_intermixed_args(arguments)
    if options.version:
        print(f"{VERSION} (Ebbtide)")
        return 0
    with ExitStack() as files:
        ours = [*_ebb_arguments(options, files)]
        return headless.run(make_parser().parse_args(with_resume(ours)))


def _ebb_arguments(options: argparse.Namespace, files: ExitStack) -> Iterator[str]:
    """Translate the arguments to those of `ebb`. Raises `UsageError`."""
    for flag, form in (("--output-format", options.output_format), ("--input-format", options.input_format)):
        yield from (flag, "claude-stream-json" if form == "stream-json" else form)
    if options.input_format == "text":
        yield from ("-p", "\n\n".join(options.words) or "-")
    if options.include_partial_messages:
        yield "--include-partial-messages"
    yield from _mode(options)
    yield from _system_text(options, files)
    yield from _tools(options)
    if options.model is not None:
        yield from ("--model", _model(options.model))
    if options.effort is not None:
        yield from ("--config", f"agent.reasoning_effort={options.effort}")
    for flag, value in (
        ("--permission-prompt-tool", options.permission_prompt_tool), ("--max-turns", options.max_turns),
        ("--max-cost", options.max_budget_usd), ("--session-id", options.session_id),
    ):  # fmt: skip
        yield from () if value is None else (flag, str(value))
    if options.json_schema is not None:
        yield from ("--output-schema", _file(options.json_schema, ".json", files))
    yield from ("-C", options.cd)
    for setting in options.config:
        yield from ("--config", setting)
    for folder in options.add_dir:
        yield from ("--add-dir", folder)
    if options.goes_on:
        yield "--continue"
    if options.resume is not None:
        yield f"--resume={options.resume}"


def _mode(options: argparse.Namespace) -> Iterator[str]:
    named = "bypassPermissions" if options.dangerously_skip_permissions else options.permission_mode
    if named is None:
        return
    if named not in OUR_MODES:
        raise UsageError(f"there is no mode `{named}`; there are {', '.join(f'`{mode}`' for mode in OUR_MODES)}")
    yield from ("--permission-mode", OUR_MODES[named])


def _system_text(options: argparse.Namespace, files: ExitStack) -> Iterator[str]:
    if options.system_prompt_file is not None:
        yield from ("--system-prompt-file", options.system_prompt_file)
    elif options.system_prompt:  # the SDKs say nothing at all by an empty one
        yield from ("--system-prompt-file", _file(options.system_prompt, ".md", files))
    if options.append_system_prompt is not None:
        yield from ("--append-system-prompt", options.append_system_prompt)


def _tools(options: argparse.Namespace) -> Iterator[str]:
    if options.tools is not None and options.tools != "default":
        names = our_names([*_split_rules([options.tools])])
        key = "tools.allowed" if names else "tools.denied"
        yield from ("--config", f"{key}={json.dumps([*names] or [*(tool.name for tool in builtin_tools()), 'memory'])}")
    for flag, said in (("--allow", options.allowedTools), ("--deny", options.disallowedTools)):
        for text in _split_rules(said):
            rules = our_rules(text)
            if not rules and flag == "--deny":
                raise UsageError(f"no rule here says what `{text}` forbids")
            if not rules:
                print(f"ebb: no rule here says what `{text}` allows, so it is asked about", file=sys.stderr)
            for rule in rules:
                yield from (flag, str(rule))


def _split_rules(texts: Sequence[str]) -> Iterator[str]:
    """Split rules at commas and spaces outside brackets."""
    for text in texts:
        start = depth = 0
        for at, sign in enumerate(f"{text},"):
            depth += (sign == "(") - (sign == ")")
            if sign in ", " and depth <= 0:
                if word := text[start:at].strip():
                    yield word
                start = at + 1


def _model(said: str) -> str:
    if "/" in said:
        return said
    from ebbtide.agent.providers.choices import model_called  # noqa: PLC0415  # deferred: it reads what models there are

    return model_called(said, "anthropic/") or f"anthropic/{said}"


def _file(text: str, suffix: str, files: ExitStack) -> str:
    """Write a text to a temporary file that is deleted after the run."""
    make = partial(tempfile.NamedTemporaryFile, "w", suffix=suffix, encoding="utf-8", errors="surrogateescape")
    file = files.enter_context(make())
    file.write(text)
    file.flush()
    return file.name
