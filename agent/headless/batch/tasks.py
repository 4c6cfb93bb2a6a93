"""Reads the tasks of a batch from a JSON Lines file and reports invalid lines. Pure."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ebbtide.agent.config.options import MODES
from ebbtide.agent.context.long_texts import sendable
from ebbtide.tools.schema import mismatches

MAX_ID_CHARS = 200
"""Maximum length of an id, in characters."""


@dataclass(frozen=True, slots=True)
class BatchTask:
    """One line of the file."""

    id: str
    """Unique id in the batch; the line number if the task has no id."""
    line: int
    """Line number, from 1."""
    prompt: str
    digest: str
    """Digest of the whole task; a changed task with the same id is a new task."""
    given_id: str | int
    """The id as written in the file."""
    options: Mapping[str, Any]
    """Options by flag name, with `_` for `-`: those of `OPTIONS` except `output_schema`."""
    schema: Mapping[str, object] | None = None
    """JSON Schema that the answer must match."""

    @property
    def settings(self) -> str:
        """A key that is equal for tasks with the same options."""
        return json.dumps(self.options, sort_keys=True)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


OPTIONS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "model": (_is_text, "PROVIDER/NAME"),
    "cwd": (_is_text, "a folder to work in"),
    "permission_mode": (lambda value: value in MODES, f"one of {', '.join(MODES)}"),
    "allow": (_is_texts, "a list of rules"),
    "deny": (_is_texts, "a list of rules"),
    "add_dir": (_is_texts, "a list of folders"),
    "max_turns": (_is_count, "a whole number above 0"),
    "max_cost": (_is_amount, "dollars above 0"),
    "max_time": (_is_amount, "seconds above 0"),
    "config": (_is_texts, "a list of KEY=VALUE"),
    "output_schema": (lambda value: isinstance(value, dict), "a JSON Schema, as an object"),
}
"""Options of a task besides `id` and `prompt`: a validator and a description of valid values."""


def read_tasks(content: bytes) -> tuple[Sequence[BatchTask], Sequence[str]]:
    """Return the tasks of a file in order, and its problems, one line each, with line numbers."""
    tasks: dict[str, BatchTask] = {}
    problems = list[str]()
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not raw.strip():
            continue
        try:
            task = _task(number, raw)
            if task.id in tasks:
                raise ValueError(f"the task in line {tasks[task.id].line} also has the id `{task.id}`")
            tasks[task.id] = task
        except (ValueError, RecursionError) as error:
            problems.append(f"line {number}: {error}")
    return tuple(tasks.values()), problems


def _task(number: int, raw: bytes) -> BatchTask:
    """Parse a line. Raises `ValueError` with the problem."""
    said = _object(raw)
    unknown = sorted(said.keys() - {"id", "prompt", *OPTIONS})
    if unknown:
        raise ValueError(f"unknown option `{unknown[0]}`; a task can have id, prompt, {', '.join(OPTIONS)}")
    given = said.get("id", number)
    if not (_is_text(given) or (isinstance(given, int) and not isinstance(given, bool))):
        raise ValueError("`id` must be a string or an integer")
    if len(str(given)) > MAX_ID_CHARS:
        raise ValueError(f"its `id` is longer than {MAX_ID_CHARS} characters")
    if not _is_text(said.get("prompt")):
        raise ValueError("`prompt` must be a non-empty string")
    options = {name: value for name, value in said.items() if name in OPTIONS and value is not None}
    for name, value in options.items():
        is_right, wanted = OPTIONS[name]
        if not is_right(value):
            raise ValueError(f"`{name}` must be {wanted}")
    schema = options.pop("output_schema", None)
    if schema is not None:
        try:
            mismatches(None, schema)
        except ValueError as error:
            raise ValueError(f"`output_schema` cannot be used: {str(error).splitlines()[0]}") from error
    task = {name: value for name, value in said.items() if name != "id"}
    digest = hashlib.sha256(json.dumps(task, sort_keys=True).encode()).hexdigest()
    return BatchTask(sendable(str(given)), number, sendable(said["prompt"]), digest, given, options, schema)


def _object(raw: bytes) -> dict[str, Any]:
    try:
        value: Any = json.loads(raw.decode("utf-8"), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"it is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError('it is not a JSON object; a task looks like {"prompt": "fix the tests"}')
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")
