"""What the user says to a call: once, from now on, for the project, changed first. With real tools and real files."""

import asyncio
import json
import os
import shutil
import stat
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.agent.budget.preflight import ToolBudget
from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.changed_call import build_edit_note
from ebbtide.agent.calls.execute import CallPosition, CallRunner, run_calls
from ebbtide.agent.calls.output_budget import OutputBudget
from ebbtide.agent.calls.output_intake import OutputArchiver
from ebbtide.agent.calls.policy import PLAN_MODE_REFUSALS, Policy, parse_rule
from ebbtide.agent.calls.project_rules import ProjectRules, SavedRules
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.events.permissions import (
    CallDenied,
    CallEdited,
    Decision,
    PermissionAnswered,
    PermissionAsked,
    RuleTrial,
)
from ebbtide.agent.events.session import Event, Noticed, ToolFinished
from ebbtide.agent.messages import ToolCall, ToolOutput, User
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.session import Session
from ebbtide.agent.tokens.estimate import estimate_message
from ebbtide.tools.base import Workspace
from ebbtide.tools.catalog import create_builtin_tools
from ebbtide.tools.process.state import ProgramState
from tests.kit.files import write_file, write_files, write_program
from tests.kit.git import git
from tests.kit.hostile_repository import hostile_repository, ran
from tests.kit.programs import needs_ripgrep
from tests.kit.project import Project
from tests.kit.session import Home, call, outputs_of

Answer = Callable[[PermissionAsked], Decision]


class Run:
    """Calls that are run in a folder, and what happened."""

    def __init__(self, root: Path, answer: Answer, deny: Sequence[str] = (), calls: Sequence[ToolCall] = ()) -> None:
        self.events: list[Event] = []
        self.asked: list[PermissionAsked] = []
        self._answer = answer
        policy = Policy(str(root), "ask", deny_rules=tuple(map(parse_rule, deny)))

        async def earlier() -> Sequence[ToolCall]:
            return calls

        self.approval = Approver(policy, self._ask, earlier)
        tools = {tool.name: tool for tool in create_builtin_tools()}
        workspace = Workspace(root, root.parent / "outputs")
        self.call_runner = CallRunner(
            tools, workspace, self.approval, Interrupt(), self.events.append, OutputArchiver()
        )

    async def _ask(self, question: PermissionAsked) -> Decision:
        self.asked.append(question)
        return self._answer(question)

    async def __call__(self, *calls: ToolCall) -> tuple[ToolOutput, ...]:
        room = OutputBudget(ToolBudget(100_000, 0), lambda output: estimate_message(User((output,))))
        return await run_calls(calls, self.call_runner, room, CallPosition())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def bash(command: str) -> ToolCall:
    return ToolCall("c1", "bash", {"command": command})


def instead(command: str) -> Answer:
    return lambda question: Decision("allow", arguments={"command": command})


async def test_a_command_that_the_user_changed_runs_and_the_model_is_told(root: Path) -> None:
    run = Run(root, instead("echo mine"))
    (output,) = await run(bash("touch yours"))
    assert output == ToolOutput(
        "c1",
        "[The user changed this call before it ran.\n`command` now: echo mine]\nmine\nexit code 0",
        edited={"command": "echo mine"},
        program=ProgramState("exit code 0", 0),
    )
    assert [event for event in run.events if isinstance(event, CallEdited)] == [
        CallEdited("c1", "bash", {"command": "echo mine"})
    ]
    assert len([event for event in run.events if isinstance(event, ToolFinished)]) == 1


async def test_a_command_that_the_user_changed_is_denied_as_any_other(root: Path) -> None:
    (root / "kept").write_text("x")
    run = Run(root, instead("cd . && env rm kept"), deny=("bash(rm)",))
    (output,) = await run(bash("touch made"))
    assert (output.status, (root / "kept").exists()) == ("denied", True)
    assert output.text.startswith("[The user changed this call before it ran.\n`command` now: cd . && env rm kept]\n")
    assert "deny rule bash(rm)" in output.text
    assert [event for event in run.events if isinstance(event, CallDenied)] == [
        CallDenied("c1", "bash", {"command": "cd . && env rm kept"}, "deny rule bash(rm)")
    ]


async def test_in_plan_mode_what_only_looks_runs_and_what_holds_secrets_is_asked_about(root: Path) -> None:
    hostile_repository(root)
    (root / ".env").write_text("KEY=1\n")
    run = Run(root, lambda question: Decision("allow"))
    run.approval.policy = replace(run.approval.policy, mode="plan")
    lines = ("git status -s a", "git diff a", "cat .env", "touch made", "git diff > made", "ls", "cat /etc/hosts")
    outputs = [(await run(bash(line)))[0] for line in lines]
    assert [output.status for output in outputs] == ["done", "done", "done", "denied", "denied", "done", "done"]
    assert outputs[2].text == "KEY=1\nexit code 0"
    assert (
        outputs[3].text
        == f"denied: {PLAN_MODE_REFUSALS['run']}. Do it another way, or say in your answer what is left to do"
    )
    assert [(question.arguments["command"], question.reason, question.offers) for question in run.asked] == [
        ("cat .env", "`.env` may hold secrets", ()),
        ("cat /etc/hosts", "`/etc/hosts` is outside the working folder", ()),
    ]
    assert (ran(root), (root / "made").exists()) == (set(), False)


@pytest.mark.parametrize("mode", ["ask", "accept-edits"])
async def test_what_only_looks_is_not_asked_about_and_runs_nothing_of_the_repository(
    root: Path, mode: PermissionMode
) -> None:
    hostile_repository(root)
    write_files(root, {".env": "KEY=1\n", "b": "KEY\n"})
    run = Run(root, lambda question: Decision("deny"))
    run.approval.policy = replace(run.approval.policy, mode=mode)
    lines = (
        "git status -s a", "git diff a | head", "grep -rc KEY .", "cat .env", "cat ../outside", "touch made",
        "git diff > made", "git commit -m x",
    )  # fmt: skip
    outputs = [(await run(bash(line)))[0] for line in lines]
    assert [output.status for output in outputs] == [*["done"] * 3, *["denied"] * 5]
    assert ".env" not in outputs[2].text
    approval = f"{mode} mode: commands need your OK"
    assert [question.reason for question in run.asked] == [
        "`.env` may hold secrets", f"`{root.parent}/outside` is outside the working folder", *[approval] * 3,
    ]  # fmt: skip
    assert (ran(root), (root / "made").exists()) == (set(), False)


@needs_ripgrep
async def test_a_program_that_lies_in_the_folder_is_asked_about(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("python3", "rg"):
        write_program(root / name, "touch ran\n")
    monkeypatch.setenv("PATH", f"{root}:{os.environ['PATH']}")
    run = Run(root, lambda question: Decision("deny"))
    lines = ("python3 --version", "command -v python3; which rg", "rg --files")
    outputs = [(await run(bash(line)))[0] for line in lines]
    assert [question.arguments["command"] for question in run.asked] == [lines[0]]
    assert outputs[1].text == f"{root}/python3\n{root}/rg\nexit code 0"
    assert (outputs[2].status, (root / "ran").exists()) == ("done", False)


async def test_in_plan_mode_a_command_that_the_user_changed_must_look_as_well(root: Path) -> None:
    (root / ".env").write_text("KEY=1\n")
    for line, status in (("touch made", "denied"), ("ls .env", "done")):
        answers = iter((Decision("allow", arguments={"command": line}), Decision("allow")))
        run = Run(root, lambda question, answers=answers: next(answers))  # type: ignore[misc]  # the default binds it
        run.approval.policy = replace(run.approval.policy, mode="plan")
        (output,) = await run(bash("cat .env"))
        assert (output.status, (root / "made").exists()) == (status, False)


@pytest.mark.parametrize("arguments", [{"command": ""}, {"command": 3}, {"other": "x"}, {}])
async def test_a_call_that_the_user_made_impossible_fails_and_is_told(root: Path, arguments: dict[str, object]) -> None:
    (output,) = await Run(root, lambda question: Decision("allow", arguments=arguments))(bash("touch made"))
    assert (output.status, output.edited, (root / "made").exists()) == ("failed", arguments, False)


async def test_a_file_that_the_user_changed_is_shown_again_before_it_is_written(root: Path) -> None:
    def answer(question: PermissionAsked) -> Decision:
        changed = {"path": "a.txt", "content": "two\n"}
        return Decision("allow") if question.is_edited else Decision("edit", arguments=changed)

    run = Run(root, answer)
    (output,) = await run(ToolCall("c1", "write", {"path": "a.txt", "content": "one\n"}))
    assert [(question.id, question.is_edited, question.preview.split("\n")[-1]) for question in run.asked] == [
        ("permission-c1", False, "+one"),
        ("permission-c1-2", True, "+two"),
    ]
    assert (root / "a.txt").read_text() == "two\n"
    assert output.text == (
        "[The user changed this call before it ran.\n`content` now:\ntwo\n]\ncreated `a.txt`: 1 line"
    )


async def test_an_edit_may_not_lead_elsewhere(root: Path) -> None:
    elsewhere = Decision("allow", arguments={"path": "secret/a", "content": "x"})
    (output,) = await Run(root, lambda question: elsewhere, deny=("write(secret)",))(
        ToolCall("c1", "write", {"path": "a.txt", "content": "x"})
    )
    assert (output.status, os.listdir(root)) == ("denied", [])


async def test_only_a_rule_that_was_offered_is_kept(root: Path) -> None:
    run = Run(root, lambda question: Decision("allow", rule="bash"))
    outputs = await run(bash("locale -a"), replace(bash("touch x"), id="c2"))
    assert [output.status for output in outputs] == ["done", "done"]
    assert (len(run.asked), run.approval.policy.allow_rules) == (2, ())


async def test_a_rule_answers_the_open_questions_that_it_covers_and_no_other(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    for name in ("a", "b"):
        (outside / name).write_text(name)
    elsewhere = root.parent / "elsewhere"
    elsewhere.write_text("c")
    all_asked = asyncio.Event()
    forever = asyncio.Event()
    asked: list[PermissionAsked] = []

    async def ask(question: PermissionAsked) -> Decision:
        asked.append(question)
        if len(asked) == 3:
            all_asked.set()
        await all_asked.wait()
        if question.call_id == "c1":
            return Decision("allow", rule=question.offers[1])
        if question.call_id == "c3":
            return Decision("deny")
        await forever.wait()  # nobody answers this one
        return Decision("deny")

    run = Run(root, lambda question: Decision("deny"))
    run.approval.ask_user = ask
    reads = [ToolCall(f"c{n}", "read", {"path": str(path)}) for n, path in enumerate((outside / "a", outside / "b"), 1)]
    outputs = await run(*reads, ToolCall("c3", "read", {"path": str(elsewhere)}))
    assert [output.status for output in outputs] == ["done", "done", "denied"]
    assert PermissionAnswered("permission-c2", "allow") in run.events
    assert asked[0].offers == (f"read({outside / 'a'})", f"read({outside})")


async def test_once_answers_one_question_alone(root: Path) -> None:
    run = Run(root, lambda question: Decision("allow"))
    await run(bash("locale -a"), replace(bash("locale -a"), id="c2"))
    assert [question.call_id for question in run.asked] == ["c1", "c2"]


async def test_rules_are_tried_on_what_was_called_before(root: Path) -> None:
    past = [bash(command) for command in ("pytest -q", "pytest -q", "pytest tests", "make", "", "rm x")]
    run = Run(root, lambda question: Decision("deny"), calls=[*past, ToolCall("w", "write", {"path": "x"})])
    await run(bash("pytest -q"))
    (question,) = run.asked
    assert (question.offers, question.offers_exact) == (("bash(=pytest -q)", "bash(pytest)"), True)
    assert question.tried == (RuleTrial("bash(=pytest -q)", 2, 5), RuleTrial("bash(pytest)", 3, 5, ("pytest tests",)))


async def test_a_rule_that_is_tried_goes_into_folders_of_the_project(root: Path) -> None:
    past = [bash(command) for command in ("cd src && pytest", "pytest -x", "cd .. && pytest", "cd src && make")]
    run = Run(root, lambda question: Decision("deny"), calls=past)
    await run(bash("cd src && pytest"))
    (question,) = run.asked
    assert question.tried == (
        RuleTrial("bash(=cd src && pytest)", 1, 4),
        RuleTrial("bash(pytest)", 2, 4, ("pytest -x",)),
    )


async def test_a_question_that_has_no_rule_for_exactly_this_says_so(root: Path) -> None:
    run = Run(root, lambda question: Decision("deny"))
    await run(bash("touch 1\ntouch 2"))
    (question,) = run.asked
    assert (question.offers, question.offers_exact) == ((), False)
    await run(bash(f"touch {'1' * 1_000}"))
    assert (run.asked[1].offers, run.asked[1].offers_exact) == ((), False)
    await run(bash(f"pytest -q {' '.join(['1' * 200] * 5)}"))
    assert (run.asked[2].offers, run.asked[2].offers_exact) == (("bash(pytest)",), False)
    await run(bash(f"touch {'1' * 900}"))
    assert (run.asked[3].offers, run.asked[3].offers_exact) == ((f"bash(=touch {'1' * 900})",), True)


async def test_an_interrupted_question_leaves_nothing_open(root: Path) -> None:
    run = Run(root, lambda question: Decision("deny"))

    async def ask(question: PermissionAsked) -> Decision:
        run.call_runner.interrupt.request()
        await asyncio.Event().wait()
        raise AssertionError

    run.approval.ask_user = ask
    (output,) = await run(bash("touch a"))
    assert output.status == "cancelled"
    run.approval.add_rule("bash(touch)")  # nobody waits for it any more


class Waiting(Run):
    """Calls that are asked about until somebody else answers."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, lambda question: Decision("deny"))
        self.waits = asyncio.Event()

    async def _ask(self, question: PermissionAsked) -> Decision:
        self.asked.append(question)
        self.waits.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def changes_to(self, mode: PermissionMode) -> int:
        await self.waits.wait()
        return await self.approval.change_mode(mode)


async def test_a_mode_answers_the_questions_that_it_would_not_have_asked(root: Path) -> None:
    run = Waiting(root)
    writing = asyncio.ensure_future(run(ToolCall("c1", "write", {"path": "a", "content": "x"})))
    assert [await run.changes_to("ask"), await run.changes_to("accept-edits")] == [0, 1]
    (output,) = await writing
    assert (output.status, (root / "a").read_text()) == ("done", "x")
    assert PermissionAnswered(run.asked[0].id, "allow") in run.events


async def test_a_mode_leaves_open_what_it_asks_about(root: Path) -> None:
    run = Waiting(root)
    run.approval.get_sandbox_problem = lambda: "there is no sandbox"
    running = asyncio.ensure_future(run(bash("touch a")))
    assert [await run.changes_to(mode) for mode in ("accept-edits", "plan", "auto")] == [0, 0, 0]
    run.approval.add_rule("bash(touch)")
    (output,) = await running
    assert (output.status, (root / "a").exists()) == ("done", True)


def test_long_values_are_told_by_what_changed_in_them() -> None:
    before = ToolCall("c", "write", {"path": "a", "content": "".join(f"line {n}\n" for n in range(100))})
    after = replace(before, arguments={**before.arguments, "content": before.arguments["content"] + "more\n"})  # type: ignore[operator]  # a text, above
    assert build_edit_note(before, after) == (
        "[The user changed this call before it ran.\n`content` now, compared with yours:\n"
        "@@ -98,3 +98,4 @@\n line 97\n line 98\n line 99\n+more]"
    )
    assert build_edit_note(before, replace(before, arguments={"path": "a"})).endswith("`content` was removed.]")


# For the project


@asynccontextmanager
async def opened(tmp_path: Path, *replies: object, interactive: bool = True) -> AsyncIterator[Session]:
    """A session in `project`, as after a new start of the program."""
    async with started(tmp_path, *replies, interactive=interactive) as sessions:
        yield await sessions.open()


@asynccontextmanager
async def started(tmp_path: Path, *replies: object, interactive: bool = True) -> AsyncIterator[ProjectSessions]:
    """The sessions of a project, as after a new start of the program."""
    async with Project(tmp_path) as project:
        yield project.sessions(*replies, interactive=interactive)


def model(tmp_path: Path, name: str, *replies: object) -> str:
    """The name of a model that gives these replies."""
    script = tmp_path / f"{name}.json"
    script.write_text(json.dumps({"reply": replies}))
    return f"scripted/{script}"


async def answered(session: Session, answer: Callable[[PermissionAsked], Decision]) -> list[Event]:
    events: list[Event] = []
    async for event in session.send("go"):
        events.append(event)
        if isinstance(event, PermissionAsked):
            session.answer(event.id, answer(event))
    return events


def questions(events: Sequence[Event]) -> list[PermissionAsked]:
    return [event for event in events if isinstance(event, PermissionAsked)]


LIST = {"calls": [call("bash", command="locale -a")]}
DONE = {"text": "ok"}


async def test_a_rule_for_the_project_holds_in_its_next_session(tmp_path: Path) -> None:
    async with opened(tmp_path, LIST, DONE) as session:
        (question,) = questions(
            await answered(session, lambda asked: Decision("allow", rule=asked.offers[0], scope="project"))
        )
    file = tmp_path / "home" / "config" / "rules.json"
    assert question.rules_file == str(file)
    assert json.loads(file.read_text()) == {"projects": {str(tmp_path / "project"): {"allow": ["bash(=locale -a)"]}}}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    async with opened(tmp_path, LIST, DONE) as session:
        assert questions(await answered(session, lambda asked: Decision("deny"))) == []
    assert list((tmp_path / "project").iterdir()) == []


async def test_a_rule_for_one_project_says_nothing_of_another(tmp_path: Path) -> None:
    ProjectRules(tmp_path / "home" / "config", tmp_path / "project" / "sub").add_rule("bash(locale)")
    async with opened(tmp_path, LIST, DONE) as session:
        assert len(questions(await answered(session, lambda asked: Decision("deny")))) == 1


async def test_a_project_cannot_plant_a_rule(tmp_path: Path) -> None:
    project = tmp_path / "project"
    planted = json.dumps({"projects": {str(project): {"allow": ["bash"]}}})
    for place in (project, project / ".ebb", project / "config", project / ".config" / "ebbtide"):
        write_file(place / "rules.json", planted)
    async with opened(tmp_path, LIST, DONE) as session:
        assert len(questions(await answered(session, lambda asked: Decision("deny")))) == 1


async def test_scripts_do_not_use_what_was_allowed_in_the_terminal(tmp_path: Path) -> None:
    ProjectRules(tmp_path / "home" / "config", tmp_path / "project").add_rule("bash(locale)")
    async with opened(tmp_path, LIST, DONE, interactive=False) as session:
        events = await answered(session, lambda asked: Decision("allow"))
    assert [event.name for event in events if isinstance(event, CallDenied)] == ["bash"]


@pytest.mark.parametrize("content", ["{", "[]", '{"projects": 3}', '{"projects": {"PROJECT": 3}}'])
async def test_a_broken_file_of_rules_is_told_and_stays_as_it_is(tmp_path: Path, content: str) -> None:
    file = tmp_path / "home" / "config" / "rules.json"
    file.parent.mkdir(parents=True)
    content = content.replace("PROJECT", str(tmp_path / "project"))
    file.write_text(content)
    async with opened(tmp_path, LIST, DONE) as session:
        events = await answered(session, lambda asked: Decision("allow", rule=asked.offers[0], scope="project"))
    notices = [event.text for event in events if isinstance(event, Noticed) and str(file) in event.text]
    assert len(notices) == 2
    assert notices[1].startswith("the rule applies to this session only: ")
    assert file.read_text() == content


def test_what_is_no_rule_is_told_and_the_others_hold(tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    rules = {"projects": {"/p": {"allow": ["bash(ls)", "a b", 3, "edit(src)"]}}}
    file.write_text(json.dumps(rules))
    assert ProjectRules(tmp_path, Path("/p")).read() == SavedRules(
        ("bash(ls)", "edit(src)"),
        f'`{file}`: `"a b"`, `3` is not a valid rule and is ignored; a rule looks like `bash(git status)`',
    )


def test_in_a_work_tree_the_rules_of_its_repository_hold_too(tmp_path: Path) -> None:
    main, tree, claims = tmp_path / "main", tmp_path / "tree", tmp_path / "claims"
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "x"), ("worktree", "add", "-q", str(tree))):
        main.mkdir(exist_ok=True)
        git(main, *words)
    claims.mkdir()
    shutil.copy(tree / ".git", claims / ".git")  # only it says that it is a work tree
    for project, rule in ((main, "bash(ls)"), (main / "sub", "bash(pwd)"), (tree, "bash(id)")):
        ProjectRules(tmp_path, project).add_rule(rule)
    read = {str(each.relative_to(tmp_path)): ProjectRules(tmp_path, each).read().allow for each in (
        main, main / "sub", tree, tree / "sub", claims, tmp_path,
    )}  # fmt: skip
    assert read == {
        "main": ("bash(ls)",), "main/sub": ("bash(pwd)",), "tree": ("bash(ls)", "bash(id)"), "tree/sub": ("bash(pwd)",),
        "claims": (), ".": (),
    }  # fmt: skip


def test_a_pipe_in_the_place_of_the_rules_is_told_and_not_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    os.mkfifo(file)
    problem = f"your project rules are ignored: cannot read `{file}`: it is not a regular file"
    assert ProjectRules(tmp_path, Path("/p")).read() == SavedRules(problem=problem)


async def test_a_resumed_session_knows_what_ran(home: Home) -> None:
    session = await home.attended(
        ScriptedProvider.from_replies({"calls": [call("bash", command="locale -a")]}, DONE), mode="ask"
    )
    await answered(session, lambda asked: Decision("allow", arguments={"command": "echo b"}))
    (before,) = outputs_of(session)
    await session.close()
    again = await home.attended(ScriptedProvider.from_replies(DONE), resume=True)
    assert outputs_of(again) == [before]
    assert before.edited == {"command": "echo b"}


# For the session


async def asked_again(sessions: ProjectSessions, id: str | None = None, model: str | None = None) -> int:
    """How often a session asks, opened anew, where every question is answered with no."""
    session = await sessions.open(id, model)
    events = await answered(session, lambda asked: Decision("deny"))
    await session.close()
    return len(questions(events))


async def test_a_rule_for_the_session_outlives_its_model_but_neither_the_session_nor_the_program(
    tmp_path: Path,
) -> None:
    other = model(tmp_path, "other", LIST, DONE)
    async with started(tmp_path, LIST, DONE) as sessions:
        session = await sessions.open()
        events = await answered(session, lambda asked: Decision("allow", rule=asked.offers[0]))
        await session.close()
        assert len(questions(events)) == 1
        assert await asked_again(sessions, session.id, other) == 0
        assert await asked_again(sessions) == 1  # another session
        fork = await (await sessions.open_library()).fork(session.id)
        assert await asked_again(sessions, fork.id, other) == 1
        assert await asked_again(sessions, session.id, other) == 0
    async with started(tmp_path, LIST, DONE) as sessions:
        assert await asked_again(sessions, session.id, other) == 1


async def test_a_rule_for_the_project_that_the_user_took_away_does_not_outlive_the_model(tmp_path: Path) -> None:
    async with started(tmp_path, LIST, DONE) as sessions:
        session = await sessions.open()
        await answered(session, lambda asked: Decision("allow", rule=asked.offers[0], scope="project"))
        await session.close()
        (tmp_path / "home" / "config" / "rules.json").unlink()
        assert await asked_again(sessions, session.id, model(tmp_path, "other", LIST, DONE)) == 1


async def test_who_is_told_of_auto_mode_would_get_further_by_it(root: Path) -> None:
    run = Run(root, instead(""))
    run.approval.ask_user = None
    outputs = await run(bash("touch a"), replace(bash("cat .env"), id="c2"))
    assert ["--permission-mode auto" in output.text for output in outputs] == [True, False]


async def test_a_rule_for_what_only_looks_lets_no_repository_run_something_where_nothing_holds_it(root: Path) -> None:
    hostile_repository(root)
    run = Run(root, instead(""))
    looks = ("git status", "git diff a b", "git log -p -1", "git show", "git blame a", "git grep two")
    rules = {" ".join(line.split()[:2]) for line in looks}
    run.approval.policy = replace(run.approval.policy, allow_rules=tuple(parse_rule(f"bash({rule})") for rule in rules))
    outputs = [(await run(bash(line)))[0] for line in looks]
    assert [output.status for output in outputs] == ["done"] * len(looks), [output.text for output in outputs]
    assert [output.text.split("\n")[-1] for output in outputs] == ["exit code 0"] * len(looks)
    assert (ran(root), run.asked) == (set(), [])


async def test_a_rule_for_a_fetch_covers_none_in_a_repository_that_has_git_run_programs(root: Path) -> None:
    run = Run(root, instead(""))
    git(root, "init")
    run.approval.policy = replace(run.approval.policy, allow_rules=(parse_rule("bash(git archive)"),))
    assert (await run(bash("git archive --list")))[0].status == "done"
    git(root, "config", "filter.x.smudge", "./x")
    await run(bash("git archive HEAD"))
    assert [question.reason for question in run.asked] == [
        "this repository's settings make git run programs: `filter.x.smudge`"
    ]


TWO_CHANGES = ToolCall(
    "c1", "edit", {"path": "a.py", "edits": [{"old": "one", "new": "ONE"}, {"old": "four", "new": "FOUR"}]}
)


@pytest.fixture
def four_lines(root: Path) -> Callable[[], str]:
    """Writes `a.py`, and returns a function that reads it."""
    return write_file(root / "a.py", "one\ntwo\nthree\nfour\n").read_text


async def test_a_single_change_of_an_edit_is_refused_and_the_model_is_told_which(
    root: Path, four_lines: Callable[[], str]
) -> None:
    run = Run(root, lambda question: Decision("allow", refused_changes=(1,)))
    (output,) = await run(TWO_CHANGES)
    assert (run.asked[0].change_count, output.status) == (2, "done")
    assert four_lines() == "ONE\ntwo\nthree\nfour\n"
    assert output.text.startswith("changed `a.py`. The user accepted 1 of 2 changes.")
    assert "-four\n+FOUR" in output.text
    assert CallEdited("c1", "edit", TWO_CHANGES.arguments) in run.events


async def test_a_file_that_changes_while_the_user_chooses_is_left_alone(
    root: Path, four_lines: Callable[[], str]
) -> None:
    def answer(question: PermissionAsked) -> Decision:
        write_file(root / "a.py", "zero\none\ntwo\nthree\nfour\n")
        return Decision("allow", refused_changes=(1,))

    (output,) = await Run(root, answer)(TWO_CHANGES)
    assert (output.status, four_lines()) == ("failed", "zero\none\ntwo\nthree\nfour\n")
    assert "nothing was changed: read it again" in output.text


@pytest.mark.usefixtures("four_lines")
async def test_an_answer_may_let_all_further_edits_run(root: Path) -> None:
    run = Run(root, lambda question: Decision("allow", mode=question.mode_offer))
    again = replace(TWO_CHANGES, id="c2", arguments={"path": "a.py", "old": "two", "new": "TWO"})
    outputs = await run(TWO_CHANGES, again)
    assert ([output.status for output in outputs], len(run.asked)) == (["done", "done"], 1)
    assert (run.asked[0].mode_offer, run.approval.policy.mode) == ("accept-edits", "accept-edits")


@pytest.mark.parametrize(
    "asked",
    [
        ToolCall("c1", "write", {"path": ".git/hooks/pre-commit", "content": "x"}),
        ToolCall("c1", "write", {"path": "../outside.py", "content": "x"}),
        bash("touch x"),
    ],
    ids=["a file that others obey", "a file elsewhere", "a command"],
)
async def test_a_mode_is_offered_only_if_it_would_let_the_call_run(root: Path, asked: ToolCall) -> None:
    run = Run(root, lambda question: Decision("deny"))
    await run(asked)
    assert run.asked[0].mode_offer == ""


async def test_a_mode_that_was_not_offered_is_not_taken(root: Path) -> None:
    run = Run(root, lambda question: Decision("allow", mode="auto"))
    await run(bash("touch x"))
    assert (run.approval.policy.mode, run.asked[0].is_sandboxed) == ("ask", False)
