"""A run's answer: the file that it is also written to, and the JSON Schema that it must match."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NoReturn, Self

from ebbtide.agent.errors import UsageError
from ebbtide.agent.headless.result import RunOutcome
from ebbtide.tools.call_arguments.schema import schema_violations
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """An answer file, opened before the run begins. It keeps its previous content until the run ends."""

    path: Path
    file: IO[str]

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the file for writing. Raises `UsageError`."""
        try:
            return cls(path, path.open("a", encoding="utf-8", errors="backslashreplace"))
        except (OSError, ValueError) as error:
            problem = error.strerror if isinstance(error, OSError) else error
            raise UsageError(f"cannot write the answer to `{path}`: {problem}; choose another file") from error

    def write(self, outcome: RunOutcome) -> None:
        """Replace the content of the file with the answer, which may be incomplete. If writing fails, mark the run as
        failed."""
        try:
            with self.file as file:
                if self.path.is_file():  # a pipe or a device cannot be truncated
                    file.truncate(0)
                file.write(outcome.result.rstrip("\n") + "\n" if outcome.result else "")
        except OSError as error:
            outcome.record_failure(
                "answer_file", f"the answer could not be written to `{self.path}`: {error.strerror}", 1
            )


def schema_instruction(schema: Mapping[str, object]) -> str:
    """Build the instruction to answer with JSON that matches the schema. It goes at the end of the prompt."""
    instruction = "When you are done, answer with one JSON value that matches this JSON Schema, and with nothing else:"
    return f"{instruction}\n{json.dumps(schema)}"


def parse_answer(answer: str, schema: Mapping[str, object]) -> tuple[str, list[str]]:
    """Extract the bare JSON text of an answer. Also return the reasons why it does not match the schema."""
    fence_match = re.fullmatch(r"\s*```(?:json)?\s*\n(.*)\n```\s*", answer, re.DOTALL)
    text = (fence_match[1] if fence_match else answer).strip()
    try:
        value: Any = json.loads(text, parse_constant=_reject_constant)
        return text, schema_violations(value, schema)
    except (ValueError, RecursionError) as error:
        return answer, [f"it is not JSON ({error})"]


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")
