"""`ebb claude-code`: translates Claude Code's command line to `ebb` arguments. Unknown flags are errors."""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial

from ebbtide.agent import providers
from ebbtide.agent.calls.skill_bounds import rules_for_claude_tool
from ebbtide.agent.errors import UsageError
from ebbtide.agent.hooks.tool_names import to_our_names
from ebbtide.agent.integrations.claude_code.messages import MODES_BY_CLAUDE_NAME
from ebbtide.tools.catalog import create_builtin_tools
from ebbtide.tools.memory import Memory
from ebbtide.tui.cli import headless
from ebbtide.tui.cli.arguments import create_subcommand_parser, join_resume_id, make_parser, parse_integer, parse_number
from ebbtide.version import VERSION

_IGNORED_FLAGS = (
    "--setting-sources", "--thinking", "--max-thinking-tokens", "--thinking-display", "--fallback-model", "--betas",
)  # fmt: skip
"""Flags that are ignored together with their value."""


def run(arguments: Sequence[str]) -> int:
    parser = create_subcommand_parser(
        "claude-code",
        "Drop-in for `claude -p`, for programs that call it, such as the Agent SDKs: give them a script with "
        '`exec ebb claude-code "$@"`. Unknown flags are errors.',
        epilog="For the formats and the differences from `claude`, see docs/scripts.md.",
    )
    parser.add_argument("words", nargs="*", metavar="PROMPT", help="prompt, with `--input-format text`")
    parser.add_argument("-v", "--version", action="store_true", help="print the version and exit")
    parser.add_argument("-p", "--print", action="store_true", help="accepted; always on")
    parser.add_argument(
        "--output-format", choices=("text", "stream-json"), default="text", help="print the output in this format"
    )
    parser.add_argument(
        "--input-format", choices=("text", "stream-json"), default="text", help="read stdin in this format"
    )
    parser.add_argument(
        "--include-partial-messages", action="store_true", help="include partial messages as they stream"
    )
    parser.add_argument("--permission-prompt-tool", choices=("stdio",), help="ask the calling program for permissions")
    modes = ", ".join(MODES_BY_CLAUDE_NAME)
    parser.add_argument("--permission-mode", metavar="MODE", help=f"what may run without asking: {modes}")
    parser.add_argument(
        "--dangerously-skip-permissions", action="store_true", help="same as `--permission-mode bypassPermissions`"
    )
    parser.add_argument("--allow-dangerously-skip-permissions", action="store_true", help="accepted; always on")
    parser.add_argument("--model", help="use this model: PROVIDER/NAME, or an Anthropic name such as `sonnet`")
    parser.add_argument("--effort", metavar="EFFORT", help="set the reasoning effort")
    parser.add_argument("--system-prompt", metavar="TEXT", help="replace the built-in system prompt")
    parser.add_argument("--system-prompt-file", metavar="FILE", help="replace the built-in system prompt with FILE")
    parser.add_argument("--append-system-prompt", metavar="TEXT", help="append TEXT to the system prompt")
    parser.add_argument("--tools", metavar="TOOLS", help="offer only these tools; `default`: all")
    for flags, rules_help in (
        (("--allowedTools", "--allowed-tools"), "always allow calls that match these rules"),
        (("--disallowedTools", "--disallowed-tools"), "never allow calls that match these rules"),
    ):
        parser.add_argument(*flags, action="append", default=[], metavar="RULES", help=rules_help)
    parser.add_argument("--max-turns", type=parse_integer, metavar="N", help="stop after N model requests")
    parser.add_argument("--max-budget-usd", type=parse_number, metavar="USD", help="stop when the cost reaches USD")
    parser.add_argument("--json-schema", metavar="SCHEMA", help="require an answer that matches this JSON Schema")
    parser.add_argument(
        "--add-dir", action="append", default=[], metavar="DIR", help="also allow work in this folder (repeatable)"
    )
    parser.add_argument("--session-id", metavar="UUID", help="id for the new session")
    parser.add_argument(
        "-c", "--continue", dest="goes_on", action="store_true", help="continue the most recent session"
    )
    parser.add_argument("-r", "--resume", metavar="ID", help="resume session ID")
    parser.add_argument("-C", "--cd", metavar="DIR", default=".", help="work in this folder")
    config_help = "override one setting (repeatable)"
    parser.add_argument("--config", action="append", metavar="KEY=VALUE", default=[], help=config_help)
    for name in ("--verbose", "--strict-mcp-config", "--debug-to-stderr"):
        parser.add_argument(name, action="store_true", help="accepted and ignored")
    for name in _IGNORED_FLAGS:
        parser.add_argument(name, metavar="VALUE", help="accepted and ignored")
    options = parser.parse_intermixed_args(arguments)
    if options.version:
        print(f"{VERSION} (Ebbtide)")
        return 0
    with ExitStack() as files:
        ebb_arguments = [*_convert_to_ebb_arguments(options, files)]
        return headless.run(make_parser().parse_args(join_resume_id(ebb_arguments)))


def _convert_to_ebb_arguments(options: argparse.Namespace, files: ExitStack) -> Iterator[str]:
    """Yield the equivalent `ebb` arguments. Raises `UsageError`."""
    for flag, format_name in (("--output-format", options.output_format), ("--input-format", options.input_format)):
        yield from (flag, "claude-stream-json" if format_name == "stream-json" else format_name)
    if options.input_format == "text":
        yield from ("-p", "\n\n".join(options.words) or "-")
    if options.include_partial_messages:
        yield "--include-partial-messages"
    yield from _mode_arguments(options)
    yield from _system_prompt_arguments(options, files)
    yield from _tool_arguments(options)
    if options.model is not None:
        yield from ("--model", _model_name(options.model))
    if options.effort is not None:
        yield from ("--config", f"agent.reasoning_effort={options.effort}")
    for flag, value in (
        ("--permission-prompt-tool", options.permission_prompt_tool), ("--max-turns", options.max_turns),
        ("--max-cost", options.max_budget_usd), ("--session-id", options.session_id),
    ):  # fmt: skip
        yield from () if value is None else (flag, str(value))
    if options.json_schema is not None:
        yield from ("--output-schema", _write_temporary_file(options.json_schema, ".json", files))
    yield from ("-C", options.cd)
    for setting in options.config:
        yield from ("--config", setting)
    for folder in options.add_dir:
        yield from ("--add-dir", folder)
    if options.goes_on:
        yield "--continue"
    if options.resume is not None:
        yield f"--resume={options.resume}"


def _mode_arguments(options: argparse.Namespace) -> Iterator[str]:
    claude_mode = "bypassPermissions" if options.dangerously_skip_permissions else options.permission_mode
    if claude_mode is None:
        return
    if claude_mode not in MODES_BY_CLAUDE_NAME:
        raise UsageError(
            f"unknown mode `{claude_mode}`; use one of {', '.join(f'`{mode}`' for mode in MODES_BY_CLAUDE_NAME)}"
        )
    yield from ("--permission-mode", MODES_BY_CLAUDE_NAME[claude_mode])


def _system_prompt_arguments(options: argparse.Namespace, files: ExitStack) -> Iterator[str]:
    if options.system_prompt_file is not None:
        yield from ("--system-prompt-file", options.system_prompt_file)
    elif options.system_prompt:  # the SDKs pass an empty string if there is no system prompt
        yield from ("--system-prompt-file", _write_temporary_file(options.system_prompt, ".md", files))
    if options.append_system_prompt is not None:
        yield from ("--append-system-prompt", options.append_system_prompt)


def _tool_arguments(options: argparse.Namespace) -> Iterator[str]:
    if options.tools is not None and options.tools != "default":
        names = to_our_names([*_split_rules([options.tools])])
        key = "tools.allowed" if names else "tools.denied"
        yield from (
            "--config",
            f"{key}={json.dumps([*names] or [*(tool.name for tool in create_builtin_tools()), Memory.name])}",
        )
    for flag, rule_text in (("--allow", options.allowedTools), ("--deny", options.disallowedTools)):
        for text in _split_rules(rule_text):
            rules = rules_for_claude_tool(text)
            if not rules and flag == "--deny":
                raise UsageError(f"`{text}` cannot be translated to a rule, so it cannot be forbidden")
            if not rules:
                print(
                    f"ebb: `{text}` cannot be translated to a rule, so those calls still need permission",
                    file=sys.stderr,
                )
            for rule in rules:
                yield from (flag, str(rule))


def _split_rules(texts: Sequence[str]) -> Iterator[str]:
    """Split rules at commas and spaces that are not inside parentheses."""
    for text in texts:
        start = depth = 0
        for index, character in enumerate(f"{text},"):
            depth += (character == "(") - (character == ")")
            if character in ", " and depth <= 0:
                if word := text[start:index].strip():
                    yield word
                start = index + 1


def _model_name(name: str) -> str:
    if "/" in name:
        return name
    return providers.choices.resolve_model_name(name, "anthropic/") or f"anthropic/{name}"


def _write_temporary_file(text: str, suffix: str, files: ExitStack) -> str:
    """Write text to a temporary file and return the file's name. It is deleted when `files` is closed."""
    create_file = partial(tempfile.NamedTemporaryFile, "w", suffix=suffix, encoding="utf-8", errors="surrogateescape")
    file = files.enter_context(create_file())
    file.write(text)
    file.flush()
    return file.name
