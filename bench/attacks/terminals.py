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
from bench.attacks.drive import KEYS, MODEL, create_home, play
from bench.attacks.rows import AttackFolders, AttackOutcome, AttackRow, create_files
from bench.attacks.shell import SANDBOX_OFF
from ebbtide.tools.lazy import dataclass
from tests.kit.commands import command, ebb, environment
from tests.kit.fake_provider import Call, FakeProvider, Step, Turn

_IDLE_S, _MAX_WAIT_S = 2.5, 8.0
"""Seconds without output after which everything is shown, and the maximum wait."""
_PIECE_CHARS = 1_000
_MAX_BELLS = 3
_INVISIBLE_CHARS = re.compile("[\x80-\x9f\u202a-\u202e\u2066-\u2069\u200b\u200c\ufeff\U000e0000-\U000e007f]")
_ESCAPE_SEQUENCE = re.compile("\x1b[^\x1b\x07]{1,12}")


@dataclass(frozen=True, slots=True)
class TerminalResult:
    text: str
    code: int | None
    """None if it had to be killed."""
    is_restored: bool
    """Whether the terminal's settings were restored."""


def run_in_terminal(
    dirs: AttackFolders, steps: Sequence[Step], *words: str, typed: Sequence[str] = ()
) -> TerminalResult:
    """Run `ebb` in a terminal while a model plays these steps, and return what it writes. `typed`: the texts to type,
    one at each pause."""
    import termios  # noqa: PLC0415  # deferred: only used in isolation, on Linux

    create_home(dirs)
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    waiting, read, code = list(typed), bytearray(), None
    slowdown = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # on a busy machine the program's pauses are longer
    idle, longest = _IDLE_S * slowdown, (_MAX_WAIT_S + _IDLE_S * len(typed)) * slowdown
    with FakeProvider(steps) as server:
        given = {
            **KEYS,
            **SANDBOX_OFF,
            "ANTHROPIC_BASE_URL": server.url,
            "HOME": str(dirs.home),
            "TERM": "xterm-256color",
        }
        process = subprocess.Popen(
            command("-C", str(dirs.project), "-m", MODEL, *words), env=environment(dirs.program_home, given),
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        )  # fmt: skip
        began, last = time.monotonic(), time.monotonic()
        while time.monotonic() - began < longest:
            if select.select([master], [], [], 0.1)[0]:
                try:
                    read += os.read(master, 65_536)
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
                text = waiting.pop(0)  # in small pieces, in case the program does not read its input
                os.write(master, text[:_PIECE_CHARS].encode("utf-8", "surrogateescape"))
                waiting[:0] = [text[_PIECE_CHARS:]] if text[_PIECE_CHARS:] else []
                last = time.monotonic() - (idle if text[_PIECE_CHARS:] else 0)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        server.refused.clear()
    while select.select([master], [], [], 0.1)[0]:
        read += os.read(master, 65_536)
    is_restored = termios.tcgetattr(slave)[3] == before[3]
    os.close(slave)
    os.close(master)
    return TerminalResult(read.decode("utf-8", "surrogateescape"), code, is_restored)


def check_displayed_text(row: AttackRow, dirs: AttackFolders, policies: Mapping[str, Any]) -> AttackOutcome:
    """Check that a text has no effect on the terminal when it is displayed, full screen and in line mode."""
    sink, described = row["setup"]["sink"], row["setup"]["payload"]
    payload = "".join(described) if isinstance(described, list) else str(described)
    create_home(dirs)
    create_files(row["setup"], dirs)
    (dirs.project / "f").write_text(payload, "utf-8", "surrogatepass")
    steps, words = _steps_for_sink(sink, payload, dirs), ["go"]
    words += ["--permission-mode", "ask" if sink.startswith("approval") else "auto"]
    if sink.startswith("headless"):
        words = ["-p", "go"]
    if sink.startswith("log"):
        play(dirs, steps, "--debug", env={**SANDBOX_OFF, "CONTEXT_DEBUG": "true"})
        session = ebb("-C", str(dirs.project), "sessions", home=dirs.program_home).out.split()[0]
        exported = ebb("-C", str(dirs.project), "sessions", "show", session, home=dirs.program_home).out
        logs = "".join(p.read_text("utf-8", "replace") for p in (dirs.program_home / "logs").rglob("*") if p.is_file())
        return AttackOutcome.from_problems(*_leaked_sequences(payload, exported + logs, is_screen=False))
    found = []
    for ways in ([], ["--plain"]) if not sink.startswith("headless") else ([],):
        screen = run_in_terminal(dirs, steps, *words, *ways)
        found += _leaked_sequences(payload, screen.text, is_screen=not ways and "-p" not in words)
        found += ["a traceback"] if "Traceback (most" in screen.text else []
        found += ["nothing was shown"] if len(screen.text) < 20 and "-p" not in words else []
    return AttackOutcome.from_problems(*found)


def _leaked_sequences(payload: str, visible: str, *, is_screen: bool) -> list[str]:
    """Return problems with the output: escape sequences of the payload, invisible characters, and too many bells. In
    full-screen mode, sequences that the program itself writes are ignored."""
    own = _ESCAPE_SEQUENCE.findall(payload)
    wanted = [one for one in own if not is_screen or one[1:2] in "]P^_X"]
    found = [f"{one!r} came through" for one in wanted if one in visible]
    found += (
        [f"{len(_INVISIBLE_CHARS.findall(visible))} invisible characters"] if _INVISIBLE_CHARS.search(visible) else []
    )
    bells = len(re.findall(r"(?<!\x1b\]0;)[^\x1b\x07]{0,200}?\x07", re.sub(r"\x1b\][^\x07\x1b]*\x07", "", visible)))
    return found + ([f"{bells} bells"] if bells > _MAX_BELLS else [])


def _steps_for_sink(sink: str, payload: str, dirs: AttackFolders) -> list[Step]:
    if sink.startswith(("model", "headless", "log")):
        return [Turn(text=f"before {payload} behind")]
    if sink.startswith("approval"):
        call = Call("bash", {"command": payload})
    elif sink.startswith("file read"):
        call = Call("read", {"path": "f"})
    elif sink.startswith("file name"):
        (dirs.project / payload.replace("/", "_")).write_text("x")
        call = Call("glob", {"pattern": "*"})
    elif sink.startswith(("mcp", "status")):
        call = Call(payload, {"a": payload})
    else:
        call = Call("bash", {"command": "cat f"})
    return [Turn(calls=(call,)), Turn(text="done")]


def check_typed_input(row: AttackRow, dirs: AttackFolders, policies: Mapping[str, Any]) -> AttackOutcome:
    """Check input that is typed, pasted, piped or given on the command line."""
    action, expected = row["action"], row["expected"]
    if (way := screens.scenario_for(row)) is not None:
        return screens.carry_out(way, row, dirs)
    if "SIGINT in a turn" in str(action):
        return crashes.interrupt_command(row, dirs)
    create_files(row["setup"], dirs)
    if "argv" in action:
        return _check_arguments(action, expected, dirs)
    if action.get("start"):
        env = {**KEYS, **SANDBOX_OFF, "ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
        run = ebb("-C", str(dirs.project), "-p", "-", home=dirs.program_home, env=env, stdin="\x00\x1b[2J\x07")
        return AttackOutcome.from_problems(
            "a traceback" if "Traceback" in run.err else "", *_leaked_sequences("\x1b[2J", run.err, is_screen=False)
        )
    if "headless" in action and "approval" in action["headless"]:
        call = Turn(calls=(Call("bash", {"command": "touch x"}),))
        played = play(dirs, [call, Turn(text="done")], env=SANDBOX_OFF)
        return AttackOutcome.from_problems(
            played.outside_effects(), "" if played.was_denied and played.run.code == 5 else "it was not denied"
        )
    text = str(action.get("paste") or action.get("text") or action.get("keys") or "")
    if not text:
        return AttackOutcome("not carried out", "nothing is typed in it that is known here")
    made = _payload_text(text)
    paste = f"\x1b[200~{made}\x1b[201~" if "paste" in action else made
    screen = run_in_terminal(dirs, [Turn(text="done"), Turn(text="done")], typed=[paste, "\r", "\x03", "\x03"])
    return AttackOutcome.from_problems(
        "a traceback" if "Traceback (most" in screen.text else "",
        "" if screen.is_restored else "the terminal was not restored",
        "a file came about" if (dirs.project / "PWNED").exists() else "",
        *_leaked_sequences(made if "\x1b]" in made else "", screen.text, is_screen=True),
    )


def _payload_text(described: str) -> str:
    """Return the text that a row describes."""
    if described.startswith("1 MB"):
        return "words of a text\n" * 65_536
    if "combining" in described:
        return "a" + "\u0301" * 10_000 + "\u202eabc\U0001f469\u200d\U0001f4bb"
    return (
        described.replace("\\x1b", "\x1b")
        .replace("\\x00", "\0")
        .replace("\\x03", "")
        .replace("\\x04", "")
        .replace("\\x1a", "")
    )


def _check_arguments(action: Mapping[str, Any], expected: Mapping[str, Any], dirs: AttackFolders) -> AttackOutcome:
    """Check invalid command-line arguments and session ids."""
    found = []
    for last in (action["argv"][-1], *action.get("also", ())):
        words = [*action["argv"][:-1], last] if len(action["argv"]) > 1 else list(action["argv"])
        run = ebb("-C", str(dirs.project), "-p", "hi", *words, home=dirs.program_home, env={**KEYS, **SANDBOX_OFF})
        if run.code == 0 or (isinstance(expected.get("exit"), int) and run.code != expected["exit"]):
            found.append(f"{words} ended with {run.code}")
        if "Traceback" in run.err:
            found.append(f"{words} ended with a traceback")
    return AttackOutcome.from_problems(*found)
