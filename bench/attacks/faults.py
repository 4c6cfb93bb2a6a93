"""Providers that fail and stores that are damaged: how often the program asks again, how it ends, what is kept."""

import os
import sqlite3
from collections.abc import Mapping
from typing import Any

from bench.attacks.drive import KEYS, MODEL, Played, play
from bench.attacks.rows import Outcome, Places, Row, lay_out
from bench.attacks.shell import OFF
from tests.fake_provider import Call, Turn
from tests.running import ebb
from tools.lazy import dataclass

_NEVER_MORE = 12
"""Requests for one message, beyond which somebody asks for ever."""


def provider(row: Row, places: Places, policies: Mapping[str, Any]) -> Outcome:
    """One message to a model whose first answer is the fault, and whose others are good."""
    fault, expected = row["setup"]["fault"], row["expected"]
    lay_out(row["setup"], places)
    if "connect" in fault or "dns" in fault:
        address = "http://127.0.0.1:1" if "connect" in fault else "http://nowhere.invalid"
        env = {**KEYS, **OFF, "ANTHROPIC_BASE_URL": address}
        run = ebb("-C", str(places.project), "-p", "hi", "-m", MODEL, home=places.ours, env=env)
        place = address.removeprefix("http://").partition(":")[0]
        return Outcome.of(
            "" if run.code else "it says that it went well", "" if place in run.err else "no address named"
        )
    first = _turn(fault)
    if first is None:
        return Outcome("not carried out", "a stream of bytes that the scripted server does not make")
    delay = float(first.headers.get("retry-after", 0)) or float(first.headers.get("retry-after-ms", 0)) / 1000
    if delay > 5:
        return Outcome("not carried out", "it would wait for as long as the server says")
    played = play(places, [first, Turn(text="done"), Turn(text="done"), Turn(text="done")], env=OFF)
    asked = played.bodies.count(played.bodies[0]) if played.bodies else 0
    wants = expected.get("retry")
    return Outcome.of(
        played.escaped(),
        f"asked {asked} times" if asked > _NEVER_MORE else "",
        "it did not ask again" if wants is True and asked < 2 else "",
        f"it asked again ({asked})" if wants is False and asked > 1 and "then" not in expected else "",
        "it went well without an answer"
        if wants is False and not played.run.code and asked == 1 and "then" not in expected
        else "",
        _error_told(row, played),
    )


def _error_told(row: Row, played: Played) -> str:
    """What is wrong with what the model was told about a call that could not be made."""
    if "error_to_model" not in row["expected"]:
        return ""
    return "" if len(played.bodies) > 1 and played.outputs else "the model was told nothing"


def _turn(fault: Mapping[str, Any]) -> Turn | None:
    if isinstance(fault.get("status"), int) and fault["status"] != 200:
        return Turn(status=fault["status"], headers=fault.get("headers") or {}, body=fault.get("body") or "")
    if "tool_args" in fault:
        return Turn(calls=(Call("read", raw=fault["tool_args"]),))
    if "tool_call" in fault:
        name = str(fault["tool_call"]).partition("'")[2].partition("'")[0]
        return Turn(calls=(Call(name, {"command": "ls"}),)) if name else None
    told = str(fault.get("stream") or fault.get("response") or "")
    if told.startswith("event: error"):
        return Turn(text="par", fault="error", error=("overloaded_error", "Overloaded"))
    for word, turn in {
        "cut after": Turn(text="one two three", fault="drop"),
        "split over chunks": Turn(text="größer ✓", fault="bytewise"),
        "empty content": Turn(),
        "zero content": Turn(),
        "refusal": Turn(text="", stop="refusal"),
        "server_is_overloaded": Turn(text="par", fault="error", error=("server_is_overloaded", "Overloaded")),
    }.items():
        if word in told:
            return turn
    return Turn(whole=fault["body"]) if fault.get("body") else None


def store(row: Row, places: Places, policies: Mapping[str, Any]) -> Outcome:
    """A session, the fault in its database or home, and the program started once more."""
    setup = row["setup"]
    damage = next((one for one in _DAMAGES if one.meant_by(setup)), None)
    if damage is None:
        return Outcome(
            "not carried out", "crashes and full disks at one moment: tests/test_kill.py, tests/test_full_disk.py"
        )
    lay_out(setup, places)
    first = play(places, [Turn(text="done")], env=OFF)
    damage.do(places)
    again = play(places, [Turn(text="done")], env=OFF)
    listed = ebb("-C", str(places.project), "sessions", home=places.ours)
    return Outcome.of(
        first.escaped(), again.escaped(), "a traceback" if "Traceback" in listed.err + again.run.err else "",
        "" if again.run.code == 0 or '"message"' in again.run.out or again.run.err else "it failed without a word",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Damage:
    key: str
    word: str

    def meant_by(self, setup: Mapping[str, Any]) -> bool:
        return self.word in str(setup.get(self.key, ""))

    def do(self, places: Places) -> None:
        database = places.ours / "data" / "sessions.db"
        match self.word:
            case "999":
                with sqlite3.connect(database) as db:
                    db.execute("PRAGMA user_version = 999")
            case "read-only":
                for path in (database, database.parent):
                    path.chmod(0o500 if path.is_dir() else 0o400)
            case "missing":
                os.rename(places.ours, f"{places.ours}-away")
                places.ours.write_text("a file")


_DAMAGES = (_Damage("db", "999"), _Damage("db", "read-only"), _Damage("home", "missing"))
