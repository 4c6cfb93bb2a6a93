"""The program in a terminal, in line mode and full screen: what it writes, and how it handles typed and pasted
input."""

import errno
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench.attacks import crashes, screens
from bench.attacks.drive import KEYS, MODEL, make_home, play
from bench.attacks.rows import AttackFolders, AttackOutcome, Row, lay_out
from bench.attacks.shell import OFF
from ebbtide.tools.lazy import dataclass
from tests.fake_provider import Call, FakeProvider, Step, Turn
from tests.running import command, ebb, environment

_IDLE, _MAX_WAIT_S = 2.5, 8.0
"""Seconds without output after which everything is shown, and the maximum wait."""
_PIECE = 1_000
_MAX_BELLS = 3
_UNSEEN = re.compile("[\x80-\x9f\u202a-\u202e\u2066-\u2069\u200b\u200c\ufeff\U000e0000-\U000e007f]")
_SEQUENCE = re.compile("\x1b[^\x1b\x07]{1,12}")


@dataclass(frozen=True, slots=True)
class TerminalResult:
    text: str
    code: int | None
    """None if it had to be killed."""
    is_restored: bool
    """Whether the terminal's settings were restored."""


def in_terminal(places: AttackFolders, steps: Sequence[Step], *words: str, typed: Sequence[str] = ()) -> TerminalResult:
    """Return what `ebb` writes to a terminal while a model plays these steps. `typed` are the texts to type at each
    pause."""
    import termios  # noqa: PLC0415  # deferred: only used in isolation, on Linux

    make_home(places)
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    waiting, read, code = list(typed), bytearray(), None
    slower = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # on a busy machine the program is quiet for longer
    idle, longest = _IDLE * slower, (_MAX_WAIT_S + _IDLE * len(typed)) * slower
    with FakeProvider(steps) as server:
        given = {**KEYS, **OFF, "ANTHROPIC_BASE_URL": server.url, "HOME": str(places.home), "TERM": "xterm-256color"}
        process = subprocess.Popen(
            command("-C", str(places.project), "-m", MODEL, *words), env=environment(places.ours, given),
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        began, last = time.monotonic(), time.monotonic()
        while time.monotonic() - began < longest:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    read += os.read(ours, 65_536)
                except OSError as error:
                    if error.errno != errno.EIO:
                        raise
                    break
                last = time.monotonic()
            elif process.poll() is not None:
                break
            elif read and time.monotonic() - last > idle:
                if not waiting:
                    break
                text = waiting.pop(0)  # typed in small pieces, to avoid a deadlock if the program does not read
                os.write(ours, text[:_PIECE].encode("utf-8", "surrogateescape"))
                waiting[:0] = [text[_PIECE:]] if text[_PIECE:] else []
                last = time.monotonic() - (idle if text[_PIECE:] else 0)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        server.refused.clear()
    while select.select([ours], [], [], 0.1)[0]:
        read += os.read(ours, 65_536)
    is_restored = termios.tcgetattr(theirs)[3] == before[3]
    os.close(theirs)
    os.close(ours)
    return TerminalResult(read.decode("utf-8", "surrogateescape"), code, is_restored)


def escapes(row: Row, places: AttackFolders, policies: Mapping[str, Any]) -> AttackOutcome:
    """Check the effect of a text when it is displayed, full screen and in line mode."""
    sink, told = row["setup"]["sink"], row["setup"]["payload"]
    payload = "".join(told) if isinstance(told, list) else str(told)
    make_home(places)
    lay_out(row["setup"], places)
    (places.project / "f").write_text(payload, "utf-8", "surrogatepass")
    steps, words = _steps(sink, payload, places), ["go"]
    words += ["--permission-mode", "ask" if sink.startswith("approval") else "auto"]
    if sink.startswith("headless"):
        words = ["-p", "go"]
    if sink.startswith("log"):
        play(places, steps, "--debug", env={**OFF, "CONTEXT_DEBUG": "true"})
        session = ebb("-C", str(places.project), "sessions", home=places.ours).out.split()[0]
        exported = ebb("-C", str(places.project), "sessions", "show", session, home=places.ours).out
        logs = "".join(p.read_text("utf-8", "replace") for p in (places.ours / "logs").rglob("*") if p.is_file())
        return AttackOutcome.of(*_leaked_sequences(payload, exported + logs, is_screen=False))
    found = []
    for ways in ([], ["--plain"]) if not sink.startswith("headless") else ([],):
        shown = in_terminal(places, steps, *words, *ways)
        found += _leaked_sequences(payload, shown.text, is_screen=not ways and "-p" not in words)
        found += ["a traceback"] if "Traceback (most" in shown.text else []
        found += ["nothing was shown"] if len(shown.text) < 20 and "-p" not in words else []
    return AttackOutcome.of(*found)


def _leaked_sequences(payload: str, shown: str, *, is_screen: bool) -> list[str]:
    """Escape sequences in a payload that reached the terminal. In full-screen mode, the program's own sequences may be
    equal and are ignored."""
    own = _SEQUENCE.findall(payload)
    wanted = [one for one in own if not is_screen or one[1:2] in "]P^_X"]
    found = [f"{one!r} came through" for one in wanted if one in shown]
    found += [f"{len(_UNSEEN.findall(shown))} invisible characters"] if _UNSEEN.search(shown) else []
    bells = len(re.findall(r"(?<!\x1b\]0;)[^\x1b\x07]{0,200}?\x07", re.sub(r"\x1b\][^\x07\x1b]*\x07", "", shown)))
    return found + ([f"{bells} bells"] if bells > _MAX_BELLS else [])


def _steps(sink: str, payload: str, places: AttackFolders) -> list[Step]:
    if sink.startswith(("model", "headless", "log")):
        return [Turn(text=f"before {payload} behind")]
    if sink.startswith("approval"):
        call = Call("bash", {"command": payload})
    elif sink.startswith("file read"):
        call = Call("read", {"path": "f"})
    elif sink.startswith("file name"):
        (places.project / payload.replace("/", "_")).write_text("x")
        call = Call("glob", {"pattern": "*"})
    elif sink.startswith(("mcp", "status")):
        call = Call(payload, {"a": payload})
    else:
        call = Call("bash", {"command": "cat f"})
    return [Turn(calls=(call,)), Turn(text="done")]


def check_typed_input(row: Row, places: AttackFolders, policies: Mapping[str, Any]) -> AttackOutcome:
    """Check typed, pasted, sent or command-line input."""
    action, expected = row["action"], row["expected"]
    if (way := screens.way_of(row)) is not None:
        return screens.carry_out(way, row, places)
    if "SIGINT in a turn" in str(action):
        return crashes.interrupt_command(row, places)
    lay_out(row["setup"], places)
    if "argv" in action:
        return _words(action, expected, places)
    if action.get("start"):
        env = {**KEYS, **OFF, "ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
        run = ebb("-C", str(places.project), "-p", "-", home=places.ours, env=env, stdin="\x00\x1b[2J\x07")
        return AttackOutcome.of(
            "a traceback" if "Traceback" in run.err else "", *_leaked_sequences("\x1b[2J", run.err, is_screen=False)
        )
    if "headless" in action and "approval" in action["headless"]:
        call = Turn(calls=(Call("bash", {"command": "touch x"}),))
        played = play(places, [call, Turn(text="done")], env=OFF)
        return AttackOutcome.of(
            played.outside_effects(), "" if played.was_denied and played.run.code == 5 else "it was not denied"
        )
    text = str(action.get("paste") or action.get("text") or action.get("keys") or "")
    if not text:
        return AttackOutcome("not carried out", "nothing is typed in it that is known here")
    made = _payload_text(text)
    paste = f"\x1b[200~{made}\x1b[201~" if "paste" in action else made
    shown = in_terminal(places, [Turn(text="done"), Turn(text="done")], typed=[paste, "\r", "\x03", "\x03"])
    return AttackOutcome.of(
        "a traceback" if "Traceback (most" in shown.text else "",
        "" if shown.is_restored else "the terminal was not restored",
        "a file came about" if (places.project / "PWNED").exists() else "",
        *_leaked_sequences(made if "\x1b]" in made else "", shown.text, is_screen=True),
    )


def _payload_text(told: str) -> str:
    """The text that a row describes."""
    if told.startswith("1 MB"):
        return "words of a text\n" * 65_536
    if "combining" in told:
        return "a" + "\u0301" * 10_000 + "\u202eabc\U0001f469\u200d\U0001f4bb"
    return (
        told.replace("\\x1b", "\x1b")
        .replace("\\x00", "\0")
        .replace("\\x03", "")
        .replace("\\x04", "")
        .replace("\\x1a", "")
    )


def _words(action: Mapping[str, Any], expected: Mapping[str, Any], places: AttackFolders) -> AttackOutcome:
    """Check invalid command-line arguments and session ids."""
    found = []
    for last in (action["argv"][-1], *action.get("also", ())):
        words = [*action["argv"][:-1], last] if len(action["argv"]) > 1 else list(action["argv"])
        run = ebb("-C", str(places.project), "-p", "hi", *words, home=places.ours, env={**KEYS, **OFF})
        if run.code == 0 or (isinstance(expected.get("exit"), int) and run.code != expected["exit"]):
            found.append(f"{words} ended with {run.code}")
        if "Traceback" in run.err:
            found.append(f"{words} ended with a traceback")
    return AttackOutcome.of(*found)
