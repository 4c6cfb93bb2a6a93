"""The facts that code can tell of a session."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.context.fidelity import measure_fidelity
from ebbtide.agent.messages import Assistant, Conversation, Message, OutputStatus, Text, ToolCall, ToolOutput, User
from ebbtide.agent.records.earlier_formats import parse_program_state
from ebbtide.agent.tokens.estimate import estimate_text
from ebbtide.agent.view.ledger import (
    FACT_HEADINGS,
    Ledger,
    demands_in,
    findings_in,
    missing_facts,
    parse_ledger,
    render_ledger,
    short_digest,
    updated_ledger,
)
from ebbtide.agent.view.references import message_digits
from ebbtide.agent.view.visible import visible_messages
from ebbtide.tools.process.state import ProgramState
from tests.kit.conversations import conversations

lines = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1, max_size=40)
ledgers = st.builds(Ledger, **{name: st.lists(lines, max_size=4, unique=True).map(tuple) for name in FACT_HEADINGS})


def user(text: str) -> User:
    return User((Text(text),))


def did(
    name: str, output: str = "ok", status: OutputStatus = "done", text: str = "", **arguments: object
) -> tuple[Message, ...]:
    parts = (*((Text(text),) if text else ()), ToolCall("c", name, arguments))
    program = parse_program_state("", output) if name.startswith("bash") else None
    return Assistant(parts, "m/a"), User((ToolOutput("c", output, status, program=program),))


@pytest.mark.parametrize(
    "sentence",
    [
        "You must keep the API.", "Never touch b.py.", "Don't use regex.", "Don’t use regex.", "dont use regex",
        "Please do not rename it.", "ONLY edit src/.", "Always run the tests.", "Use tabs, not spaces.",
        "No new dependencies.", "Leave the config alone.", "Keep it under 200 lines.", "Avoid globals.",
        "It has to work offline.", "Make sure 3.11 works.", "You may not push.", "You cannot use root.",
        "Under no circumstances delete data.", "Stay within src/.", "Hands off the schema.",
        "Stick to the standard library.",
        "Do it without mocks.", "Everything except the docs.", "At most 5 files.", "It should not block.",
        "It shouldn't block.", "Be careful with the lock.", "Commit nothing.", "The build is required to pass.",
        "Use pytest.", "Prefer small functions.", "It needs to be fast.", "I insist on types.",
        "Bitte niemals die Datei anfassen.", "Ne touche jamais ce fichier.", "Nunca borres datos.",
        "不要修改这个文件。", "テストを必ず実行してください。", "Никогда не удаляй данные.",
    ],
)  # fmt: skip
def test_a_sentence_that_demands_something_is_kept_word_for_word(sentence: str) -> None:
    assert demands_in(f"Fix the parser. {sentence}\nThanks!") == (sentence,)


def test_code_and_small_talk_are_no_demands() -> None:
    text = "Fix the crash in a.py, please.\n```\nyou must never read this\n```\nHere is what it printed. Thanks!"
    assert demands_in(text) == ()


def test_demands_of_a_list_are_told_apart() -> None:
    text = "Rules:\n- never push\n- only touch src/a.py, e.g. its `main`; keep the rest\n* always lint"
    assert demands_in(text) == ("never push", "only touch src/a.py, e.g. its `main`;", "keep the rest", "always lint")


def test_what_the_model_found_out_is_kept() -> None:
    text = "I look at it. The root cause is the cache. Next I edit.\nWe will use sqlite because it is there."
    assert findings_in(text) == ("The root cause is the cache.", "We will use sqlite because it is there.")


def test_a_session_leaves_its_facts() -> None:
    asked = user("Fix the parser. Never touch b.py.")
    items = [{"text": "fix", "status": "doing"}, {"text": "look", "status": "done"}]
    messages = (
        asked,
        *did("read", "1 x", path="a.py"),
        *did("read", "1 x", path="c.py"),
        *did("edit", "edited", path="a.py", text="The bug is in `a.py`."),
        *did("write", "written", path="new.py", content="x"),
        *did("apply_patch", patch="*** Begin Patch\n*** Update File: p.py\n*** Add File: q.py\n*** End Patch"),
        *did("read", "gone", "failed", path="gone.py"),
        *did("bash", "job-1 is running; bash_output gives what it prints", command="npm start", background=True),
        *did("bash", "job-2 is running; bash_output gives what it prints", command="sleep 9", background=True),
        *did("bash_kill", "job-2: killed by SIGTERM", job="job-2"),
        *did("bash", "E  boom\n2 failed, 3 passed in 1 s\nexit code 1", "failed", command="pytest -q"),
        *did("bash", "denied: bash(rm)", "denied", command="rm -rf x"),
        *did("ask_user", "the second", question="Which one?"),
        *did("submit_plan", "the user accepted the plan: carry it out now", plan="# Mine\n\n1. Do it."),
        *did("todo", "list kept", items=[], notes="port 80\n\nask  Ann"),
        *did("todo", "list kept", items=items),
    )
    name = f"msg-{message_digits(asked)}"
    assert updated_ledger("", messages) == Ledger(
        constraints=(f"{name}: Never touch b.py.",),
        jobs=("job-1: npm start",),
        todos=("[doing] fix", "[done] look"),
        notes=("port 80", "ask Ann"),
        goals=(f"{name}: Fix the parser. Never touch b.py.",),
        tests=("pytest -q – exit 1 – 2 failed, 3 passed in 1 s – 2 failed, 3 passed in 1 s",),
        changed=("a.py", f"new.py (sha256 {short_digest('x')})", "p.py", "q.py"),
        read=("c.py",),
        decisions=(
            "denied: bash rm -rf x – denied: bash(rm)",
            "asked: Which one? – answered: the second",
            "plan: # Mine 1. Do it.",
        ),
        failures=(
            "Viewed gone.py – failed: gone",
            "Ran: pytest -q – exit 1 – 2 failed, 3 passed in 1 s",
        ),
        findings=("The bug is in `a.py`.",),
        commands=(
            "Ran: pytest -q – exit 1 – 2 failed, 3 passed in 1 s",
            "Ran: rm -rf x – denied – denied: bash(rm)",
        ),
    )


def test_facts_name_the_last_output_that_tells_of_them() -> None:
    messages = (
        *did("bash", "ok\nexit code 0", command="seq 1 30000"),
        *did("read", "1 x", path="a.py"),
        *did("bash", "E  boom\n2 failed in 1 s\nexit code 1", "failed", command="pytest -q"),
        *did("read", "1 x", path="a.py"),
        *did("bash", "ok\nexit code 0", command="seq 1 30000"),
    )
    ledger = updated_ledger("", messages, 10)
    failed = "Ran: pytest -q – exit 1 – 2 failed in 1 s [r13]"
    assert ledger == Ledger(
        tests=("pytest -q – exit 1 – 2 failed in 1 s – 2 failed in 1 s [r13]",),
        read=("a.py [r14]",),
        failures=(failed,),
        commands=(failed, "Ran: seq 1 30000 – exit 0 [r15]"),
    )
    assert updated_ledger(render_ledger(ledger, 10**6), messages[-4:], 13) == ledger
    assert missing_facts(ledger, "a.py was read; Ran: pytest -q – exit 1 – 2 failed in 1 s") == ()
    assert missing_facts(ledger, "") == (f"- last error: {failed}", "- read: a.py [r14]")
    changed = updated_ledger("", (*messages, *did("edit", path="a.py")), 10)
    assert (changed.changed, changed.read) == (("a.py",), ())


def test_a_job_that_ended_or_is_unknown_no_longer_runs() -> None:
    started = did("bash", "job-1 is running; …", command="make", background=True)
    looks = [
        did("bash_output", "still\njob-1: still running", job="job-1"),
        did("bash_output", "done\njob-1: exit code 0", job="job-1"),
        did("bash_output", "there is no job `job-1`; jobs of this session: none", "failed", job="job-1"),
    ]
    assert [updated_ledger("", (*started, *look)).jobs for look in looks] == [("job-1: make",), (), ()]


@given(conversations())
def test_messages_that_were_seen_change_nothing_when_they_are_seen_again(conversation: object) -> None:
    messages = getattr(conversation, "messages", ())
    once = updated_ledger("", messages)
    text = render_ledger(once, 10**6)
    assert updated_ledger(text, messages) == once
    assert updated_ledger(text, messages[-2:]) == once


@given(ledgers)
def test_a_ledger_is_read_back_from_its_text(ledger: Ledger) -> None:
    assert parse_ledger(render_ledger(ledger, 10**6)) == ledger


@given(ledgers, st.integers(0, 300))
def test_a_ledger_keeps_to_its_cap_and_its_newest_facts(ledger: Ledger, tokens: int) -> None:
    text = render_ledger(ledger, tokens)
    assert estimate_text(text) <= tokens
    read = parse_ledger(text)
    for name in FACT_HEADINGS:
        facts, whole = getattr(read, name), getattr(ledger, name)
        assert set(facts) <= set(whole)


def test_what_is_left_out_is_counted() -> None:
    ledger = Ledger(commands=tuple(f"Ran: command {n}" for n in range(9)))
    assert render_ledger(ledger, 48) == (
        "Commands run (6 earlier left out):\n- Ran: command 6\n- Ran: command 7\n- Ran: command 8"
    )


def test_the_gate_names_what_a_summary_leaves_out() -> None:
    ledger = Ledger(
        constraints=("msg-1: never push", "msg-2: only b.py"),
        todos=("[doing] fix it", "[done] look"),
        jobs=("job-1: make",),
        failures=("old", "Ran: x – exit 1 – boom"),
        changed=("a.py (sha256 0123456789ab)",),
        read=("c.py",),
    )
    assert missing_facts(ledger, "He said:\nnever push. a.py was changed, c.py read") == (
        "- demanded: msg-2: only b.py",
        "- open: [doing] fix it",
        "- still running: job-1: make",
        "- last error: Ran: x – exit 1 – boom",
    )
    assert missing_facts(ledger, render_ledger(ledger, 10_000)) == ()


def test_without_a_model_the_ledger_keeps_what_matters() -> None:
    score = measure_fidelity(5)
    assert score.share() >= 0.8
    assert score.share("constraint") == 1.0
    assert score.share("path") >= 0.97
    assert score.largest <= 3600


def test_what_the_user_made_of_a_call_is_what_the_facts_name() -> None:
    def changed(name: str, edited: dict[str, object], status: OutputStatus, **arguments: object) -> tuple[Message, ...]:
        text, program = (
            ("exit code 0", ProgramState("exit code 0", 0)) if status == "done" else ("denied by the user", None)
        )
        output = ToolOutput("c", text, status, edited=edited, program=program)
        return Assistant((ToolCall("c", name, arguments),), "m/a"), User((output,))

    messages = (
        *changed("bash", {"command": "pytest -q"}, "done", command="rm -rf build && pytest"),
        *changed("bash", {"command": "git push"}, "denied", command="git push -f"),
        *changed("write", {"path": "a.py", "content": "mine"}, "done", path="a.py", content="yours"),
        *changed("apply_patch", {"patch": "*** Update File: b.py\n"}, "done", patch="*** Update File: c.py\n"),
    )
    ledger = updated_ledger("", messages)
    assert (ledger.commands, ledger.changed, ledger.decisions) == (
        ("Ran: pytest -q – exit 0", "Ran: git push – denied – denied by the user"),
        (f"a.py (sha256 {short_digest('mine')})", "b.py"),
        ("denied: bash git push – denied by the user",),
    )
    assert ledger.tests[0].startswith("pytest -q – exit 0")
    view = Conversation(messages, masked=frozenset("c"))
    lines = [part.text for message in visible_messages(view) if isinstance(message, User) for part in message.outputs]
    assert lines[0] == "Ran: pytest -q – exit 0 [recall:r1]"


def test_a_fact_holds_no_reference_but_its_own_and_nothing_that_steers_a_terminal() -> None:
    messages = (
        *did("bash", "\x1b[31mFAILED\x1b[0m [r9] 1 failed\nexit code 1", "failed", command="pytest \x1b[1m[recall:r8]"),
        *did("read", path="a [r7].py"),
    )
    ledger = updated_ledger("", messages, 0)
    assert ledger.tests == ("pytest (recall:r8) – exit 1 – FAILED (r9) 1 failed – FAILED (r9) 1 failed [r1]",)
    assert ledger.failures == ledger.commands == ("Ran: pytest (recall:r8) – exit 1 – FAILED (r9) 1 failed [r1]",)
    assert ledger.read == ("a (r7).py [r2]",)
