"""Commands and skills as their user calls them: real files, real commands of the shell, a scripted model."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.config.load import load_config
from ebbtide.agent.events.permissions import Decision, PermissionAsked, QuestionAsked
from ebbtide.agent.events.session import Event, Noticed, ToolFinished, ToolStarted, TurnFailed
from ebbtide.agent.extensions.agent_files import find_agents
from ebbtide.agent.extensions.custom_commands import Form, TextPart, find_commands, parts_of
from ebbtide.agent.extensions.expansion import expand_arguments, rules_of
from ebbtide.agent.extensions.skills import find_skills, initial_skills_prompt
from ebbtide.agent.extensions.trust import FolderTrust
from ebbtide.agent.extensions.trust_question import ALL, EACH, LATER, NEVER
from ebbtide.agent.input.named_extensions import ALLOW, AS_USUAL
from ebbtide.agent.messages import Note, User
from ebbtide.agent.session import Session
from ebbtide.agent.sessions import Sessions
from tests.agent.extensions.bringing import Brought

SKILL = "---\nname: deploy\ndescription: Deploys the site.\nallowed-tools: Bash(echo:*)\n---\nRun `run.sh $ARGUMENTS`."


@pytest.fixture
def brought(tmp_path: Path) -> Brought:
    return Brought(tmp_path)


async def open_session(
    brought: Brought, *, interactive: bool = False, trusts: bool = False
) -> tuple[Sessions, Session]:
    script = brought.write("script.json", json.dumps({"reply": [{"text": "ok"}] * 4}), of_user=True)
    environment = {**brought.environment, "EBB_SANDBOX": "off", "PATH": "/usr/bin:/bin"}
    told = {"agent.model": f"scripted/{script}", "agent.permission_mode": "auto"}
    config = load_config(brought.project, environment, told)
    sessions = Sessions(replace(config, trusts_project=trusts), brought.project, environment, interactive=interactive)
    return sessions, await sessions.open(None)


async def say(session: Session, text: str, answer: Callable[[str], str] = lambda _: "") -> list[Event]:
    events: list[Event] = []
    async for event in session.send(text):
        events.append(event)
        if isinstance(event, QuestionAsked):
            session.answer(event.id, answer(event.question))
    return events


def notes(session: Session) -> list[str]:
    """What came with the last message of the user."""
    said = [message for message in session.history.messages if isinstance(message, User)][-1]
    return [part.text for part in said.parts if isinstance(part, Note)]


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Noticed)]


@pytest.mark.parametrize(
    ("text", "written", "form", "becomes"),
    [
        ("Fix $1 as $2: $ARGUMENTS", 'a.py "two words"', "markdown", 'Fix a.py as two words: a.py "two words"'),
        ("$0 and $1: $ARGUMENTS[1]", "a b", "markdown", "a and b: b"),
        ("$1 !`awk '{print $0}'`", "a", "markdown", "a awk '{print $0}'"),
        ("No place.", "now", "markdown", "No place.\n\nARGUMENTS: now"),
        ("$1 $9 costs $100", "it's", "markdown", "it's  costs $100"),
        ("Explain {{args}} @{my file.md}", "$1", "toml", 'Explain $1 @"my file.md"'),
        ("Plain", "", "markdown", "Plain"),
    ],
)
def test_arguments_stand_where_a_text_has_a_place_for_them(text: str, written: str, form: Form, becomes: str) -> None:
    assert "".join(part.text for part in expand_arguments(text, form, written).parts) == becomes


@pytest.mark.parametrize(
    ("text", "written", "becomes"),
    [
        ("It costs $0.01, $1.2M or $1,000, $200K. Fix $1.", "a b", "It costs $0.01, $1.2M or $1,000, $200K. Fix a."),
        ("```bash\nps | awk '{print $2}'\n```\nKill $1.", "a", "```bash\nps | awk '{print $2}'\n```\nKill a."),
        ("awk -F, -v n=$1 '/$ARGUMENTS/ {print $2}' f", "a", "awk -F, -v n=a '/a/ {print $2}' f"),
        ("!`ps | awk '{print $2}'`", "a", "ps | awk '{print $2}'\n\nARGUMENTS: a"),
        ("With awk, don't print $1 as 'x'.", "a", "With awk, don't print a as 'x'."),
        ("\\$1 is $1, \\$ARGUMENTS is $ARGUMENTS", "a", "$1 is a, $ARGUMENTS is a"),
        ("!`echo \\$1 $1`", "a", "echo \\$1 a"),
        ("$1.py and $1.", "a", "a.py and a."),
        ("Only $1.20", "a", "Only $1.20\n\nARGUMENTS: a"),
    ],
)
def test_a_price_and_a_field_of_awk_are_no_places_for_arguments(text: str, written: str, becomes: str) -> None:
    """anthropics/claude-code#78759: prices and awk's fields in a command's file become arguments, and nothing stops
    that."""
    assert "".join(part.text for part in expand_arguments(text, "markdown", written).parts) == becomes


@pytest.mark.parametrize(
    ("text", "written", "form", "names", "becomes"),
    [
        ("$FILES: $$1 is $1, $TITLE", 'x FILES="a b" TITLE=$1', "codex", (), "a b: $1 is x, $1"),
        ("$HOME and $OTHER", "X=1", "codex", (), "$HOME and $OTHER\n\nARGUMENTS: X=1"),
        ("$issue on $branch$ $issues $2 $$", "12 main", "markdown", ("issue", "branch"), "12 on main$ $issues main $$"),
        ("$issue on $branch.", "12", "markdown", ("issue", "branch"), "12 on ."),
    ],
)
def test_arguments_have_names(text: str, written: str, form: Form, names: tuple[str, ...], becomes: str) -> None:
    assert "".join(part.text for part in expand_arguments(text, form, written, names).parts) == becomes


def test_a_shell_command_is_one_before_arguments_are_put_in() -> None:
    assert parts_of("a !`git log` b!`no`", "markdown") == (
        TextPart("a "), TextPart("git log", is_shell=True), TextPart(" b!`no`"),
    )  # fmt: skip
    assert parts_of("a\n```!\ngit log\ngit status\n```\nb", "markdown") == (
        TextPart("a\n"), TextPart("git log\ngit status", is_shell=True), TextPart("\nb"),
    )  # fmt: skip
    assert expand_arguments("x !{echo {{args}} ${HOME}}", "toml", "a; rm b").parts == (
        TextPart("x "), TextPart("echo 'a; rm b' ${HOME}", is_shell=True),
    )  # fmt: skip


@given(st.text(max_size=60))
def test_nothing_in_an_argument_is_run(written: str) -> None:
    for form, text in (("markdown", "Say $ARGUMENTS !`true`"), ("toml", "Say {{args}} !{true}")):
        shell = [part.text for part in expand_arguments(text, form, written).parts if part.is_shell]  # type: ignore[arg-type]  # both are forms
        assert shell == ["true"]


def test_commands_of_every_program_are_found_and_a_broken_one_is_one_line(brought: Brought) -> None:
    brought.write(".claude/commands/git/commit.md", "---\ndescription: Commits\nargument-hint: [why]\n---\nCommit: $1")
    brought.write(".ebb/commands/git/commit.md", "Ours: $1")
    brought.write(".opencode/command/lint.md", "# Lint it\n")
    brought.write(".gemini/commands/explain.toml", 'description = "Explains"\nprompt = "Explain {{args}}"\n')
    brought.write(".gemini/commands/broken.toml", "prompt = 3")
    brought.write(".claude/commands/long.md", "x" * 1_000_001)
    brought.write(".claude/commands/mine.md", "Mine", of_user=True)
    (brought.project / ".claude/commands/out.md").symlink_to(brought.home)
    commands, problems = find_commands(brought.config)
    assert [(each.name, each.description, each.hint, each.owner, each.source) for each in commands] == [
        ("mine", "Mine", "", "user", "claude"),
        ("git:commit", "Ours: $1", "", "project", "ebb"),
        ("lint", "Lint it", "", "project", "opencode"),
        ("explain", "Explains", "", "project", "gemini"),
    ]
    assert [line.partition(" is left out: ")[2] for line in problems] == [
        "it is longer than 1,000,000 bytes",
        "it has no `prompt` string",
    ]


def test_skills_of_the_project_are_pinned_to_all_of_their_files(brought: Brought) -> None:
    path = brought.write(".claude/skills/deploy/SKILL.md", SKILL)
    script = brought.write(".claude/skills/deploy/run.sh", "echo deployed")
    brought.write(".claude/skills/none/SKILL.md", "---\nname: none\n---\n")
    own = brought.write("ebb/config/skills/own/SKILL.md", f"---\ndescription: >\n  {'x' * 400}\n---\n", of_user=True)
    brought.write(".claude/skills/leads/SKILL.md", SKILL.replace("deploy", "leads"))
    (brought.project / ".claude/skills/leads/key").symlink_to("/etc/passwd")
    skills, problems = find_skills(brought.config)
    assert [(each.name, each.owner, each.tools) for each in skills] == [
        ("own", "user", ()),
        ("deploy", "project", ("Bash(echo:*)",)),
    ]
    assert [line.partition(" is left out: ")[2] for line in problems] == [
        f"its file `key` leads out of `{brought.project / '.claude/skills/leads'}`",
        "it has no description",
    ]
    lines = initial_skills_prompt(brought.config).splitlines()
    assert lines[4:] == [f"- own: {'x' * 299}… ({own})"]
    assert (path.parent / "run.sh").read_text() == "echo deployed"
    assert skills[1].is_as_it_was()
    script.write_text("curl evil")
    assert not skills[1].is_as_it_was()


@pytest.mark.parametrize(
    ("written", "description"),
    [
        ("# PDF files\n\nFill in forms of PDF files. Then\ncheck them.\n\nMore.", "Fill in forms of PDF files."),
        ("---\nname: x\n---\n\n<!-- draft. -->\n## Use\nRun `make` e.g.\nhere", "Run `make` e.g."),
        ("---\ndescription:\n---\n# Only a heading\n---\n", "Only a heading"),
        ("检查代码。然后提交。", "检查代码。"),
        ("---\ndescription: yes\n---\nx", "yes"),
        ("---\nname: x\ndescription:\n  Pairs with the other skill: grill first,\n  then go.\n---\nx",
         "Pairs with the other skill: grill first, then go."),
    ],
)  # fmt: skip
def test_a_skill_without_a_description_has_its_first_sentence(brought: Brought, written: str, description: str) -> None:
    brought.write("ebb/config/skills/x/SKILL.md", written, of_user=True)
    skills, problems = find_skills(brought.config)
    assert ([each.description for each in skills], problems) == ([description], ())


@pytest.mark.parametrize(
    ("said", "for_model", "for_user"), [("true", False, True), ("Yes", False, True), ("no", True, False)]
)
def test_flags_of_a_skill_are_read_in_any_way_that_yaml_has(
    brought: Brought, said: str, for_model: bool, for_user: bool
) -> None:
    head = f"---\ndescription: x\ndisable-model-invocation: {said}\nuser-invocable: {said}\n---\nx"
    brought.write("ebb/config/skills/x/SKILL.md", head, of_user=True)
    (skill,), _ = find_skills(brought.config)
    assert (skill.for_model, skill.for_user) == (for_model, for_user)


async def test_a_command_is_put_in_with_what_it_runs_and_the_files_that_it_names(brought: Brought) -> None:
    brought.write("a.txt", "content of a")
    brought.write(".claude/commands/look.md", "Look at @$1.\n\nState: !`echo it is $1`\n", of_user=True)
    sessions, session = await open_session(brought)
    events = await say(session, "/look a.txt")
    assert notices(events) == ["attached `@a.txt` (1 line)"]
    started = [event.arguments for event in events if isinstance(event, ToolStarted)]
    finished = [(event.name, event.status, event.text) for event in events if isinstance(event, ToolFinished)]
    assert (started, finished) == ([{"command": "echo it is a.txt"}], [("bash", "done", "it is a.txt")])
    text, file = notes(session)[:2]
    assert text.startswith("The user asks what the command `/look` says:\n\nLook at @a.txt.\n\nState: it is a.txt")
    assert "content of a" in file
    await sessions.close()


async def test_the_folder_of_the_project_is_one_word_in_a_command(tmp_path: Path) -> None:
    """Of the same kind as anthropics/claude-code#5648: a blank in the path of the project."""
    folder = tmp_path / "My Projects"
    folder.mkdir()
    brought = Brought(folder)
    brought.write("a.txt", "content of a")
    text = "Look at @${CLAUDE_PROJECT_DIR}/a.txt: !`wc -l < ${CLAUDE_PROJECT_DIR}/a.txt`, ${CLAUDE_PROJECT_DIR}."
    brought.write(".claude/commands/look.md", text, of_user=True)
    sessions, session = await open_session(brought)
    await say(session, "/look")
    text, file = notes(session)[:2]
    assert f'Look at @"{brought.project}/a.txt": 0, {brought.project}.' in text
    assert "content of a" in file
    await sessions.close()


async def test_what_may_not_run_or_becomes_too_long_is_not_sent(brought: Brought) -> None:
    brought.write(".claude/commands/big.md", "$ARGUMENTS" * 100, of_user=True)
    brought.write(".claude/commands/bad.md", "!`rm -rf /`", of_user=True)
    sessions, session = await open_session(brought)
    session._env.call_runner.approval.policy = replace(session._env.call_runner.approval.policy, mode="plan")
    told = [
        event.message
        for text in (f"/big {'x' * 3_000}", "/bad")
        for event in await say(session, text)
        if isinstance(event, TurnFailed)
    ]
    assert told[0] == "the command `/big` expands to more than 200,000 characters: not sent"
    assert told[1].startswith("`/bad` was not sent, because `rm -rf /` may not run: denied")
    assert session.history.messages == ()
    await sessions.close()


async def test_what_a_project_brings_is_one_question_and_then_can_be_used(brought: Brought) -> None:
    path = brought.write(".claude/skills/deploy/SKILL.md", SKILL)
    brought.write(".claude/commands/look.md", "Look: !`echo $1`")
    sessions, session = await open_session(brought)
    events = await say(session, "hello")
    decide = "start `ebb` in a terminal to decide, or give `--trust` to use what this project contains"
    assert notices(events) == [
        "the skill `deploy` and the command `look` of this project are not approved, so they are left out; " + decide
    ]
    failed = (await say(session, "/look x"))[-1]
    assert isinstance(failed, TurnFailed)
    assert failed.message == "the command `/look` of this project is not approved; see `/trust`"
    await sessions.close()

    sessions, session = await open_session(brought, interactive=True)
    assert session.trust is not None
    assert session.trust.awaits
    asked: list[str] = []

    def trust_all(question: str) -> str:
        asked.append(question)
        return ALL

    await say(session, "/deploy now", trust_all)
    (question,) = asked
    assert question.startswith("This project has 1 skill and 1 command that you have not approved:\n")
    assert "  description: Deploys the site.\n  files: SKILL.md\n" in question
    assert "  runs: echo $1\n" in question
    body, news = notes(session)[:2]
    assert body.endswith("It says:\n\nRun `run.sh now`.")
    assert f"- deploy: Deploys the site. ({path})" in news
    await say(session, "more")
    assert notes(session) == []
    await sessions.close()

    assert f"({path})" in initial_skills_prompt(brought.config)
    sessions, session = await open_session(brought)
    await say(session, "/look y")
    assert notes(session)[0].endswith("Look: y")
    await sessions.close()


async def test_what_a_command_prints_is_put_in_up_to_a_limit(brought: Brought) -> None:
    brought.write(".claude/commands/some.md", "Some: !`seq 1 2000`.")
    brought.write(".claude/commands/many.md", "Many: !`seq 1 2000000`.")
    sessions, session = await open_session(brought, trusts=True)
    await say(session, "/some")
    (some,) = notes(session)
    await say(session, "/many")
    (many,) = notes(session)
    await sessions.close()
    numbers = "\n".join(map(str, range(1, 2001)))
    assert some.endswith(f"Some: {numbers}.")
    assert many.endswith(" bytes more …].")
    assert 30_000 < len(many) < 31_000


def test_what_a_text_would_run_unasked_is_a_rule_where_one_says_exactly_that() -> None:
    tools = ("Read", "Bash", "Bash(git add:*)", "Bash(npm  test)", "Bash(rm *)", "Bash(a; b:*)", "Bash(git add:*)")
    assert rules_of(tools) == ("bash(git add)", "bash(=npm test)", "bash(rm)")


@pytest.mark.parametrize(("answer", "asks"), [(ALLOW, 0), (AS_USUAL, 1)])
async def test_what_a_command_would_run_unasked_is_offered_as_a_rule(brought: Brought, answer: str, asks: int) -> None:
    text = "---\nallowed-tools: Bash(python3:*)\n---\nState: !`python3 a.py`\n"
    brought.write("a.py", "print('one')\n")
    brought.write(".claude/commands/state.md", text, of_user=True)
    sessions, session = await open_session(brought, interactive=True)
    await session.change_mode("ask")
    questions: list[str] = []
    permissions = 0
    async for event in session.send("/state"):
        if isinstance(event, QuestionAsked):
            questions.append(event.question)
            session.answer(event.id, answer)
        elif isinstance(event, PermissionAsked):
            permissions += 1
            session.answer(event.id, Decision("allow"))
    offered = "`/state` asks to run these without asking, for this session:\n\n  bash(python3)"
    assert (questions, permissions) == ([offered], asks)
    assert notes(session)[0].rstrip().endswith("State: one")
    await sessions.close()


async def test_each_can_be_asked_about_and_a_refusal_holds_also_in_a_run_that_trusts_the_rest(
    brought: Brought,
) -> None:
    brought.write(".claude/skills/deploy/SKILL.md", SKILL)
    brought.write(".claude/commands/look.md", "Look")
    sessions, session = await open_session(brought, interactive=True)
    asked: list[str] = []

    def each(question: str) -> str:
        asked.append(question.splitlines()[0])
        return EACH if "1 skill and" in question else NEVER if "`look`" in question else LATER

    await say(session, "hello", each)
    await sessions.close()
    assert asked == [
        "This project has 1 skill and 1 command that you have not approved:",
        "This project has the skill `deploy` in `.claude/skills/deploy`.",
        "This project has the command `look` in `.claude/commands/look.md`.",
    ]
    sessions, session = await open_session(brought, trusts=True)
    assert session.extensions is not None
    assert [each.name for each in session.extensions.usable()] == ["deploy"]
    await sessions.close()


async def test_an_agent_that_is_approved_in_a_session_is_told_once(brought: Brought) -> None:
    for name in ("looker", "explore"):
        brought.write(f".claude/agents/{name}.md", "---\ndescription: looks\n---\nLook.\n")
    sessions, session = await open_session(brought, interactive=True)
    await say(session, "hello", lambda _: ALL)
    assert notes(session) == ["[The user allows these agents for `task`, too:\n- looker: looks]"]
    await say(session, "more")
    assert notes(session) == []
    await sessions.close()


def test_hooks_that_skills_and_agents_say_of_their_own_are_named(brought: Brought) -> None:
    hooks = "hooks:\n  PreToolUse:\n    - hooks: [{type: command, command: x}]\n"
    brought.write(".claude/skills/deploy/SKILL.md", f"---\nname: deploy\ndescription: d\n{hooks}---\nDo.")
    brought.write(".claude/agents/looker.md", f"---\nname: looker\ndescription: d\n{hooks}---\nLook.")
    brought.write(".claude/agents/plain.md", "---\nname: plain\ndescription: d\n---\nLook.")
    told = "declares its own hooks, which do not run here; hooks in `.claude/settings.json` do"
    assert find_skills(brought.config)[1] == (f"the skill `deploy` {told}",)
    brought.write(".claude/commands/ship.md", f"---\ndescription: d\n{hooks}---\nShip.")
    assert find_agents(brought.config)[1] == (f"the agent `looker` {told}",)
    assert find_commands(brought.config)[1] == (f"the command `ship` {told}",)


def test_the_approval_of_a_text_does_not_hold_where_it_is_read_in_another_form(brought: Brought) -> None:
    text = 'prompt = "!{touch made}"\n'
    path = brought.write(".claude/commands/look.md", text)
    (as_markdown,), _ = find_commands(brought.config)
    path.unlink()
    brought.write(".gemini/commands/look.toml", text)
    (as_toml,), _ = find_commands(brought.config)
    FolderTrust(brought.config).decide([as_markdown.item], "approved")
    assert (as_markdown.item.key, as_toml.item.key) == ("command:look", "command:look")
    assert FolderTrust(brought.config).standing(as_toml.item) == "changed"
