"""Somebody who runs `ebb`: each command a process of its own, in a home and a project of the test.

`user` and `worker`, fixtures, are such people.
"""

import json
import sqlite3
import subprocess
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.kit.commands import Run, command, ebb, environment
from tests.kit.session import bash, calls

DAY = 86_400
WORDS = "word " * 2_000


class User:
    """Somebody with a home, a project in it and a scripted model."""

    def __init__(self, home: Path, project: str = "app") -> None:
        self.home, self.project, self.data = home, home / project, home / "data"
        self.project.mkdir(parents=True)

    def script(self, *replies: object, window: int = 200_000, **more: object) -> str:
        """A model that gives these replies. `more`: of its script."""
        path = self.home / "script.json"
        path.write_text(json.dumps({"reply": replies, "context_window": window, **more}))
        return f"scripted/{path}"

    def ebb(self, *arguments: str, stdin: str | None = None, env: Mapping[str, str] | None = None) -> Run:
        return ebb("-C", str(self.project), *arguments, home=self.home, stdin=stdin, env=env)

    def begin(self, *arguments: str, env: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
        """The same as a process that runs; `stdout` is read by the test."""
        return subprocess.Popen(
            command("-C", str(self.project), *arguments), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
            env=environment(self.home, env),
        )  # fmt: skip

    def ask(self, *replies: object, flags: tuple[str, ...] = (), form: str = "json", **script: Any) -> Run:
        return self.ebb("-p", "go", "-m", self.script(*replies, **script), "--output-format", form, *flags)

    def outputs(self, session: str) -> list[str]:
        """What the calls of a session gave back."""
        listing = self.ebb("sessions", "show", session, "--json")
        return [part["text"] for line in listing.lines for part in line["parts"] if part["type"] == "output"]

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.data / "sessions.db")) as db:
            found = db.execute(sql, values).fetchall()
            db.commit()
        return found

    def leave_log(self, *statements: str) -> None:
        """Changes the database and leaves the log beside it, as a killed process does."""
        log = self.data / "sessions.db-wal"
        with closing(sqlite3.connect(self.data / "sessions.db")) as db:
            for statement in statements:
                db.execute(statement)
                db.commit()
            content = log.read_bytes()
        log.write_bytes(content)


class Worker(User):
    """One whose sessions run commands, and who looks at what was kept of their outputs."""

    def working(self, *commands: str) -> str:
        """A model that runs these commands and then answers."""
        return self.script(*(calls(bash(command)) for command in commands), {"text": "Done."}, *[{"text": WORDS}] * 9)

    def session(self, *commands: str, config: str = "") -> str:
        """A session in which these commands ran; its id."""
        flags = ("--permission-mode", "auto", "--output-format", "json", *(("--config", config) if config else ()))
        run = self.ebb("-p", "go", "-m", self.working(*commands), *flags)
        assert run.code == 0, run.err
        return str(run.result["session"])

    def digest(self, session: str, number: int) -> str:
        ((digest,),) = self.query("select digest from outputs where session = ? and number = ?", session, number)
        return str(digest)

    def blob(self, session: str, number: int) -> Path:
        """Where the bytes of an output are."""
        digest = self.digest(session, number)
        return self.data / "blobs" / digest[:2] / digest

    @property
    def blobs(self) -> set[str]:
        return {path.name for path in (self.data / "blobs").glob("??/*")}

    def age(self, session: str, days: float) -> None:
        """Lets the outputs of a session be that old."""
        self.query("update outputs set created = created - ? where session = ?", days * DAY, session)

    def forget_view(self, *sessions: str) -> None:
        """Lets nothing of these sessions be in view any more, as after compactions whose summaries name no output."""
        for session in sessions:
            ((count,),) = self.query("select max(position) + 1 from messages where session = ?", session)
            body = json.dumps({"start": count, "summary": "Work was done.", "anchor": None, "anchored": 0})
            self.query("insert or replace into snapshots values (?, ?, ?, 1.0)", session, count, body)
