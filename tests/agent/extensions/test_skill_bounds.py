"""What skills with `allowed-tools` narrow while they are in use: real files and commands, a scripted model."""

from typing import Any

import pytest

from ebbtide.agent.calls.skill_bounds import build_skill_bounds
from ebbtide.agent.events.permissions import Decision, PermissionAsked, QuestionAsked
from ebbtide.agent.events.session import Event, Noticed, ToolFinished
from ebbtide.agent.extensions.skills import find_skills
from tests.kit.extension_project import ExtensionProject
from tests.kit.session import bash, call, calls

SKILL = """---
name: notes
description: Keeps notes.
allowed-tools: Read, Write, Bash(printf:*)
---
Write `notes.txt`.
"""
WRITES = call("write", path="notes.txt", content="one\n")
READ = "`notes`, which the model has read, in use until this turn ends, works with read, write, bash(printf)"
BOUND = "`notes`, in use until this turn ends, works with read, write, bash(printf)"


@pytest.fixture(autouse=True)
def skill(project: ExtensionProject) -> None:
    project.write(".claude/skills/notes/SKILL.md", SKILL)


async def outputs(
    project: ExtensionProject,
    *texts: str,
    replies: list[dict[str, object]],
    allow: tuple[str, ...] = (),
    asked: list[str] | None = None,
    notices: list[str] | None = None,
) -> list[tuple[str, str]]:
    """Of each call its status and the first line of its output. `asked`: takes the questions, which are answered yes;
    without it nobody is there."""
    project.environment["PATH"] = "/usr/bin:/bin"
    project.trusts = True
    rules: dict[str, Any] = {"permissions.allow": list(allow)}
    session = await project.session(*replies, mode="auto", interactive=asked is not None, **rules)
    found: list[tuple[str, str]] = []

    def take(event: Event) -> None:
        match event:
            case PermissionAsked(id=id, reason=reason):
                assert asked is not None
                asked.append(reason)
                session.answer(id, Decision("allow"))
            case QuestionAsked(id=id):
                session.answer(id, "ask as usual")
            case Noticed(text=text) if notices is not None:
                notices.append(text)
            case ToolFinished(status=status, text=text):
                found.append((status, text.partition("\n")[0]))
            case _:
                pass

    for text in texts:
        async for event in session.send(text):
            take(event)
    return found


async def test_a_skill_that_the_user_names_narrows_the_mode_until_the_turn_ends(project: ExtensionProject) -> None:
    wanted = calls(WRITES, bash("printf x"), bash("ls"), bash("touch a"), call("web_fetch", url="https://example.org"))
    again = calls(bash("touch a"))
    found = await outputs(project, "/notes", "more", replies=[wanted, {"text": "ok"}, again, {"text": "ok"}])
    assert [status for status, _ in found] == ["done", "done", "done", "denied", "denied", "done"]
    assert found[3][1].startswith(f"denied: {BOUND}, and there is no user to ask; the user can start with `--allow ")


async def test_a_skill_that_the_model_reads_narrows_it_too(project: ExtensionProject) -> None:
    reads = (call("read", path=".claude/skills/notes/SKILL.md"), bash("cat .claude/skills/notes/SKILL.md"))
    for read in reads:
        notices: list[str] = []
        replies = [calls(bash("touch a")), calls(read), calls(read), calls(bash("touch a")), {"text": "ok"}]
        found = await outputs(project, "go", replies=replies, notices=notices)
        assert [status for status, _ in found] == ["done", "done", "done", "denied"]
        assert found[3][1].startswith(f"denied: {READ}, and there is no user to ask; the user can start with `--allow ")
        assert notices == [
            f"{READ}; anything else that changes or runs something is denied unless an `--allow` rule names it"
        ]


async def test_a_rule_of_the_user_holds_for_edits_after_the_model_has_read_a_skill(project: ExtensionProject) -> None:
    read, edit = call("read", path=".claude/skills/notes/SKILL.md"), call("edit", path="a", old="1", new="2")
    project.write("a", "1\n")
    found = await outputs(project, "go", replies=[calls(read), calls(edit), {"text": "ok"}], allow=("edit",))
    assert ([status for status, _ in found], (project.root / "a").read_text()) == (["done", "done"], "2\n")


async def test_somebody_is_asked_about_it_and_a_rule_of_theirs_holds(project: ExtensionProject) -> None:
    asked: list[str] = []
    wanted = calls(bash("touch a"), bash("touch b"))
    found = await outputs(project, "/notes", replies=[wanted, {"text": "ok"}], allow=("bash(touch b)",), asked=asked)
    assert asked == [BOUND]
    assert [status for status, _ in found] == ["done", "done"]


@pytest.mark.parametrize(
    ("tools", "rules"),
    [
        ("Bash", ["bash"]),
        ("Bash(git add *), Bash(git commit:*), Bash(npm run *x)", ["bash(git add)", "bash(git commit)"]),
        ("Edit, Write", ["edit", "write", "apply_patch"]),
        ("Edit(src/**), WebFetch(domain:example.org)", ["edit(src/)", "web_fetch(example.org)"]),
        ("mcp__docs__search mcp__forge", ["mcp__docs__search", "mcp__forge"]),
    ],
)
def test_the_tools_of_a_skill_are_rules_as_far_as_one_says_exactly_that(
    project: ExtensionProject, tools: str, rules: list[str]
) -> None:
    project.write(".claude/skills/notes/SKILL.md", SKILL.replace("Read, Write, Bash(printf:*)", tools))
    (skill,) = find_skills(project.config())[0]
    assert [str(rule) for rule in build_skill_bounds(skill).rules] == rules
