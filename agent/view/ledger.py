"""Facts about a session that can be extracted without a model: the user's demands, files touched, running jobs,
failures. They are stored as text, one fact per line, and parsed from that text."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from ebbtide.agent.messages import Assistant, Message, ToolCall, ToolOutput, User
from ebbtide.agent.tokens.estimate import estimate_text
from ebbtide.agent.tool_specs import executed_call
from ebbtide.agent.view.references import message_ref
from ebbtide.agent.view.stubs import (
    exit_summary,
    one_line,
    outcome_line,
    patched_paths,
    safe_line,
    safe_path,
    strongest_error,
)
from ebbtide.tools.tool_traits import role_of

MAX_GOAL_CHARS, MAX_FINDING_CHARS, MAX_DEMAND_CHARS = 240, 240, 600
"""Maximum length of a goal, a finding and a demand, in characters."""
MAX_FACTS = 500
"""Maximum number of facts of one kind."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The facts by kind, one line each, oldest first."""

    constraints: tuple[str, ...] = ()
    """`msg-<8 hex>: sentence`, quoting the sentence exactly."""
    jobs: tuple[str, ...] = ()
    """`job-1: command` for each running background job."""
    todos: tuple[str, ...] = ()
    """`[doing] text` for each item of the model's last todo list."""
    notes: tuple[str, ...] = ()
    """Notes that the model wrote for itself, one per line."""
    goals: tuple[str, ...] = ()
    """`msg-<8 hex>: ` followed by the beginning of the user's request."""
    tests: tuple[str, ...] = ()
    """The last test run, if any. Facts about test runs, read files, failures and commands end with their output's
    reference, such as ` [r12]`, if it is known."""
    changed: tuple[str, ...] = ()
    """`path` or `path (sha256 <12 hex>)`."""
    read: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    """The user's answers and denials."""
    failures: tuple[str, ...] = ()
    """Failed calls; the last fact is the last error."""
    findings: tuple[str, ...] = ()
    """Sentences in which the model reported a finding or decision."""
    commands: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))


FACT_HEADINGS: Mapping[str, str] = {
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
"""Headings by field, in the order in which they appear in the text."""

_PRIORITY_COUNTS = {
    "constraints": 10**6,
    "jobs": 20,
    "todos": 30,
    "notes": 20,
    "goals": 4,
    "tests": 1,
    "changed": 60,
    "read": 60,
    "decisions": 6,
    "failures": 6,
    "findings": 8,
    "commands": 3,
}
"""How many of the newest facts of each kind are included before any older facts."""

_REMAINING_ORDER = (
    "changed",
    "read",
    "findings",
    "failures",
    "decisions",
    "todos",
    "notes",
    "jobs",
    "commands",
    "goals",
    "tests",
)


def updated_ledger(earlier_text: str, messages: Sequence[Message], outputs_before: int | None = None) -> Ledger:
    """Update the ledger in `earlier_text` with the facts in `messages`. Messages that it already covers are ignored.
    `outputs_before`: number of outputs in the session before `messages`; None to omit references to outputs."""
    ledger, output_number = parse_ledger(earlier_text), outputs_before
    calls: dict[str, ToolCall] = {}
    for message in messages:
        if isinstance(message, Assistant):
            calls = {call.id: call for call in message.calls}
            ledger = replace(ledger, findings=_append_facts(ledger.findings, *findings_in(message.text)))
            continue
        if message.text:
            ledger = _with_user_message(ledger, message)
        for output in message.outputs:
            output_number = None if output_number is None else output_number + 1
            if output.call_id in calls:
                ledger = _with_output(
                    ledger, calls[output.call_id], output, "" if output_number is None else f" [r{output_number}]"
                )
    return ledger


def _with_user_message(ledger: Ledger, message: User) -> Ledger:
    ref = message_ref(message)
    demands = [f"{ref}: {one_line(sentence, MAX_DEMAND_CHARS)}" for sentence in demands_in(message.text)]
    goal = one_line(_without_fenced_code(message.text), MAX_GOAL_CHARS)
    goals = (f"{ref}: {goal}",) if goal else ()
    return replace(
        ledger, constraints=_append_facts(ledger.constraints, *demands), goals=_append_facts(ledger.goals, *goals)
    )


def _with_output(ledger: Ledger, call: ToolCall, output: ToolOutput, ref: str) -> Ledger:
    call = executed_call(call, output)
    if output.status == "denied":
        ledger = replace(
            ledger,
            decisions=_append_facts(ledger.decisions, f"denied: {_call_label(call)} – {strongest_error(output)}"),
        )
    elif output.status == "failed":
        ledger = replace(ledger, failures=_append_facts(ledger.failures, outcome_line(call, output) + ref))
    match role_of(call.name):
        case "list_todos" if output.status == "done":
            return replace(ledger, todos=_todos(call), notes=_notes(call, ledger.notes))
        case "read_file" if output.status == "done":
            return _with_file(ledger, "read", _argument_text(call, "path"), ref)
        case "write_file" if output.status == "done":
            return _with_file(
                ledger,
                "changed",
                _argument_text(call, "path"),
                f" (sha256 {short_digest(_argument_text(call, 'content'))})",
            )
        case "edit_file" | "edit_cells" if output.status == "done":
            return _with_file(ledger, "changed", _argument_text(call, "path"))
        case "patch_files" if output.status == "done":
            for path in patched_paths(call):
                ledger = _with_file(ledger, "changed", path)
            return ledger
        case "run_command" if call.arguments.get("job"):
            return _without_ended_job(ledger, call, output)
        case "run_command":
            return _with_command(ledger, call, output, ref)
        case "read_job" | "stop_job":
            return _without_ended_job(ledger, call, output)
        case "ask_question" if output.status == "done":
            answer = (
                f"asked: {one_line(_argument_text(call, 'question'), MAX_GOAL_CHARS)} – answered: "
                f"{one_line(output.text, MAX_GOAL_CHARS)}"
            )
            return replace(ledger, decisions=_append_facts(ledger.decisions, answer))
        case "propose_plan" if output.status == "done":
            return replace(
                ledger,
                decisions=_append_facts(
                    ledger.decisions, f"plan: {one_line(_argument_text(call, 'plan'), MAX_DEMAND_CHARS)}"
                ),
            )
        case _:
            return ledger


def _with_file(ledger: Ledger, kind: str, path: str, suffix: str = "") -> Ledger:
    path = safe_path(path)
    if not path:
        return ledger
    changed = tuple(fact for fact in ledger.changed if changed_path(fact) != path)
    read = tuple(fact for fact in ledger.read if without_reference(fact) != path)
    if kind == "changed":
        return replace(ledger, changed=(*changed, path + suffix), read=read)
    return ledger if changed != ledger.changed else replace(ledger, read=(*read, path + suffix))


_DIGEST_SUFFIX = re.compile(r" \(sha256 [0-9a-f]{12}\)$")
_REF_SUFFIX = re.compile(r" \[r[1-9]\d{0,17}\]$")


def changed_path(fact: str) -> str:
    """Return the path in a fact about a changed file."""
    return _DIGEST_SUFFIX.sub("", fact)


def without_reference(fact: str) -> str:
    """Return the fact without the reference at its end."""
    return _REF_SUFFIX.sub("", fact)


def short_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _todos(call: ToolCall) -> tuple[str, ...]:
    items = call.arguments.get("items", ())
    entries = items if isinstance(items, list | tuple) else ()
    return tuple(
        f"[{one_line(str(item.get('status', 'pending')), 20)}] {one_line(str(item['text']), MAX_GOAL_CHARS)}"
        for item in entries
        if isinstance(item, Mapping) and item.get("text")
    )


def _notes(call: ToolCall, previous_notes: tuple[str, ...]) -> tuple[str, ...]:
    if "notes" not in call.arguments:
        return previous_notes
    return tuple(
        one_line(line, MAX_FINDING_CHARS) for line in _argument_text(call, "notes").splitlines() if line.strip()
    )


# The long patterns are strings, because few runs have a ledger: `re` compiles and caches each pattern on first use.
_TEST_COMMAND = (
    r"\b(?:pytest|unittest|tox|nox|ctest|rspec|jest|vitest|mocha|phpunit|behave|nextest)\b"
    r"|\b(?:npm|pnpm|yarn|bun|go|cargo|make|mvn|gradle|gradlew|dotnet|mix|swift|deno|bazel|just)\s+(?:run\s+)?(?:test|check)\b"
)
_TEST_OUTCOME = (
    r"(?m)\b\d+ (?:passed|failed|passing|failing|tests?|failures?|errors?)\b|^(?:FAILED|OK|PASS|FAIL|ok|not ok)\b"
    r"|test result:|Tests:"
)


def _with_command(ledger: Ledger, call: ToolCall, output: ToolOutput, ref: str) -> Ledger:
    command = safe_line(_argument_text(call, "command"), MAX_GOAL_CHARS)
    if call.arguments.get("background") is True or call.arguments.get("terminal") is True:
        return _with_job(ledger, output.program.job, command) if output.program else ledger
    if output.program and output.program.job:  # the command became a job because it ran longer than its time limit
        ledger = _with_job(ledger, output.program.job, command)
    fact = outcome_line(call, output) + ref
    ledger = replace(ledger, commands=_append_facts(ledger.commands, fact))
    if re.search(_TEST_COMMAND, command):
        lines = [line.strip() for line in output.text.splitlines() if re.search(_TEST_OUTCOME, line)]
        outcome = " | ".join(safe_line(line, 160) for line in lines[-3:])
        ending = exit_summary(output)
        return replace(ledger, tests=(f"{command} – {ending}" + (f" – {outcome}" if outcome else "") + ref,))
    return ledger


def _with_job(ledger: Ledger, job: str, command: str) -> Ledger:
    other_jobs = tuple(fact for fact in ledger.jobs if not fact.startswith(f"{job}: "))
    return replace(ledger, jobs=(*other_jobs, f"{job}: {command}"))


def _without_ended_job(ledger: Ledger, call: ToolCall, output: ToolOutput) -> Ledger:
    """Remove the call's job from the ledger, if the job has ended. A failed call means that the job does not exist."""
    if (output.program and output.program.is_running) or output.status not in ("done", "failed"):
        return ledger
    job = _argument_text(call, "job")
    return replace(ledger, jobs=tuple(fact for fact in ledger.jobs if not fact.startswith(f"{job}: ")))


_DEMAND_PATTERN = (
    r"(?i)\b(?:must(?:n['’]?t)?|never|always|only|not|don['’]?t|doesn['’]t|shouldn['’]?t|should|shall|can['’]?t|cannot|"
    r"won['’]t|need(?:s|n['’]t)? to|(?:have|has|ought) to|requir\w+|mandatory|forbidden|prohibited|unallowed|"
    r"off[- ]limits|avoid|refrain|without|except|unless|under no circumstances|no matter what|"
    r"at (?:most|least|all times)|no \w+|nothing|stay|make sure|ensure|be (?:sure|careful)|keep|"
    r"leave \S+(?: \S+){0,4} (?:alone|as|untouched|unchanged)|hands off|stick (?:to|with)|instead of|rather than|"
    r"exactly|strictly|(?<!\w )use|insist|important|remember|prefer\w*|limit(?:ed)? to|(?:under|below|up to) \d|"
    r"backwards? compat\w*)\b"
)
_NON_ENGLISH_DEMAND_PATTERN = (
    r"(?i)\b(?:niemals|nie|immer|nur|muss|müssen|darf|dürfen|nicht|keine[nmrs]?|ohne|sollst|jamais|toujours|uniquement|"
    r"seulement|ne \w+ pas|n['’]\w+ pas|doit|doivent|sans|nunca|siempre|solo|sólo|solamente|debes?|deben|sin|jamás|"
    r"sempre|deve|devono|никогда|всегда|только|нельзя|должн\w+|без|не)\b"
    r"|不要|不能|不得|不可|必须|必須|务必|禁止|只能|一定|总是|永远|绝不|しないで|するな|必ず|だけ|絶対|常に"
    r"|하지 마|반드시|절대|항상"
)
"""Words that express demands in other languages. An unnecessary match costs one line; a missed demand costs the user's
trust."""
_FENCED_CODE = r"(?ms)^\s*(?:```|~~~).*?^\s*(?:```|~~~)\s*$"
_SENTENCE_END = r"(?<=[.!?;])(?<!e\.g\.)(?<!i\.e\.)(?<!vs\.)[\"')\]]*\s+(?=\S)|(?<=[。！？；])|\n+"


_MAX_END_CHARS = 50_000
"""Number of characters examined at each end of a message. A longer message is a log or file rather than a request."""


def demands_in(text: str) -> tuple[str, ...]:
    """Return the user's exact sentences that require or forbid something. Fenced code is ignored."""
    examined = text if len(text) <= 2 * _MAX_END_CHARS else f"{text[:_MAX_END_CHARS]}\n{text[-_MAX_END_CHARS:]}"
    return tuple(
        sentence
        for sentence in _sentences(_without_fenced_code(examined))
        if re.search(_DEMAND_PATTERN, sentence) or re.search(_NON_ENGLISH_DEMAND_PATTERN, sentence)
    )


def _without_fenced_code(text: str) -> str:
    return re.sub(_FENCED_CODE, "\n", text)


def _sentences(text: str) -> Iterator[str]:
    for piece in re.split(_SENTENCE_END, text):
        sentence = piece.strip().lstrip("-*• \t").strip()
        if sentence:
            yield sentence


_FINDING_PATTERN = (
    r"(?i)\b(?:because|root cause|the (?:bug|cause|problem|issue|culprit|reason) (?:is|was|lies|comes)|turns out|"
    r"decided|decision|chose|choose|instead of|rather than|found (?:that|out|the)|discovered|conclu(?:de|sion)|"
    r"the fix (?:is|was)|fixed by|(?:does not|doesn['’]t|did not|didn['’]t|won['’]t) work|failed because|caused by|"
    r"depends on|listens on|lives in|is defined in|workaround|note that|important|(?:I|we) (?:will|['’]ll) use|"
    r"going with)\b"
)


def findings_in(text: str) -> tuple[str, ...]:
    """Find the sentences in which the model reports a finding or decision."""
    findings = [
        sentence for sentence in _sentences(_without_fenced_code(text)) if re.search(_FINDING_PATTERN, sentence)
    ]
    return tuple(one_line(sentence, MAX_FINDING_CHARS) for sentence in findings)


def render_ledger(ledger: Ledger, max_tokens: int) -> str:
    """Return the ledger as text, within `max_tokens`. The user's demands come first; of the other kinds, the newest
    facts are included. The text says how many facts were omitted."""
    chosen: dict[str, list[str]] = {name: [] for name in FACT_HEADINGS}
    remaining_tokens = max_tokens - _ROUNDING_RESERVE_TOKENS
    for name, fact in _by_priority(ledger):
        fact_tokens = estimate_text(f"- {fact}\n") + (0 if chosen[name] else estimate_text(_heading_line(name, 10**6)))
        if fact_tokens <= remaining_tokens:
            chosen[name].append(fact)
            remaining_tokens -= fact_tokens
    sections: list[str] = []
    for name, facts in chosen.items():
        if facts:
            omitted_count = len(getattr(ledger, name)) - len(facts)
            sections.append(_heading_line(name, omitted_count) + "".join(f"- {fact}\n" for fact in reversed(facts)))
    return "".join(sections).rstrip("\n")


_ROUNDING_RESERVE_TOKENS = 8
"""Tokens reserved for rounding errors of the estimates."""


def _heading_line(name: str, omitted_count: int) -> str:
    return f"{FACT_HEADINGS[name]}" + (f" ({omitted_count} earlier left out)" if omitted_count else "") + ":\n"


def _by_priority(ledger: Ledger) -> Iterator[tuple[str, str]]:
    """Yield all facts with their kinds, the most important first."""
    for name in FACT_HEADINGS:
        for fact in reversed(getattr(ledger, name)[-_PRIORITY_COUNTS[name] :]):
            yield name, fact
    for name in _REMAINING_ORDER:
        for fact in reversed(getattr(ledger, name)[: -_PRIORITY_COUNTS[name]]):
            yield name, fact


_HEADING_LINE = re.compile(r"^(.+?)(?: \(\d+ earlier left out\))?:$")
_FIELD_BY_HEADING = {title: name for name, title in FACT_HEADINGS.items()}


def parse_ledger(text: str) -> Ledger:
    """Parse a ledger from its text. Lines that are not facts are ignored."""
    facts_by_kind: dict[str, list[str]] = {name: [] for name in FACT_HEADINGS}
    name = ""
    for line in text.split("\n"):
        if line.startswith("- ") and name:
            facts_by_kind[name].append(line[2:])
        elif (match := _HEADING_LINE.match(line)) and match[1] in _FIELD_BY_HEADING:
            name = _FIELD_BY_HEADING[match[1]]
    return Ledger(**{kind: tuple(facts) for kind, facts in facts_by_kind.items()})


@dataclass(frozen=True, slots=True)
class RequiredFact:
    """A fact that must be in the text that replaces the history. `line` is the line to add if it is missing. The fact
    is present if the text contains `evidence`."""

    line: str
    evidence: str


def missing_facts(ledger: Ledger, text: str) -> tuple[str, ...]:
    """Return the required facts that `text` omits, as lines to add: each demand, open todo, running job and touched
    file, and the last error."""
    normalised = " ".join(text.split())
    return tuple(fact.line for fact in _required_facts(ledger) if fact.evidence not in normalised)


def _required_facts(ledger: Ledger) -> Iterator[RequiredFact]:
    for fact in ledger.constraints:
        yield RequiredFact(f"- demanded: {fact}", fact.partition(": ")[2])
    for fact in ledger.todos:
        if not fact.startswith("[done]"):
            yield RequiredFact(f"- open: {fact}", fact.partition("] ")[2])
    for fact in ledger.jobs:
        yield RequiredFact(f"- still running: {fact}", fact)
    for fact in ledger.failures[-1:]:
        yield RequiredFact(f"- last error: {fact}", without_reference(fact))
    for fact in ledger.changed:
        yield RequiredFact(f"- changed: {fact}", changed_path(fact))
    for fact in ledger.read:
        yield RequiredFact(f"- read: {fact}", without_reference(fact))


def _append_facts(facts: tuple[str, ...], *new_facts: str) -> tuple[str, ...]:
    """Return the facts with `new_facts` appended, limited to the newest `MAX_FACTS`. A repeated fact moves to the end,
    with its latest reference."""
    for fact in (" ".join(fact.split()) for fact in new_facts):
        if fact:
            without_ref = without_reference(fact)
            # For speed, only facts with the same beginning are compared in full.
            other_facts = (
                old_fact
                for old_fact in facts
                if not old_fact.startswith(without_ref) or without_reference(old_fact) != without_ref
            )
            facts = (*other_facts, fact)
    return facts[-MAX_FACTS:]


def _argument_text(call: ToolCall, name: str) -> str:
    value = call.arguments.get(name, "")
    return value if isinstance(value, str) else ""


def _call_label(call: ToolCall) -> str:
    subject = _argument_text(call, "command") or _argument_text(call, "path") or " ".join(patched_paths(call))
    return f"{safe_line(call.name, 80)} {safe_line(subject, 120)}".strip()
