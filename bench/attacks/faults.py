"""Failing providers and damaged stores: the number of retries, the exit, and what is preserved."""

import json
import os
import random
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

from bench.attacks import crashes
from bench.attacks.drive import KEYS, MODEL, AttackRun, play
from bench.attacks.rows import AttackFolders, AttackOutcome, AttackRow, create_files
from bench.attacks.shell import SANDBOX_OFF
from ebbtide.tools.lazy import dataclass
from tests.kit.commands import ebb
from tests.kit.fake_provider import Call, FakeProvider, Turn

_MAX_WAIT_S = 3.0
_REPEATED_CALLS, _DELTA_COUNT = 50, 200_000
_MAX_REQUESTS = 12
"""Number of requests for one message above which the program counts as retrying endlessly."""
_ATTACHED_FILES = 6
"""Number of files attached to one message, with 2,000 words each."""
_FILE_WORDS = "the road goes over a hill and by the river to where people have their houses under old trees in summer"


def run_provider_fault(row: AttackRow, dirs: AttackFolders, policies: Mapping[str, Any]) -> AttackOutcome:
    """Send one message to a model whose first response is the fault and whose later ones are valid."""
    fault, expected = row["setup"]["fault"], row["expected"]
    create_files(row["setup"], dirs)
    if "connect" in fault or "dns" in fault:
        address = "http://127.0.0.1:1" if "connect" in fault else "http://nowhere.invalid"
        env = {**KEYS, **SANDBOX_OFF, "ANTHROPIC_BASE_URL": address}
        run = ebb("-C", str(dirs.project), "-p", "hi", "-m", MODEL, home=dirs.program_home, env=env)
        place = address.removeprefix("http://").partition(":")[0]
        return AttackOutcome.from_problems(
            "" if run.code else "it reported success", "" if place in run.err else "no address named"
        )
    if "Ollama" in str(fault.get("server", "")):
        return _run_truncating_server(dirs, fault)
    first = _fault_turn(fault)
    if first is None:
        return AttackOutcome("not carried out", "a stream of bytes that the scripted server does not make")
    delay = float(first.headers.get("retry-after", 0)) or float(first.headers.get("retry-after-ms", 0)) / 1000
    if delay > _MAX_WAIT_S:  # a shorter delay shows the same behaviour
        first, delay = replace(first, headers={**first.headers, "retry-after": str(_MAX_WAIT_S)}), _MAX_WAIT_S
    began = time.monotonic()
    if "same call" in str(fault.get("tool_call", "")):
        return _run_repeated_calls(row, dirs)
    done = Turn(text="done")
    if first.fault == "silent":
        settings = dirs.program_home / "config" / "config.toml"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text("[providers.anthropic]\ntimeout = 2\n")
    played = play(dirs, [first, done, done, done], "--permission-mode", "auto", env=SANDBOX_OFF)
    took = time.monotonic() - began
    asked = played.bodies.count(played.bodies[0]) if played.bodies else 0
    wants = expected.get("retry")
    return AttackOutcome.from_problems(
        played.outside_effects(),
        f"asked {asked} times" if asked > _MAX_REQUESTS else "",
        "it did not ask again" if wants is True and asked < 2 else "",
        f"it asked again ({asked})" if wants is False and asked > 1 and "then" not in expected else "",
        "it went well without an answer"
        if wants is False and not played.run.code and asked == 1 and "then" not in expected
        else "",
        f"it did not wait for {delay} s as requested" if wants is True and took < delay else "",
        _missing_error_problem(row, played),
        _assembly_problem(row, played),
    )


def _run_truncating_server(dirs: AttackFolders, fault: Mapping[str, Any]) -> AttackOutcome:
    """Run against a server that silently reads only the end of a request."""
    dice, words = random.Random(1), _FILE_WORDS.split()
    lines = [" ".join(dice.choices(words, k=27)) + "\n" for _ in range(80)]
    create_files({"files": {f"{at}.txt": "".join(dice.sample(lines, 80)) for at in range(_ATTACHED_FILES)}}, dirs)
    named = " ".join(f"@{at}.txt" for at in range(_ATTACHED_FILES))
    facts = {"model_info": {"general.architecture": "m", "m.context_length": 131_072}, "capabilities": ["tools"]}
    read = fault["usage"]["prompt_eval_count"]
    with FakeProvider([lambda asked: Turn(text="done")], facts, reads=read) as server:
        run = ebb(
            "-C",
            str(dirs.project),
            "-p",
            f"what is in {named}",
            "-m",
            "ollama/m",
            "--config",
            "agent.context_window=131072",
            home=dirs.program_home,
            env={**SANDBOX_OFF, "OLLAMA_HOST": server.url},
        )
        bodies = [one.body for one in server.requests if "messages" in one.body]
    windows = [body["options"].get("num_ctx", 0) for body in bodies]
    return AttackOutcome.from_problems(
        "" if "drops the beginning" in run.err else f"nothing was said: {run.err[-200:]!r}",
        "" if windows and min(windows) > fault["estimated"] else f"the windows that were asked for: {windows}",
    )


def _run_repeated_calls(row: AttackRow, dirs: AttackFolders) -> AttackOutcome:
    """Run a model that repeats the same call endlessly. The program must stop it, or inform it of the repetition."""
    same = Turn(calls=(Call("bash", {"command": "ls"}),))
    played = play(dirs, [same] * _REPEATED_CALLS, "--permission-mode", "auto", env=SANDBOX_OFF)
    is_detected = any("same" in one for one in played.outputs) or '"loop' in played.run.out
    return AttackOutcome.from_problems(
        played.outside_effects(), "" if is_detected or len(played.bodies) < _REPEATED_CALLS else "it was not detected"
    )


def _assembly_problem(row: AttackRow, played: AttackRun) -> str:
    """Return a problem with a call or answer that was received in pieces; empty if there is none."""
    expected = row["expected"]
    if expected.get("assembled_correctly"):
        outputs = [one.strip().splitlines()[0] for one in played.outputs[:2]]
        return "" if outputs == ["one", "two"] else f"the calls gave {outputs}"
    if expected.get("idle_timeout"):
        return "" if played.run.code or len(played.bodies) > 1 else "it took silence for an answer"
    if expected.get("ignored") or expected.get("time_linear") or expected.get("no_crash"):
        return "" if played.run.code == 0 else f"exit code {played.run.code}: {played.run.err[-200:]}"
    return ""


def _missing_error_problem(row: AttackRow, played: AttackRun) -> str:
    """Return a problem if the model was not informed about an invalid call; otherwise an empty string."""
    if "error_to_model" not in row["expected"]:
        return ""
    return "" if len(played.bodies) > 1 and played.outputs else "the model was told nothing"


def _fault_turn(fault: Mapping[str, Any]) -> Turn | None:
    if isinstance(fault.get("status"), int) and fault["status"] != 200:
        return Turn(status=fault["status"], headers=fault.get("headers") or {}, body=fault.get("body") or "")
    if "tool_args" in fault:
        return Turn(calls=(Call("read", raw=fault["tool_args"]),))
    if "same call" in str(fault.get("tool_call", "")):
        return Turn(text="done")
    if "interleaved" in str(fault.get("tool_call", "")):
        return Turn(raw=_interleaved_calls())
    if "tool_call" in fault:
        name = str(fault["tool_call"]).partition("'")[2].partition("'")[0]
        return Turn(calls=(Call(name, {"command": "ls"}),)) if name else None
    described = str(fault.get("stream") or fault.get("response") or "")
    if "no byte" in described:
        return Turn(text="late", fault="silent")
    if "unknown event types" in described:
        return Turn(raw=_text_stream(_IGNORED_EVENTS * 200, ["fine"], "a_new_reason", _IGNORED_EVENTS))
    if "one-character deltas" in described:
        return Turn(raw=_text_stream("", ["x"] * _DELTA_COUNT, "end_turn"))
    if "empty choices" in described:
        return Turn(text="fine")  # its wire format is tested in tests/agent/providers/wires
    if described.startswith("event: error"):
        return Turn(text="par", fault="error", error=("overloaded_error", "Overloaded"))
    for word, turn in {
        "cut after": Turn(text="one two three", fault="drop"),
        "split over chunks": Turn(text="größer ✓", fault="bytewise"),
        "empty content": Turn(),
        "zero content": Turn(),
        "refusal": Turn(text="", stop="refusal"),
        "server_is_overloaded": Turn(text="par", fault="error", error=("server_is_overloaded", "Overloaded")),
    }.items():
        if word in described:
            return turn
    return Turn(whole=fault["body"]) if fault.get("body") else None


def _text_stream(before: str, deltas: Sequence[str], reason: str, between: str = "") -> str:
    """Return a stream in Anthropic's format with the text in these pieces."""
    texts = (
        _sse_event("content_block_delta", index=0, delta={"type": "text_delta", "text": text}) + between
        for text in deltas
    )
    return "".join(
        (
            before,
            _sse_event("message_start", message=_START_MESSAGE),
            _sse_event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
            *texts,
            _sse_event("content_block_stop", index=0),
            _sse_event(
                "message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": 1}
            ),
            _sse_event("message_stop"),
        )
    )


def _interleaved_calls() -> str:
    """Return a stream of two calls whose arguments are interleaved, with non-consecutive indexes."""
    halves = {0: ('{"comm', 'and": "echo one"}'), 4: ('{"command": "ec', 'ho two"}')}
    block: Mapping[str, object] = {"type": "tool_use", "name": "bash", "input": {}}
    starts = (_sse_event("content_block_start", index=at, content_block={**block, "id": f"t{at}"}) for at in halves)
    pieces = (
        _sse_event(
            "content_block_delta", index=at, delta={"type": "input_json_delta", "partial_json": halves[at][half]}
        )
        for half in (0, 1)
        for at in halves
    )
    ends = (_sse_event("content_block_stop", index=at) for at in halves)
    over = _sse_event(
        "message_delta", delta={"stop_reason": "tool_use", "stop_sequence": None}, usage={"output_tokens": 1}
    )
    return "".join(
        (_sse_event("message_start", message=_START_MESSAGE), *starts, *pieces, *ends, over, _sse_event("message_stop"))
    )


def _sse_event(kind: str, **rest: object) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **rest})}\n\n"


_START_MESSAGE: Mapping[str, object] = {
    "id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
    "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip
_IGNORED_EVENTS = f": OPENROUTER PROCESSING\n\n{_sse_event('ping')}{_sse_event('never_heard_of', what=[1])}"


def run_store_fault(row: AttackRow, dirs: AttackFolders, policies: Mapping[str, Any]) -> AttackOutcome:
    """Run a session, damage its database or home, and start the program again."""
    setup = row["setup"]
    if "EXCLUSIVE" in str(setup.get("db", "")):
        return _run_with_locked_database(row, dirs)
    damage = next((one for one in _KNOWN_DAMAGES if one.matches(setup)), None)
    if damage is None:
        return crashes.carry_out(row, dirs)
    create_files(setup, dirs)
    first = play(dirs, [Turn(text="done")], env=SANDBOX_OFF)
    damage.apply(dirs)
    again = play(dirs, [Turn(text="done")], env=SANDBOX_OFF)
    listed = ebb("-C", str(dirs.project), "sessions", home=dirs.program_home)
    return AttackOutcome.from_problems(
        first.outside_effects(), again.outside_effects(),
        "a traceback" if "Traceback" in listed.err + again.run.err else "",
        "" if again.run.code == 0 or '"message"' in again.run.out or again.run.err else "it failed without a word",
    )  # fmt: skip


def _run_with_locked_database(row: AttackRow, dirs: AttackFolders) -> AttackOutcome:
    """Run while another process holds an exclusive lock on the database."""
    create_files(row["setup"], dirs)
    play(dirs, [Turn(text="done")], env=SANDBOX_OFF)

    @contextmanager
    def locked() -> Iterator[None]:
        with closing(sqlite3.connect(dirs.program_home / "data" / "sessions.db", isolation_level=None)) as db:
            db.execute("pragma locking_mode = exclusive")
            db.execute("begin exclusive")
            yield

    again = play(dirs, [Turn(text="done")], env=SANDBOX_OFF, meanwhile=locked)
    printed = again.run.out + again.run.err
    return AttackOutcome.from_problems(
        again.outside_effects(),
        "" if "locked" in printed or "in use" in printed or "another" in printed else f"it said {printed[-200:]!r}",
    )


@dataclass(frozen=True, slots=True)
class _Damage:
    key: str
    kind: str

    def matches(self, setup: Mapping[str, Any]) -> bool:
        return self.kind in str(setup.get(self.key, ""))

    def apply(self, places: AttackFolders) -> None:
        database = places.program_home / "data" / "sessions.db"
        match self.kind:
            case "999":
                with sqlite3.connect(database) as db:
                    db.execute("PRAGMA user_version = 999")
            case "read-only":
                for path in (database, database.parent):
                    path.chmod(0o500 if path.is_dir() else 0o400)
            case "missing":
                os.rename(places.program_home, f"{places.program_home}-away")
                places.program_home.write_text("a file")


_KNOWN_DAMAGES = (_Damage("db", "999"), _Damage("db", "read-only"), _Damage("home", "missing"))
