"""A program that drives `ebb` by JSON lines."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from tests.kit.commands import command, environment
from tests.kit.user import User

STREAM = ("--input-format", "stream-json", "--output-format", "stream-json")

QUESTIONS = ("permission_asked", "question_asked", "plan_submitted", "control_request")
ENDS = ("turn_finished", "turn_failed", "result")
"""The lines that end a turn: nothing more is asked in it."""


class Driver:
    """One that has the pipes of a run."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin
        assert process.stdout
        self.process, self._in, self._out = process, process.stdin, process.stdout
        self.lines: list[dict[str, Any]] = []
        """All that was printed and read so far."""

    def say(self, type: str, **more: object) -> None:
        self.write(json.dumps({"type": type, **more}).encode() + b"\n")

    def write(self, data: bytes) -> None:
        self._in.write(data)
        self._in.flush()

    def until(self, type: str, **more: object) -> dict[str, Any]:
        """Reads up to the next line of a type that has these values, which it gives. A question has to come before the
        turn is over."""
        ends = ENDS if type in QUESTIONS else ()
        for line in self._out:
            self.lines.append(json.loads(line))
            if self.lines[-1].items() >= {"type": type, **more}.items():
                return self.lines[-1]
            if self.lines[-1]["type"] in ends:
                break
        raise AssertionError(f"no `{type}` {more} came: {[line['type'] for line in self.lines]}")

    def leave(self) -> None:
        """Closes both pipes, as a program that dies."""
        self._in.close()
        self._out.close()

    def end(self) -> tuple[int, dict[str, Any]]:
        """Says no more, and reads the rest; the exit code and the result."""
        self._in.close()
        self.lines += [json.loads(line) for line in self._out]
        return self.process.wait(timeout=60), self.lines[-1]

    def told(self, *types: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["type"] in types]


@contextmanager
def driven(
    user: User, *flags: str, model: str, form: tuple[str, ...] = STREAM, env: Mapping[str, str] | None = None
) -> Iterator[Driver]:
    """A run of `ebb` in the user's project, which ends with the block."""
    process = subprocess.Popen(
        command("-C", str(user.project), "-m", model, *form, *flags), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=environment(user.home, env),
    )  # fmt: skip
    try:
        yield Driver(process)
    finally:
        process.kill()
        process.wait()
        for pipe in filter(None, (process.stdin, process.stdout)):
            with suppress(BrokenPipeError):  # what was not written when it ended
                pipe.close()
