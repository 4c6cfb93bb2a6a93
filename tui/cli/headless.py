"""`ebb -p`: sets up a headless run from the command line."""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ebbtide.agent.errors import UsageError
from ebbtide.agent.headless.run import HeadlessOptions
from ebbtide.agent.headless.run import run as run_job
from ebbtide.agent.records.session_lookup import is_session_id
from ebbtide.tools import call_arguments
from ebbtide.tui.cli.arguments import open_sessions
from ebbtide.tui.cli.piped_input import has_piped_input, needs_attachment, read_piped_input
from ebbtide.tui.text.sanitise import sanitise


def run(options: argparse.Namespace) -> int:
    """Run the prompt and print the answer; return the exit code. Raises `AgentError` if no result can be printed."""
    resume = options.resume if options.pick is None else options.pick
    reads_messages = options.input_format != "text"
    if reads_messages and options.output_format != options.input_format:
        input_format = options.input_format
        raise UsageError(f"`--input-format {input_format}` needs `--output-format {input_format}`")
    asks_caller = options.permission_prompt_tool is not None
    if asks_caller and options.input_format != "claude-stream-json":
        raise UsageError("`--permission-prompt-tool stdio` needs `--input-format claude-stream-json`")
    if options.include_partial_messages and options.output_format != "claude-stream-json":
        raise UsageError("`--include-partial-messages` needs `--output-format claude-stream-json`")
    prompt, piped_text = _first_message(options) if reads_messages else _prompt_and_input(options.prompt, options.words)
    job = HeadlessOptions(
        prompt,
        options.output_format,
        _read_schema(options.output_schema) if options.output_schema else None,
        resume,
        piped_text,
        reads_messages,
        session_id=_session_id(options.session_id, resume),
        max_time=parse_seconds(options.max_time),
        answer_file=Path(options.output_last_message) if options.output_last_message is not None else None,
        includes_partial_messages=options.include_partial_messages,
        is_quiet=options.quiet,
        is_verbose=options.verbose,
        sanitise=sanitise,
    )
    return asyncio.run(
        run_job(open_sessions(options, is_interactive=asks_caller or options.input_format == "stream-json"), job)
    )


def _first_message(options: argparse.Namespace) -> tuple[str, str]:
    """Join the words of the command-line prompt, for a run that reads its other messages from stdin. The piped input is
    always empty."""
    return _join_texts([*([options.prompt] if options.prompt not in (None, "-") else ()), *options.words]), ""


def _prompt_and_input(prompt: str, words: Sequence[str]) -> tuple[str, str]:
    """Read the prompt and the piped input. Piped input may be untrusted, so `@PATH` in it attaches nothing. It becomes
    the prompt if there is no other prompt or if `-` is given. Raises `UsageError` if both are empty."""
    texts = [*words] if prompt == "-" else [prompt, *words]
    if prompt == "-" and sys.stdin.isatty():
        print("ebb: type the prompt, then press Ctrl-D on an empty line", file=sys.stderr)
    piped_text = read_piped_input() if prompt == "-" or has_piped_input() else ""
    is_extra_input = prompt != "-" or needs_attachment(piped_text)
    if is_extra_input and piped_text.strip() and (joined_texts := _join_texts(texts)):
        return joined_texts, piped_text
    full_prompt = _join_texts([*texts, piped_text])
    if not full_prompt:
        raise UsageError("no prompt; write one after `-p`, or pipe one into `ebb -p`")
    return full_prompt, ""


def _join_texts(texts: Sequence[str]) -> str:
    return "\n\n".join(text.strip("\n") for text in texts if text.strip())


def parse_seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"`--max-time` must be a number of seconds above 0, not {text!r}")
    return seconds


def _session_id(text: str | None, resume: str | None) -> str:
    """Validate the id for the new session; empty if none is given. Raises `UsageError`."""
    if text is None:
        return ""
    if resume is not None:
        raise UsageError("`--session-id` works only for a new session; omit it, or omit `-c` and `-r`")
    session_id = text.strip().lower()
    if not is_session_id(session_id):
        example = "2f0c7c5e-6a3f-4d6e-9a53-0c7f2b9d1e44"
        raise UsageError(f"`--session-id` must be a UUID such as `{example}`, not {text!r}")
    return session_id


def _read_schema(file_name: str) -> dict[str, object]:
    try:
        schema = json.loads(Path(file_name).read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read the schema `{file_name}`: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the schema `{file_name}` is not JSON: {error}") from error
    if not isinstance(schema, dict):
        raise UsageError(f"the schema `{file_name}` must be a JSON object")
    try:
        call_arguments.schema.schema_violations(
            None, schema
        )  # checked first, because an invalid schema would waste a whole run
    except ValueError as error:
        raise UsageError(f"the schema `{file_name}` is not valid: {str(error).splitlines()[0]}") from error
    return schema
