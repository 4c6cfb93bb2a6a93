"""Commands and skills as their user calls them: real files, real commands of the shell, a scripted model."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.events.permissions import Decision, PermissionAsked, QuestionAsked
from ebbtide.agent.events.session import Event, Noticed, ToolFinished, ToolStarted, TurnFailed
from ebbtide.agent.extensions.agent_files import find_agents
from ebbtide.agent.extensions.custom_commands import (
    PlaceholderSyntax,
    TextPart,
    find_custom_commands,
    split_shell_commands,
)
from ebbtide.agent.extensions.expansion import expand_arguments, rules_for_tools
from ebbtide.agent.extensions.skills import find_skills, initial_skill_list
from ebbtide.agent.extensions.trust import ProjectTrust
from ebbtide.agent.extensions.trust_question import ASK_EACH_OPTION, POSTPONE_OPTION, REFUSE_OPTION, TRUST_ALL_OPTION
from ebbtide.agent.input.named_extensions import ALLOW_OPTION, KEEP_ASKING_OPTION
from ebbtide.agent.messages import Note, User
from ebbtide.agent.session import Session
from tests.kit.extension_project import ExtensionProject

SKILL = "---\nname: deploy\ndescription: Deploys the site.\nallowed-tools: Bash(echo:*)\n---\nRun `run.sh $ARGUMENTS`."


async def open_session(project: ExtensionProject, *, interactive: bool = False, trusts: bool = False) -> Session:
    project.environment["PATH"] = "/usr/bin:/bin"
    project.trusts = trusts
    return await project.session(*[{"text": "ok"}] * 4, mode="auto", interactive=interactive)


async def say(session: Session, text: str, answer: Callable[[str], str] = lambda _: "") -> list[Event]:
    events: list[Event] = []
    async for event in session.send(text):
        events.append(event)
        if isinstance(event, QuestionAsked):
            session.answer(event.id, answer(event.question))
    return events


def notes(session: Session) -> list[str]:
    """What came with the last message of the user."""
    messages = [message for message in session.history.messages if isinstance(message, User)][-1]
    return [part.text for part in messages.parts if isinstance(part, Note)]


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
def test_arguments_stand_where_a_text_has_a_place_for_them(
    text: str, written: str, form: PlaceholderSyntax, becomes: str
) -> None:
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
def test_arguments_have_names(
    text: str, written: str, form: PlaceholderSyntax, names: tuple[str, ...], becomes: str
) -> None:
    assert "".join(part.text for part in expand_arguments(text, form, written, names).parts) == becomes


def test_a_shell_command_is_one_before_arguments_are_put_in() -> None:
    assert split_shell_commands("a !`git log` b!`no`", "markdown") == (
        TextPart("a "), TextPart("git log", is_shell=True), TextPart(" b!`no`"),
    )  # fmt: skip
    assert split_shell_commands("a\n```!\ngit log\ngit status\n```\nb", "markdown") == (
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


def test_commands_of_every_program_are_found_and_a_broken_one_is_one_line(project: ExtensionProject) -> None:
    project.write(".claude/commands/git/commit.md", "---\ndescription: Commits\nargument-hint: [why]\n---\nCommit: $1")
    project.write(".ebb/commands/git/commit.md", "Ours: $1")
    project.write(".opencode/command/lint.md", "# Lint it\n")
    project.write(".gemini/commands/explain.toml", 'description = "Explains"\nprompt = "Explain {{args}}"\n')
    project.write(".gemini/commands/broken.toml", "prompt = 3")
    project.write(".claude/commands/long.md", "x" * 1_000_001)
    project.write(".claude/commands/mine.md", "Mine", of_user=True)
    (project.root / ".claude/commands/out.md").symlink_to(project.user_home)
    commands, problems = find_custom_commands(project.config())
    assert [(each.name, each.description, each.argument_hint, each.owner, each.source) for each in commands] == [
        ("mine", "Mine", "", "user", "claude"),
        ("git:commit", "Ours: $1", "", "project", "ebb"),
        ("lint", "Lint it", "", "project", "opencode"),
        ("explain", "Explains", "", "project", "gemini"),
    ]
    assert [line.partition(" is skipped: ")[2] for line in problems] == [
        "it is longer than 1,000,000 bytes",
        "it has no `prompt` string",
    ]


def test_skills_of_the_project_are_pinned_to_all_of_their_files(project: ExtensionProject) -> None:
    path = project.write(".claude/skills/deploy/SKILL.md", SKILL)
    script = project.write(".claude/skills/deploy/run.sh", "echo deployed")
    project.write(".claude/skills/none/SKILL.md", "---\nname: none\n---\n")
    own = project.write("ebb/config/skills/own/SKILL.md", f"---\ndescription: >\n  {'x' * 400}\n---\n", of_user=True)
    project.write(".claude/skills/leads/SKILL.md", SKILL.replace("deploy", "leads"))
    (project.root / ".claude/skills/leads/key").symlink_to("/etc/passwd")
    skills, problems = find_skills(project.config())
    assert [(each.name, each.owner, each.requested_tools) for each in skills] == [
        ("own", "user", ()),
        ("deploy", "project", ("Bash(echo:*)",)),
    ]
    assert [line.partition(" is skipped: ")[2] for line in problems] == [
        f"its file `key` leads out of `{project.root / '.claude/skills/leads'}`",
        "it has no description",
    ]
    lines = initial_skill_list(project.config()).splitlines()
    assert lines[4:] == [f"- own: {'x' * 299}… ({own})"]
    assert (path.parent / "run.sh").read_text() == "echo deployed"
    assert skills[1].is_unchanged()
    script.write_text("curl evil")
    assert not skills[1].is_unchanged()


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
def test_a_skill_without_a_description_has_its_first_sentence(
    project: ExtensionProject, written: str, description: str
) -> None:
    project.write("ebb/config/skills/x/SKILL.md", written, of_user=True)
    skills, problems = find_skills(project.config())
    assert ([each.description for each in skills], problems) == ([description], ())


@pytest.mark.parametrize(
    ("value", "for_model", "for_user"), [("true", False, True), ("Yes", False, True), ("no", True, False)]
)
def test_flags_of_a_skill_are_read_in_any_way_that_yaml_has(
    project: ExtensionProject, value: str, for_model: bool, for_user: bool
) -> None:
    head = f"---\ndescription: x\ndisable-model-invocation: {value}\nuser-invocable: {value}\n---\nx"
    project.write("ebb/config/skills/x/SKILL.md", head, of_user=True)
    (skill,), _ = find_skills(project.config())
    assert (skill.is_listed_for_model, skill.is_user_invocable) == (for_model, for_user)


async def test_a_command_is_put_in_with_what_it_runs_and_the_files_that_it_names(project: ExtensionProject) -> None:
    project.write("a.txt", "content of a")
    project.write(".claude/commands/look.md", "Look at @$1.\n\nState: !`echo it is $1`\n", of_user=True)
    session = await open_session(project)
    events = await say(session, "/look a.txt")
    assert notices(events) == ["attached `@a.txt` (1 line)"]
    started = [event.arguments for event in events if isinstance(event, ToolStarted)]
    finished = [(event.name, event.status, event.text) for event in events if isinstance(event, ToolFinished)]
    assert (started, finished) == ([{"command": "echo it is a.txt"}], [("bash", "done", "it is a.txt")])
    text, file = notes(session)[:2]
    assert text.startswith("The user invokes the command `/look`, which says:\n\nLook at @a.txt.\n\nState: it is a.txt")
    assert "content of a" in file


async def test_the_folder_of_the_project_is_one_word_in_a_command(tmp_path: Path) -> None:
    """Of the same kind as anthropics/claude-code#5648: a blank in the path of the project."""
    folder = tmp_path / "My Projects"
    folder.mkdir()
    project = ExtensionProject(folder)
    project.write("a.txt", "content of a")
    text = "Look at @${CLAUDE_PROJECT_DIR}/a.txt: !`wc -l < ${CLAUDE_PROJECT_DIR}/a.txt`, ${CLAUDE_PROJECT_DIR}."
    project.write(".claude/commands/look.md", text, of_user=True)
    session = await open_session(project)
    await say(session, "/look")
    text, file = notes(session)[:2]
    assert f'Look at @"{project.root}/a.txt": 0, {project.root}.' in text
    assert "content of a" in file


async def test_what_may_not_run_or_becomes_too_long_is_not_sent(project: ExtensionProject) -> None:
    project.write(".claude/commands/big.md", "$ARGUMENTS" * 100, of_user=True)
    project.write(".claude/commands/bad.md", "!`rm -rf /`", of_user=True)
    session = await open_session(project)
    session._ctx.calls.runner.approver.policy = replace(session._ctx.calls.runner.approver.policy, mode="plan")
    problems = [
        event.message
        for text in (f"/big {'x' * 3_000}", "/bad")
        for event in await say(session, text)
        if isinstance(event, TurnFailed)
    ]
    assert problems[0] == "the command `/big` expands to more than 200,000 characters: not sent"
    assert problems[1].startswith("`/bad` was not sent, because `rm -rf /` may not run: denied")
    assert session.history.messages == ()


async def test_what_a_project_brings_is_one_question_and_then_can_be_used(project: ExtensionProject) -> None:
    path = project.write(".claude/skills/deploy/SKILL.md", SKILL)
    project.write(".claude/commands/look.md", "Look: !`echo $1`")
    session = await open_session(project)
    events = await say(session, "hello")
    decide = "start `ebb` in a terminal to decide, or give `--trust` to use what this project contains"
    assert notices(events) == [
        "the skill `deploy` and the command `look` of this project are not approved, so they are skipped; " + decide
    ]
    failed = (await say(session, "/look x"))[-1]
    assert isinstance(failed, TurnFailed)
    assert failed.message == "the command `/look` of this project is not approved; see `/trust`"
    await session.close()

    session = await open_session(project, interactive=True)
    assert session.trust is not None
    assert session.trust.has_undecided_items
    asked: list[str] = []

    def trust_all(question: str) -> str:
        asked.append(question)
        return TRUST_ALL_OPTION

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
    await session.close()

    assert f"({path})" in initial_skill_list(project.config())
    session = await open_session(project)
    await say(session, "/look y")
    assert notes(session)[0].endswith("Look: y")


async def test_what_a_command_prints_is_put_in_up_to_a_limit(project: ExtensionProject) -> None:
    project.write(".claude/commands/some.md", "Some: !`seq 1 2000`.")
    project.write(".claude/commands/many.md", "Many: !`seq 1 2000000`.")
    session = await open_session(project, trusts=True)
    await say(session, "/some")
    (some,) = notes(session)
    await say(session, "/many")
    (many,) = notes(session)
    await session.close()
    numbers = "\n".join(map(str, range(1, 2001)))
    assert some.endswith(f"Some: {numbers}.")
    assert many.endswith(" bytes more …].")
    assert 30_000 < len(many) < 31_000


def test_what_a_text_would_run_unasked_is_a_rule_where_one_says_exactly_that() -> None:
    tools = ("Read", "Bash", "Bash(git add:*)", "Bash(npm  test)", "Bash(rm *)", "Bash(a; b:*)", "Bash(git add:*)")
    assert rules_for_tools(tools) == ("bash(git add)", "bash(=npm test)", "bash(rm)")


@pytest.mark.parametrize(("answer", "asks"), [(ALLOW_OPTION, 0), (KEEP_ASKING_OPTION, 1)])
async def test_what_a_command_would_run_unasked_is_offered_as_a_rule(
    project: ExtensionProject, answer: str, asks: int
) -> None:
    text = "---\nallowed-tools: Bash(python3:*)\n---\nState: !`python3 a.py`\n"
    project.write("a.py", "print('one')\n")
    project.write(".claude/commands/state.md", text, of_user=True)
    session = await open_session(project, interactive=True)
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
    offered = "`/state` wants to run these without asking, for this session:\n\n  bash(python3)"
    assert (questions, permissions) == ([offered], asks)
    assert notes(session)[0].rstrip().endswith("State: one")


async def test_each_can_be_asked_about_and_a_refusal_holds_also_in_a_run_that_trusts_the_rest(
    project: ExtensionProject,
) -> None:
    project.write(".claude/skills/deploy/SKILL.md", SKILL)
    project.write(".claude/commands/look.md", "Look")
    session = await open_session(project, interactive=True)
    asked: list[str] = []

    def each(question: str) -> str:
        asked.append(question.splitlines()[0])
        return (
            ASK_EACH_OPTION if "1 skill and" in question else REFUSE_OPTION if "`look`" in question else POSTPONE_OPTION
        )

    await say(session, "hello", each)
    await session.close()
    assert asked == [
        "This project has 1 skill and 1 command that you have not approved:",
        "This project has the skill `deploy` in `.claude/skills/deploy`.",
        "This project has the command `look` in `.claude/commands/look.md`.",
    ]
    session = await open_session(project, trusts=True)
    assert session.extensions is not None
    assert [each.name for each in session.extensions.usable_by_user()] == ["deploy"]


async def test_an_agent_that_is_approved_in_a_session_is_told_once(project: ExtensionProject) -> None:
    for name in ("looker", "explore"):
        project.write(f".claude/agents/{name}.md", "---\ndescription: looks\n---\nLook.\n")
    session = await open_session(project, interactive=True)
    await say(session, "hello", lambda _: TRUST_ALL_OPTION)
    assert notes(session) == ["[The user also allows these agents for `task`:\n- looker: looks]"]
    await say(session, "more")
    assert notes(session) == []


def test_hooks_that_skills_and_agents_say_of_their_own_are_named(project: ExtensionProject) -> None:
    hooks = "hooks:\n  PreToolUse:\n    - hooks: [{type: command, command: x}]\n"
    project.write(".claude/skills/deploy/SKILL.md", f"---\nname: deploy\ndescription: d\n{hooks}---\nDo.")
    project.write(".claude/agents/looker.md", f"---\nname: looker\ndescription: d\n{hooks}---\nLook.")
    project.write(".claude/agents/plain.md", "---\nname: plain\ndescription: d\n---\nLook.")
    notice = "declares its own hooks, which do not run here; hooks in `.claude/settings.json` do"
    assert find_skills(project.config())[1] == (f"the skill `deploy` {notice}",)
    project.write(".claude/commands/ship.md", f"---\ndescription: d\n{hooks}---\nShip.")
    assert find_agents(project.config())[1] == (f"the agent `looker` {notice}",)
    assert find_custom_commands(project.config())[1] == (f"the command `ship` {notice}",)


def test_the_approval_of_a_text_does_not_hold_where_it_is_read_in_another_form(project: ExtensionProject) -> None:
    text = 'prompt = "!{touch made}"\n'
    path = project.write(".claude/commands/look.md", text)
    (as_markdown,), _ = find_custom_commands(project.config())
    path.unlink()
    project.write(".gemini/commands/look.toml", text)
    (as_toml,), _ = find_custom_commands(project.config())
    ProjectTrust(project.config()).decide([as_markdown.trust_item], "approved")
    assert (as_markdown.trust_item.key, as_toml.trust_item.key) == ("command:look", "command:look")
    assert ProjectTrust(project.config()).trust_state(as_toml.trust_item) == "changed"
