"""Parses the tasks of a batch from JSON Lines, and reports invalid lines. No I/O."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ebbtide.agent.config.options import PERMISSION_MODES
from ebbtide.agent.view.long_texts import sendable_text
from ebbtide.tools.call_arguments.schema import schema_violations

MAX_ID_CHARS = 200
"""Maximum length of an id, in characters."""


@dataclass(frozen=True, slots=True)
class BatchTask:
    """A task, defined by one line of the file."""

    id: str
    """Id of the task, unique within the batch; the line number if the file gives none."""
    line_number: int
    """Line number, from 1."""
    prompt: str
    digest: str
    """Digest of the task without its id. A task whose content changes counts as a new task."""
    original_id: str | int
    """The id as written in the file."""
    options: Mapping[str, Any]
    """Options by flag name, with `_` instead of `-`: any of `TASK_OPTIONS` except `output_schema`."""
    output_schema: Mapping[str, object] | None = None
    """JSON Schema that the answer must match."""

    @property
    def options_key(self) -> str:
        """A key that tasks with equal options share."""
        return json.dumps(self.options, sort_keys=True)


def _is_nonempty_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_nonempty_text, value))


def _is_positive_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_positive_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


TASK_OPTIONS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "model": (_is_nonempty_text, "PROVIDER/NAME"),
    "cwd": (_is_nonempty_text, "a folder to work in"),
    "permission_mode": (lambda value: value in PERMISSION_MODES, f"one of {', '.join(PERMISSION_MODES)}"),
    "allow": (_is_text_list, "a list of rules"),
    "deny": (_is_text_list, "a list of rules"),
    "add_dir": (_is_text_list, "a list of folders"),
    "max_turns": (_is_positive_integer, "a whole number above 0"),
    "max_cost": (_is_positive_number, "dollars above 0"),
    "max_time": (_is_positive_number, "seconds above 0"),
    "config": (_is_text_list, "a list of KEY=VALUE"),
    "output_schema": (lambda value: isinstance(value, dict), "a JSON Schema, as an object"),
}
"""The options of a task except `id` and `prompt`, each with a validator and a description of valid values."""


def read_tasks(content: bytes) -> tuple[Sequence[BatchTask], Sequence[str]]:
    """Parse a task file. Also return one message per invalid line, with its line number."""
    tasks: dict[str, BatchTask] = {}
    problems = list[str]()
    for line_number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            task = _parse_task(line_number, line)
            if task.id in tasks:
                raise ValueError(f"the task in line {tasks[task.id].line_number} also has the id `{task.id}`")
            tasks[task.id] = task
        except (ValueError, RecursionError) as error:
            problems.append(f"line {line_number}: {error}")
    return tuple(tasks.values()), problems


def _parse_task(line_number: int, line: bytes) -> BatchTask:
    """Parse a line. Raises `ValueError` with the problem."""
    fields = _parse_object(line)
    unknown_names = sorted(fields.keys() - {"id", "prompt", *TASK_OPTIONS})
    if unknown_names:
        raise ValueError(f"unknown option `{unknown_names[0]}`; a task can have id, prompt, {', '.join(TASK_OPTIONS)}")
    given_id = fields.get("id", line_number)
    if not (_is_nonempty_text(given_id) or (isinstance(given_id, int) and not isinstance(given_id, bool))):
        raise ValueError("`id` must be a string or an integer")
    if len(str(given_id)) > MAX_ID_CHARS:
        raise ValueError(f"its `id` is longer than {MAX_ID_CHARS} characters")
    if not _is_nonempty_text(fields.get("prompt")):
        raise ValueError("`prompt` must be a non-empty string")
    options = {name: value for name, value in fields.items() if name in TASK_OPTIONS and value is not None}
    for name, value in options.items():
        is_valid, expected_text = TASK_OPTIONS[name]
        if not is_valid(value):
            raise ValueError(f"`{name}` must be {expected_text}")
    schema = options.pop("output_schema", None)
    if schema is not None:
        try:
            schema_violations(None, schema)
        except ValueError as error:
            raise ValueError(f"`output_schema` cannot be used: {str(error).splitlines()[0]}") from error
    digested_fields = {name: value for name, value in fields.items() if name != "id"}
    digest = hashlib.sha256(json.dumps(digested_fields, sort_keys=True).encode()).hexdigest()
    return BatchTask(
        sendable_text(str(given_id)), line_number, sendable_text(fields["prompt"]), digest, given_id, options, schema
    )


def _parse_object(line: bytes) -> dict[str, Any]:
    try:
        value: Any = json.loads(line.decode("utf-8"), parse_constant=_reject_constant)
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"it is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError('it is not a JSON object; a task looks like {"prompt": "fix the tests"}')
    return value


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")
