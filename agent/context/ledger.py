"""Facts of a session that code can extract: what the user demands, files touched, running jobs, failures. Pure; written
as text, one fact a line, and parsed from that text."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from ebbtide.agent.context.estimate import estimate_text
from ebbtide.agent.context.mask import exit_of, first_error, one_line, outcome_line, patched_paths, safe_line, safe_path
from ebbtide.agent.context.references import message_ref
from ebbtide.agent.context.tool_selection import executed_call
from ebbtide.agent.messages import Assistant, Message, ToolCall, ToolOutput, User

GOAL, FINDING, DEMAND = 240, 240, 600
"""Maximum characters of a goal, of a finding and of a demand."""
MAX_FACTS = 500
"""Maximum number of facts of one kind."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Facts, one line each, the oldest first in each list."""

    constraints: tuple[str, ...] = ()
    """`msg-<8 hex>: sentence`, word for word."""
    jobs: tuple[str, ...] = ()
    """`job-1: command`: running background jobs."""
    todos: tuple[str, ...] = ()
    """`[doing] text`, from the model's last todo list."""
    notes: tuple[str, ...] = ()
    """Notes that the model wrote for itself, one a line."""
    goals: tuple[str, ...] = ()
    """`msg-<8 hex>: ` and the beginning of the user's request."""
    tests: tuple[str, ...] = ()
    """The last test run, if any. Test runs, files read, failures and commands end in ` [r12]`, the reference of their
    output, if it is known."""
    changed: tuple[str, ...] = ()
    """`path` or `path (sha256 <12 hex>)`."""
    read: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    """What the user answered or denied."""
    failures: tuple[str, ...] = ()
    """Failed calls; the last one is the last error."""
    findings: tuple[str, ...] = ()
    """Sentences in which the model reported a finding or decision."""
    commands: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))


TITLES: Mapping[str, str] = {
    "constraints": "What the user demands, word for word",
    "jobs": "Running in the background",
    "todos": "Todo list",
    "notes": "Notes you made",
    "goals": "What the user asked for",
    "tests": "Last test result",
    "changed": "Files changed",
    "read": "Files read",
    "decisions": "What the user answered or denied",
    "failures": "Tried and failed",
    "findings": "Found out or decided",
    "commands": "Commands run",
}
"""Headings by field, in the order of the text."""

_FIRST = {"constraints": 10**6, "jobs": 20, "todos": 30, "notes": 20, "goals": 4, "tests": 1, "changed": 60, "read": 60,
          "decisions": 6, "failures": 6, "findings": 8, "commands": 3}  # fmt: skip
"""Number of newest facts of each kind that take precedence over further facts of any other kind."""

_THEN = ("changed", "read", "findings", "failures", "decisions", "todos", "notes", "jobs", "commands", "goals", "tests")


def keep_ledger(earlier: str, messages: Sequence[Message], outputs_before: int | None = None) -> Ledger:
    """Update an earlier ledger's text with the facts in `messages`. Messages that it already covers change nothing.
    `outputs_before`: number of outputs in the session before the messages; None if outputs are not named."""
    ledger, number = read_ledger(earlier), outputs_before
    calls: dict[str, ToolCall] = {}
    for message in messages:
        if isinstance(message, Assistant):
            calls = {call.id: call for call in message.calls}
            ledger = replace(ledger, findings=_with(ledger.findings, *findings_in(message.text)))
            continue
        if message.text:
            ledger = _with_user_message(ledger, message)
        for output in message.outputs:
            number = None if number is None else number + 1
            if output.call_id in calls:
                ledger = _with_output(ledger, calls[output.call_id], output, "" if number is None else f" [r{number}]")
    return ledger


def _with_user_message(ledger: Ledger, message: User) -> Ledger:
    name = message_ref(message)
    demands = [f"{name}: {one_line(sentence, DEMAND)}" for sentence in demands_in(message.text)]
    goal = one_line(_prose(message.text), GOAL)
    goals = (f"{name}: {goal}",) if goal else ()
    return replace(ledger, constraints=_with(ledger.constraints, *demands), goals=_with(ledger.goals, *goals))


def _with_output(ledger: Ledger, call: ToolCall, output: ToolOutput, ref: str) -> Ledger:
    call = executed_call(call, output)
    if output.status == "denied":
        ledger = replace(ledger, decisions=_with(ledger.decisions, f"denied: {_short(call)} – {first_error(output)}"))
    elif output.status == "failed":
        ledger = replace(ledger, failures=_with(ledger.failures, outcome_line(call, output) + ref))
    match call.name:
        case "todo" if output.status == "done":
            return replace(ledger, todos=_todos(call), notes=_notes(call, ledger.notes))
        case "read" if output.status == "done":
            return _with_file(ledger, "read", _word(call, "path"), ref)
        case "write" if output.status == "done":
            return _with_file(ledger, "changed", _word(call, "path"), f" (sha256 {digest(_word(call, 'content'))})")
        case "edit" | "edit_notebook" if output.status == "done":
            return _with_file(ledger, "changed", _word(call, "path"))
        case "apply_patch" if output.status == "done":
            for path in patched_paths(call):
                ledger = _with_file(ledger, "changed", path)
            return ledger
        case "bash" if call.arguments.get("job"):
            return _looked_at_job(ledger, call, output)
        case "bash":
            return _ran(ledger, call, output, ref)
        case "bash_output" | "bash_kill":
            return _looked_at_job(ledger, call, output)
        case "ask_user" if output.status == "done":
            answer = f"asked: {one_line(_word(call, 'question'), GOAL)} – answered: {one_line(output.text, GOAL)}"
            return replace(ledger, decisions=_with(ledger.decisions, answer))
        case "submit_plan" if output.status == "done":
            return replace(ledger, decisions=_with(ledger.decisions, f"plan: {one_line(_word(call, 'plan'), DEMAND)}"))
        case _:
            return ledger


def _with_file(ledger: Ledger, kind: str, path: str, ending: str = "") -> Ledger:
    path = safe_path(path)
    if not path:
        return ledger
    changed = tuple(fact for fact in ledger.changed if path_of(fact) != path)
    read = tuple(fact for fact in ledger.read if without_reference(fact) != path)
    if kind == "changed":
        return replace(ledger, changed=(*changed, path + ending), read=read)
    return ledger if changed != ledger.changed else replace(ledger, read=(*read, path + ending))


_DIGEST = re.compile(r" \(sha256 [0-9a-f]{12}\)$")
_REF = re.compile(r" \[r[1-9]\d{0,17}\]$")


def path_of(fact: str) -> str:
    """Return the path in a fact about a changed file."""
    return _DIGEST.sub("", fact)


def without_reference(fact: str) -> str:
    """Return the fact without the reference at its end."""
    return _REF.sub("", fact)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _todos(call: ToolCall) -> tuple[str, ...]:
    found = call.arguments.get("items", ())
    entries = found if isinstance(found, list | tuple) else ()
    return tuple(
        f"[{one_line(str(item.get('status', 'pending')), 20)}] {one_line(str(item['text']), GOAL)}"
        for item in entries
        if isinstance(item, Mapping) and item.get("text")
    )


def _notes(call: ToolCall, before: tuple[str, ...]) -> tuple[str, ...]:
    if "notes" not in call.arguments:
        return before
    return tuple(one_line(line, FINDING) for line in _word(call, "notes").splitlines() if line.strip())


# The long patterns are strings: `re` compiles each on first use and caches it, and few runs have a ledger.
_TEST_COMMAND = (
    r"\b(?:pytest|unittest|tox|nox|ctest|rspec|jest|vitest|mocha|phpunit|behave|nextest)\b"
    r"|\b(?:npm|pnpm|yarn|bun|go|cargo|make|mvn|gradle|gradlew|dotnet|mix|swift|deno|bazel|just)\s+(?:run\s+)?(?:test|check)\b"
)
_TEST_OUTCOME = (
    r"(?m)\b\d+ (?:passed|failed|passing|failing|tests?|failures?|errors?)\b|^(?:FAILED|OK|PASS|FAIL|ok|not ok)\b"
    r"|test result:|Tests:"
)


def _ran(ledger: Ledger, call: ToolCall, output: ToolOutput, ref: str) -> Ledger:
    command = safe_line(_word(call, "command"), GOAL)
    if call.arguments.get("background") is True or call.arguments.get("terminal") is True:
        return _with_job(ledger, output.program.job, command) if output.program else ledger
    if output.program and output.program.job:  # it outlasted its time limit
        ledger = _with_job(ledger, output.program.job, command)
    line = outcome_line(call, output) + ref
    ledger = replace(ledger, commands=_with(ledger.commands, line))
    if re.search(_TEST_COMMAND, command):
        lines = [found.strip() for found in output.text.splitlines() if re.search(_TEST_OUTCOME, found)]
        outcome = " | ".join(safe_line(found, 160) for found in lines[-3:])
        ending = exit_of(output)
        return replace(ledger, tests=(f"{command} – {ending}" + (f" – {outcome}" if outcome else "") + ref,))
    return ledger


def _with_job(ledger: Ledger, job: str, command: str) -> Ledger:
    others = tuple(fact for fact in ledger.jobs if not fact.startswith(f"{job}: "))
    return replace(ledger, jobs=(*others, f"{job}: {command}"))


def _looked_at_job(ledger: Ledger, call: ToolCall, output: ToolOutput) -> Ledger:
    """Remove the job if it has ended. A failed call means that there is no such job."""
    if (output.program and output.program.is_running) or output.status not in ("done", "failed"):
        return ledger
    job = _word(call, "job")
    return replace(ledger, jobs=tuple(fact for fact in ledger.jobs if not fact.startswith(f"{job}: ")))


_DEMAND = (
    r"(?i)\b(?:must(?:n['’]?t)?|never|always|only|not|don['’]?t|doesn['’]t|shouldn['’]?t|should|shall|can['’]?t|cannot|"
    r"won['’]t|need(?:s|n['’]t)? to|(?:have|has|ought) to|requir\w+|mandatory|forbidden|prohibited|unallowed|"
    r"off[- ]limits|avoid|refrain|without|except|unless|under no circumstances|no matter what|"
    r"at (?:most|least|all times)|no \w+|nothing|stay|make sure|ensure|be (?:sure|careful)|keep|"
    r"leave \S+(?: \S+){0,4} (?:alone|as|untouched|unchanged)|hands off|stick (?:to|with)|instead of|rather than|"
    r"exactly|strictly|(?<!\w )use|insist|important|remember|prefer\w*|limit(?:ed)? to|(?:under|below|up to) \d|"
    r"backwards? compat\w*)\b"
)
_DEMAND_ELSEWHERE = (
    r"(?i)\b(?:niemals|nie|immer|nur|muss|müssen|darf|dürfen|nicht|keine[nmrs]?|ohne|sollst|jamais|toujours|uniquement|"
    r"seulement|ne \w+ pas|n['’]\w+ pas|doit|doivent|sans|nunca|siempre|solo|sólo|solamente|debes?|deben|sin|jamás|"
    r"sempre|deve|devono|никогда|всегда|только|нельзя|должн\w+|без|не)\b"
    r"|不要|不能|不得|不可|必须|必須|务必|禁止|只能|一定|总是|永远|绝不|しないで|するな|必ず|だけ|絶対|常に"
    r"|하지 마|반드시|절대|항상"
)
"""The same in other languages that users write in. A sentence too many costs a line, one too few the user's trust."""
_FENCE = r"(?ms)^\s*(?:```|~~~).*?^\s*(?:```|~~~)\s*$"
_SENTENCE = r"(?<=[.!?;])(?<!e\.g\.)(?<!i\.e\.)(?<!vs\.)[\"')\]]*\s+(?=\S)|(?<=[。！？；])|\n+"


_MAX_END_CHARS = 50_000
"""Characters examined at each end of a text: anything longer is a log or a file, not a request."""


def demands_in(text: str) -> tuple[str, ...]:
    """Return the sentences in which the user demands or forbids something, word for word. Fenced code is left out."""
    looked_at = text if len(text) <= 2 * _MAX_END_CHARS else f"{text[:_MAX_END_CHARS]}\n{text[-_MAX_END_CHARS:]}"
    return tuple(
        sentence
        for sentence in _sentences(_prose(looked_at))
        if re.search(_DEMAND, sentence) or re.search(_DEMAND_ELSEWHERE, sentence)
    )


def _prose(text: str) -> str:
    return re.sub(_FENCE, "\n", text)


def _sentences(text: str) -> Iterator[str]:
    for piece in re.split(_SENTENCE, text):
        sentence = piece.strip().lstrip("-*• \t").strip()
        if sentence:
            yield sentence


_FINDING = (
    r"(?i)\b(?:because|root cause|the (?:bug|cause|problem|issue|culprit|reason) (?:is|was|lies|comes)|turns out|"
    r"decided|decision|chose|choose|instead of|rather than|found (?:that|out|the)|discovered|conclu(?:de|sion)|"
    r"the fix (?:is|was)|fixed by|(?:does not|doesn['’]t|did not|didn['’]t|won['’]t) work|failed because|caused by|"
    r"depends on|listens on|lives in|is defined in|workaround|note that|important|(?:I|we) (?:will|['’]ll) use|"
    r"going with)\b"
)


def findings_in(text: str) -> tuple[str, ...]:
    """Return the sentences in which the model reports a finding or decision."""
    found = [sentence for sentence in _sentences(_prose(text)) if re.search(_FINDING, sentence)]
    return tuple(one_line(sentence, FINDING) for sentence in found)


def render_ledger(ledger: Ledger, tokens: int) -> str:
    """Render the ledger within `tokens`. The user's demands come first; of other kinds the newest facts are kept, and
    the text says how many were left out."""
    chosen: dict[str, list[str]] = {name: [] for name in TITLES}
    room = tokens - _HEAD
    for name, fact in _by_weight(ledger):
        cost = estimate_text(f"- {fact}\n") + (0 if chosen[name] else estimate_text(_heading(name, 10**6)))
        if cost <= room:
            chosen[name].append(fact)
            room -= cost
    sections: list[str] = []
    for name, facts in chosen.items():
        if facts:
            left_out = len(getattr(ledger, name)) - len(facts)
            sections.append(_heading(name, left_out) + "".join(f"- {fact}\n" for fact in reversed(facts)))
    return "".join(sections).rstrip("\n")


_HEAD = 8
"""Reserve for rounding, in tokens."""


def _heading(name: str, left_out: int) -> str:
    return f"{TITLES[name]}" + (f" ({left_out} earlier left out)" if left_out else "") + ":\n"


def _by_weight(ledger: Ledger) -> Iterator[tuple[str, str]]:
    """Yield every fact with its kind, the most important first."""
    for name in TITLES:
        for fact in reversed(getattr(ledger, name)[-_FIRST[name] :]):
            yield name, fact
    for name in _THEN:
        for fact in reversed(getattr(ledger, name)[: -_FIRST[name]]):
            yield name, fact


_TITLE = re.compile(r"^(.+?)(?: \(\d+ earlier left out\))?:$")
_FIELDS = {title: name for name, title in TITLES.items()}


def read_ledger(text: str) -> Ledger:
    """Parse a ledger from its text. Lines that are not facts are ignored."""
    found: dict[str, list[str]] = {name: [] for name in TITLES}
    name = ""
    for line in text.split("\n"):
        if line.startswith("- ") and name:
            found[name].append(line[2:])
        elif (match := _TITLE.match(line)) and match[1] in _FIELDS:
            name = _FIELDS[match[1]]
    return Ledger(**{kind: tuple(facts) for kind, facts in found.items()})


@dataclass(frozen=True, slots=True)
class MissingFact:
    """A fact that must be in what replaces the history: the line to add, and the text that proves it is present."""

    line: str
    sign: str


def missing_facts(ledger: Ledger, text: str) -> tuple[str, ...]:
    """Return the required facts that `text` omits, as lines to add: each demand, open todo, running job, touched file
    and the last error."""
    flat = " ".join(text.split())
    return tuple(fact.line for fact in _musts(ledger) if fact.sign not in flat)


def _musts(ledger: Ledger) -> Iterator[MissingFact]:
    for fact in ledger.constraints:
        yield MissingFact(f"- demanded: {fact}", fact.partition(": ")[2])
    for fact in ledger.todos:
        if not fact.startswith("[done]"):
            yield MissingFact(f"- open: {fact}", fact.partition("] ")[2])
    for fact in ledger.jobs:
        yield MissingFact(f"- still running: {fact}", fact)
    for fact in ledger.failures[-1:]:
        yield MissingFact(f"- last error: {fact}", without_reference(fact))
    for fact in ledger.changed:
        yield MissingFact(f"- changed: {fact}", path_of(fact))
    for fact in ledger.read:
        yield MissingFact(f"- read: {fact}", without_reference(fact))


def _with(facts: tuple[str, ...], *more: str) -> tuple[str, ...]:
    """Return the newest facts with more of them added. A repeated fact moves to the end, with its last reference."""
    for fact in (" ".join(fact.split()) for fact in more):
        if fact:
            same = without_reference(fact)
            # Most facts differ in their beginning, so only the others are compared in full.
            others = (known for known in facts if not known.startswith(same) or without_reference(known) != same)
            facts = (*others, fact)
    return facts[-MAX_FACTS:]


def _word(call: ToolCall, name: str) -> str:
    value = call.arguments.get(name, "")
    return value if isinstance(value, str) else ""


def _short(call: ToolCall) -> str:
    told = _word(call, "command") or _word(call, "path") or " ".join(patched_paths(call))
    return f"{safe_line(call.name, 80)} {safe_line(told, 120)}".strip()
