"""A session without a terminal: a prompt in, an answer or JSON lines out, and an exit code. It draws nothing."""

import asyncio
import errno
import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import asdict, field
from functools import partial
from typing import Any, Literal, NoReturn, TextIO, TypeAlias

from agent.channel import Interrupt
from agent.context.mentions import piped
from agent.crash import crashed, print_nothing, secrets_of
from agent.errors import AgentError, SchemaNotMet, UsageError, is_unwritable
from agent.events.session import (
    AgentActivity,
    CallDenied,
    Event,
    ModelSwitched,
    NetworkRefused,
    Noticed,
    ReplyFinished,
    Resumed,
    RetryScheduled,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from agent.events.view import CompactionFailed, ContextCompacted
from agent.messages import Note, Usage
from agent.records.situation import news_for_user
from agent.session import Session
from agent.sessions import Sessions
from tools.lazy import dataclass
from tools.outputs.extent import shortened
from tools.outputs.plain_text import plain
from tools.sandbox.system import known_kind
from tools.schema import mismatches

Format: TypeAlias = Literal["text", "json", "stream-json"]
RunStop: TypeAlias = Literal[
    "answered", "failed", "denied", "step_limit", "cost_limit", "repeated_calls", "context", "schema", "rate_limited",
    "auth", "provider", "interrupted",
]  # fmt: skip

_STOPS: Mapping[str, RunStop] = {
    "error": "failed", "crash": "failed", "store": "failed", "empty_answer": "failed", "context": "context",
    "overflow": "context", "schema": "schema", "rate_limit": "rate_limited", "auth": "auth",
    "hook": "denied",
}  # fmt: skip
_LIMITS: Mapping[str, str] = {
    "step_limit": "stopped at `--max-turns`; raise it, or go on with `ebb -c`",
    "cost_limit": "stopped at `--max-cost`; raise it, or go on with `ebb -c`",
    "repeated_calls": "the model made the same call five times, with the same outcome; say what to do with `ebb -c`",
    "context_limit": "the window is full and the model gave no report; go on with `ebb -c`, which compacts first",
}


@dataclass(frozen=True, slots=True)
class HeadlessJob:
    """What a headless run is to do."""

    prompt: str
    format: Format = "text"
    schema: Mapping[str, object] | None = None
    """JSON Schema that the answer must meet."""
    resume: str | None = None
    """The beginning of the id of a session to go on with; empty for the newest of the project."""
    piped: str = ""
    """What came through a pipe besides, too long to stand in the prompt."""
    is_quiet: bool = False
    """Rewrites of the view are counted, but not told as they happen."""
    visible: Callable[[str], str] = str
    """What a terminal is given of a text, so that nothing in it steers the terminal."""


@dataclass(slots=True)
class RunOutcome:
    """What a run has come to so far."""

    session: str | None = None
    model: str | None = None
    """The one that was asked last."""
    mode: str = ""
    """The permission mode."""
    result: str = ""
    stop_reason: RunStop = "failed"
    exit_code: int = 1
    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0
    steps: int = 0
    files_changed: dict[str, None] = field(default_factory=dict)
    denied: list[dict[str, object]] = field(default_factory=list)
    refused_hosts: dict[str, str] = field(default_factory=dict)
    """What of the network commands in the sandbox wanted to reach and did not, with what decided."""
    rewrites: list[ContextCompacted] = field(default_factory=list)
    sandbox: str | None = None
    """What held commands: a kind of sandbox, `off` or `none`; None where no command asked for one."""
    error: dict[str, str] | None = None
    unused_summaries: list[dict[str, str]] = field(default_factory=list)
    """Summaries that could not be used, with the model that was asked and why."""

    def take(self, event: Event) -> None:
        """Counts an event in, and what agents take and do."""
        match event:
            case AgentActivity(event=(ReplyFinished() | ToolFinished() | CallDenied() | NetworkRefused()) as inner):
                self.take(inner)
            case TurnStarted(model=model) | ModelSwitched(after=model):
                self.model = model
            case StepStarted():
                self.steps += 1
            case ReplyFinished(usage=usage, cost=cost):
                self.usage += usage
                self.cost = None if cost is None or self.cost is None else self.cost + cost
            case ToolFinished(changed=changed):
                self.files_changed.update(dict.fromkeys(changed))
            case CallDenied(name=name, arguments=arguments, rule=rule):
                self.denied.append({"tool": name, "arguments": arguments, "rule": rule})
            case NetworkRefused(host=host, rule=rule):
                self.refused_hosts.setdefault(host, rule)
            case ContextCompacted():
                self.rewrites.append(event)
            case CompactionFailed(model=model, reason=reason):
                self.unused_summaries.append({"model": model, "reason": reason})
            case TurnFinished(end=end, text=text):
                self.result = text
                self._end(end)
            case TurnFailed(code=code, message=message, exit_code=exit_code):
                self.fail(code, message, exit_code)
            case _:
                pass

    def _end(self, end: str) -> None:
        match end:
            case "interrupted":
                self.interrupted()
            case "step_limit" | "cost_limit":
                self.stop_reason, self.exit_code = ("step_limit" if end == "step_limit" else "cost_limit"), 6
                self.error = {"code": end, "message": _LIMITS[end]}
            case "repeated_calls":
                self.stop_reason, self.exit_code = "repeated_calls", 6
                self.error = {"code": end, "message": _LIMITS[end]}
            case "context_limit":
                self.stop_reason, self.exit_code = "context", 7
                self.error = {"code": end, "message": _LIMITS[end]}
            case _ if self.denied:
                self.stop_reason, self.exit_code = "denied", 5
            case _:
                self.stop_reason, self.exit_code = "answered", 0

    def interrupted(self) -> None:
        self.stop_reason, self.exit_code = "interrupted", 130

    def fail(self, code: str, message: str, exit_code: int) -> None:
        self.stop_reason, self.exit_code = _STOPS.get(code, "provider"), exit_code
        self.error = {"code": code, "message": message}

    def as_json(self) -> dict[str, object]:
        return {
            "type": "result",
            "session": self.session,
            "model": self.model,
            "result": self.result,
            "stop_reason": self.stop_reason,
            "usage": {
                "input": self.usage.input,
                "cache_read": self.usage.cache_read,
                "cache_write": self.usage.cache_write,
                "output": self.usage.output,
                "cost": self.cost,
            },
            "steps": self.steps,
            "files_changed": list(self.files_changed),
            "denied": self.denied,
            "refused_hosts": [{"host": host, "rule": rule} for host, rule in self.refused_hosts.items()],
            "sandbox": self.sandbox,
            "rewrites": {
                "count": len(self.rewrites),
                "removed_tokens": sum(one.before_tokens - one.after_tokens for one in self.rewrites),
                "strategies": Counter(name for one in self.rewrites for name in one.strategies),
            },
            "unused_summaries": self.unused_summaries,
            "error": self.error,
        }


async def run(sessions: Sessions, job: HeadlessJob, out: TextIO | None = None, err: TextIO | None = None) -> int:
    """Does the job and prints it; the exit code. Raises `UsageError` before anything is printed, when the command line
    asks for what cannot be."""
    out, err = out or sys.stdout, err or sys.stderr
    print_nothing(sessions.config.folders.logs)
    outcome, stop = RunOutcome(), _Stop()
    tell = partial(_tell, err, job.visible if err.isatty() else str)
    show = _printer(job, out, tell, watched=err.isatty())
    with _interrupted_by_signals(stop):
        try:
            await _work(sessions, job, outcome, show, stop)
        except UsageError:
            raise
        except AgentError as error:
            outcome.fail(error.code, str(error), error.exit_code)
        except Exception as error:
            if isinstance(error, BrokenPipeError) or is_unwritable(error):
                raise  # nobody reads, or nothing takes, what is printed
            known = tuple(secrets_of(sessions.config, os.environ))
            fault = crashed(error, sessions.config.folders.logs, known)
            outcome.fail(fault.code, str(fault), fault.exit_code)
        finally:
            await sessions.close()
        outcome.sandbox = "off" if sessions.config.sandbox == "off" else known_kind()
        _print_outcome(outcome, job, out, tell)
    return outcome.exit_code


async def _work(
    sessions: Sessions, job: HeadlessJob, outcome: RunOutcome, show: Callable[[Event], None], stop: "_Stop"
) -> None:
    session = await stop.opening.race(sessions.open(job.resume))
    if session is None:
        outcome.interrupted()
        return
    outcome.session, outcome.mode, stop.session = session.id, session.mode, session
    session.listen(show)
    try:
        if stop.opening.requested():
            outcome.interrupted()
        else:
            await _converse(session, job, outcome, show)
    finally:
        running = session.running_jobs
        await session.close()
        for ended in running:
            show(Noticed(f"ended with the run, in the background until then: {shortened(ended, 200)}"))


async def _converse(session: Session, job: HeadlessJob, outcome: RunOutcome, show: Callable[[Event], None]) -> None:
    prompt = job.prompt if job.schema is None else f"{job.prompt}\n\n{_schema_request(job.schema)}"
    await _turn(session, prompt, outcome, show, beside=(piped(job.piped),) if job.piped else ())
    if job.schema is None or outcome.stop_reason not in ("answered", "denied"):
        return
    problems = _answer_problems(outcome, job.schema)
    steps_left = session.limits.steps and session.limits.steps - outcome.steps
    if problems and steps_left != 0:
        again = f"Your answer does not match the JSON Schema: {'; '.join(problems)}. Answer again, with the JSON alone."
        await _turn(session, again, outcome, show, steps_left)
        problems = _answer_problems(outcome, job.schema) if outcome.stop_reason in ("answered", "denied") else []
    if problems:
        raise SchemaNotMet(f"the answer does not match the schema: {'; '.join(problems)}")


async def _turn(
    session: Session,
    prompt: str,
    outcome: RunOutcome,
    show: Callable[[Event], None],
    steps: int | None = None,
    beside: Sequence[Note] = (),
) -> None:
    async with aclosing(session.send(prompt, beside, steps)) as events:
        async for event in events:
            outcome.take(event)
            show(event)


def _schema_request(schema: Mapping[str, object]) -> str:
    wish = "When you are done, answer with one JSON value that matches this JSON Schema, and with nothing else:"
    return f"{wish}\n{json.dumps(schema)}"


def _answer_problems(outcome: RunOutcome, schema: Mapping[str, object]) -> list[str]:
    """Why the answer does not meet the schema. An answer that does becomes the bare JSON text."""
    fenced = re.fullmatch(r"\s*```(?:json)?\s*\n(.*)\n```\s*", outcome.result, re.DOTALL)
    text = (fenced[1] if fenced else outcome.result).strip()
    try:
        value: Any = json.loads(text, parse_constant=_refuse)
        problems = mismatches(value, schema)
    except (ValueError, RecursionError) as error:
        return [f"it is not JSON ({error})"]
    if not problems:
        outcome.result = text
    return problems


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")


def event_json(event: Event) -> dict[str, object]:
    """An event as the JSON object that `stream-json` prints: its class name in snake case first, then its fields."""
    if isinstance(event, AgentActivity):
        return {"type": "agent_activity", **asdict(event), "event": event_json(event.event)}
    return {"type": event_type(type(event)), **asdict(event)}


def event_type(kind: type[object]) -> str:
    """The `type` under which events of a class are printed."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def _printer(job: HeadlessJob, out: TextIO, tell: Callable[[str], None], *, watched: bool) -> Callable[[Event], None]:
    if job.format == "stream-json":
        return lambda event: print_json(out, event_json(event))

    def show(event: Event) -> None:
        match event:
            case RetryScheduled(attempt=attempt, attempts=attempts, delay=delay, reason=reason, left=left):
                of = f" of {attempts}" if attempts else ""
                end = f", given up {left:.0f} s later" if left is not None and not attempts else ""
                tell(f"ebb: {reason.rstrip('.')}; attempt {attempt}{of} in {delay:.1f} s{end}")
            case Noticed(text=text):
                tell(f"ebb: {text}")
            case ContextCompacted() if not job.is_quiet:
                from agent.context.announcement import announcement  # noqa: PLC0415  # deferred: most runs rewrite nothing

                tell(f"ebb: {announcement(event)}")
            case CompactionFailed(model=model, reason=reason):
                tell(f"ebb: the summary by {model} is not used: {reason}")
            case ModelSwitched(after=after, why=why):
                tell(f"ebb: the model is now {after}: {why}")
            case Resumed():
                for text in news_for_user(event):
                    tell(f"ebb: {text}")
            case ToolStarted(name=name, arguments=arguments) if watched:
                tell(f"ebb: {name} {json.dumps(arguments, ensure_ascii=False)[:200]}")
            case _:
                pass

    return show


def print_json(out: TextIO, value: Mapping[str, object]) -> None:
    """Prints an object on one line, in escapes when the output's encoding lacks one of its characters, or when it is a
    terminal, which one of them could steer."""
    text = json.dumps(value, ensure_ascii=False)
    if out.isatty() and not text.isprintable():
        text = json.dumps(value)
    try:
        text.encode(out.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value)
    out.write(text + "\n")
    out.flush()


def _print_outcome(outcome: RunOutcome, job: HeadlessJob, out: TextIO, tell: Callable[[str], None]) -> None:
    if job.format != "text":
        print_json(out, outcome.as_json())
        return
    if outcome.result:
        # A terminal obeys what a pipe only carries.
        answer = job.visible(plain(outcome.result)) if out.isatty() else outcome.result
        out.write(answer.rstrip("\n") + "\n")
        out.flush()
    for call in outcome.denied:
        tell(f"ebb: denied {call['tool']}: {call['rule']}")
    if outcome.denied:
        other = "" if outcome.mode == "auto" else "`--permission-mode auto` or "
        tell(f"ebb: allow it with {other}a rule such as `--allow 'bash(pytest)'`")
    for host, rule in outcome.refused_hosts.items():
        tell(f"ebb: `{host}` was kept from a command: {rule}")
    if outcome.error is not None:
        tell(f"ebb: {outcome.error['message']}")


def _tell(err: TextIO, shown: Callable[[str], str], text: str) -> None:
    """Prints a line beside the answer. Where a full disk takes none, the run and its exit code stay as they are."""
    try:
        print(shown(text), file=err)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), err.fileno())


@dataclass(slots=True)
class _Stop:
    """The wish to end the run, from its beginning on: it reaches the opening of the session, then the session."""

    opening: Interrupt = field(default_factory=Interrupt)
    session: Session | None = None

    def request(self) -> None:
        self.opening.request()
        if self.session is not None:
            self.session.interrupt()


@contextmanager
def _interrupted_by_signals(stop: _Stop) -> Iterator[None]:
    """Ctrl-C, a request to terminate and the end of the terminal interrupt the run, so that it ends in order; a second
    one ends the process. A run that is to outlive its terminal (`nohup`) does."""
    loop = asyncio.get_running_loop()

    def interrupt(number: signal.Signals) -> None:
        stop.request()
        loop.remove_signal_handler(number)

    handled = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        handled.append(signal.SIGHUP)
    for number in handled:
        loop.add_signal_handler(number, interrupt, number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
