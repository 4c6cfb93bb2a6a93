"""`ebb review`, and the steps of the CI systems that run it."""

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.kit.commands import ROOT, command, environment
from tests.kit.files import write_program
from tests.kit.git import commit_all, git
from tests.kit.session import bash, calls
from tests.kit.user import User

FINDING = {"path": "a.py", "line": 2, "severity": "warning", "title": "Wrong sum", "message": "It subtracts."}
ANSWER = {"summary": "It changes a sum.", "findings": [FINDING]}

ATTACHED = "attached piped input (8 lines, 145 bytes)"


@pytest.fixture
def base(user: User) -> str:
    """The commit before a change in the user's project, which is a repository."""
    return changed(user)


def changed(user: User) -> str:
    (user.project / "a.py").write_text("def add(a, b):\n    return a + b\n")
    first = commit_all(user.project)
    (user.project / "a.py").write_text("def add(a, b):\n    return a - b\n")
    git(user.project, "commit", "-qam", "second")
    return first


def shown(user: User) -> str:
    """The newest session, as it is stored."""
    newest = user.ebb("sessions", "list", "--json").lines[0]["id"]
    return user.ebb("sessions", "show", newest, "--json").out


def answering(user: User, answer: object = ANSWER, **more: Any) -> str:
    return user.script({"text": json.dumps(answer), **more})


def test_the_model_is_shown_the_change_and_its_findings_are_printed(user: User, base: str) -> None:
    run = user.ebb("review", base, "-m", answering(user))
    assert (run.code, run.out) == (0, "It changes a sum.\n\nwarning: a.py:2: Wrong sum\n  It subtracts.\n")
    assert "return a - b" in shown(user)
    assert user.ebb("review", base, "-m", answering(user), "--fail-on", "error").code == 0
    assert user.ebb("review", base, "-m", answering(user), "--fail-on", "warning", "--json").code == 9


def test_nothing_is_changed_and_nothing_run(user: User, base: str) -> None:
    script = user.script(calls(bash("touch mark; touch a.py")), {"text": json.dumps(ANSWER)})
    run = user.ebb("review", base, "-m", script, "--config", "agent.permission_mode=auto")
    assert (run.code, run.out.splitlines()[0]) == (0, "It changes a sum.")
    assert not (user.project / "mark").exists()


def test_where_nothing_has_changed_no_model_is_asked(user: User, base: str) -> None:
    run = user.ebb("review", "-m", user.script({"error": "auth"}))
    assert (run.code, run.out) == (0, "No changes to review: uncommitted changes.\n")
    (user.project / "new.py").write_text("x = 1\n")
    run = user.ebb("review", "-m", answering(user))
    assert (run.code, run.out.splitlines()[0]) == (0, "It changes a sum.")
    assert "new.py" in shown(user)


def test_nothing_that_a_change_says_attaches_a_file(user: User, base: str) -> None:
    (user.home / "secret").write_text("the word is swordfish")
    (user.project / "a.py").write_text(f"# see @{user.home}/secret\n")
    assert user.ebb("review", "-m", answering(user)).code == 0
    assert "/secret" in shown(user)
    assert "swordfish" not in shown(user)


def test_an_answer_that_is_there_is_turned_into_each_format(user: User, tmp_path: Path) -> None:
    (tmp_path / "answer.json").write_text(json.dumps({"type": "result", "result": json.dumps(ANSWER)}))
    writes = [
        f"--write={form}={tmp_path / form}" for form in ("sarif", "junit", "gitlab", "markdown", "json", "github")
    ]
    run = user.ebb("review", "--from", str(tmp_path / "answer.json"), "--format", "github", *writes)
    assert run.code == 0
    assert (
        run.out
        == (tmp_path / "github").read_text()
        == "::warning file=a.py,line=2,endLine=2,title=Wrong sum::It subtracts.\n"
    )
    assert json.loads((tmp_path / "sarif").read_text())["version"] == "2.1.0"
    assert user.ebb("review", "--from", "-", stdin=f"```json\n{json.dumps(ANSWER)}\n```").out.startswith("It changes")
    assert json.loads(user.ebb("review", "--schema").out)["required"] == ["summary", "findings"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--from", "none.json"), "cannot read `none.json`"),
        (("--from", "-"), "is not a review: it is not JSON"),
        (("--write", "pdf=x"), "`--write pdf=x` is not FORMAT=FILE"),
        (("--write", "sarif=none/x"), "no such folder: `none`"),
        (("",), "the commit to compare with is empty; check that the variable that names it is set"),
        (("nowhere",), "cannot compare with `nowhere...HEAD`"),
        (("--max-time", "x"), "must be a number of seconds"),
    ],
)
def test_what_cannot_be_is_one_sentence(user: User, base: str, arguments: tuple[str, ...], says: str) -> None:
    (user.project / "a.py").write_text("x\n")
    run = user.ebb("review", "-m", answering(user), *arguments, stdin="words")
    assert (run.code, run.out) == (2, "")
    assert says in run.err


def test_a_review_that_comes_to_no_end_writes_nothing(user: User, base: str, tmp_path: Path) -> None:
    flags = ("review", base, "--write", f"sarif={tmp_path / 'out'}", "-m")
    assert user.ebb(*flags, user.script({"error": "auth"})).code == 4
    assert user.ebb(*flags, user.script({"text": "fine"}, {"text": "fine"})).code == 8
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", ["text", "markdown", "json", "junit", "gitlab", "sarif"])
def test_a_finding_gives_the_runner_no_orders(form: str, user: User, base: str) -> None:
    orders = "::error::all is lost\n##[add-path]/tmp/evil"
    finding = {**FINDING, "message": orders, "title": orders}
    answer = {"summary": orders, "findings": [finding]}
    model = user.script({"text": json.dumps(answer)})
    run = user.ebb("review", base, "-m", model, "--format", form, env={"GITHUB_ACTIONS": "true"})
    assert run.code == 0
    assert [line for line in run.out.splitlines() if line.lstrip().startswith("::") or "##[" in line] == []


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_an_answer_gives_the_runner_no_orders(form: str, user: User) -> None:
    orders = "::set-env name=A::b\nsee ##[error]x"
    model = user.script({"text": orders})
    run = user.ebb("-p", "go", "-m", model, "--output-format", form, env={"GITHUB_ACTIONS": "true"})
    assert run.code == 0
    assert [line for line in run.out.splitlines() if line.lstrip().startswith("::") or "##[" in line] == []
    assert run.out == "\\::set-env name=A::b\nsee ##\\[error]x\n" if form == "text" else run.result["result"] == orders


def shell(user: User, script: str, variables: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """What a step does, where `ebb` is on the path, as the shell of the CI system runs it."""
    program = write_program(user.home / "bin" / "ebb", f'exec {shlex.join(command())} "$@"\n')
    env = environment(user.home, variables)
    env["PATH"] = f"{program.parent}:{env['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script], cwd=user.project, env=env,
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def step_of(name: str) -> dict[str, Any]:
    action = yaml.safe_load((ROOT / ".ci" / "review" / "action.yml").read_text())
    return next(step for step in action["runs"]["steps"] if step["name"] == name)


def filled_in(step: dict[str, Any], inputs: dict[str, str]) -> dict[str, str]:
    """The variables of a step, with what GitHub puts in their places."""
    return {name: inputs[value.removeprefix("${{ inputs.").removesuffix(" }}")] for name, value in step["env"].items()}


@pytest.mark.parametrize(("fail_on", "code"), [("never", 0), ("warning", 9)])
def test_the_step_of_the_action_annotates_and_hands_on(user: User, base: str, fail_on: str, code: int) -> None:
    step = step_of("Review")
    assert "${{" not in step["run"], "what a stranger wrote would be a part of the script"
    temp = user.home / "temp"
    temp.mkdir()
    files = {"RUNNER_TEMP": str(temp), "GITHUB_OUTPUT": f"{temp}/output", "GITHUB_STEP_SUMMARY": f"{temp}/summary"}
    inputs = {"model": answering(user), "base": base, "fail-on": fail_on, "max-cost": "2", "max-time": "900"}
    done = shell(user, step["run"], {**files, **filled_in(step, inputs)})
    assert (done.returncode, done.stderr) == (code, f"| ebb: {ATTACHED}\n")
    assert done.stdout == "::warning file=a.py,line=2,endLine=2,title=Wrong sum::It subtracts.\n"
    assert (temp / "output").read_text() == f"sarif={temp}/review.sarif\njunit={temp}/review.xml\n"
    assert "| warning | a.py:2 | **Wrong sum** It subtracts. |" in (temp / "summary").read_text()
    assert json.loads((temp / "review.sarif").read_text())["runs"][0]["results"][0]["level"] == "warning"
    assert ElementTree.parse(temp / "review.xml").getroot().get("failures") == "1"


def test_a_step_that_fails_says_why_and_no_line_of_it_is_a_command(user: User, base: str) -> None:
    step, temp = step_of("Review"), user.home
    files = {"RUNNER_TEMP": str(temp), "GITHUB_OUTPUT": f"{temp}/output", "GITHUB_STEP_SUMMARY": f"{temp}/summary"}
    inputs = {
        "model": user.script({"error": "auth"}),
        "base": base,
        "fail-on": "never",
        "max-cost": "2",
        "max-time": "9",
    }
    done = shell(user, step["run"], {**files, **filled_in(step, inputs)})
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr
    assert all(line.startswith("| ") for line in done.stderr.splitlines())
    assert not (temp / "output").exists()


def test_the_job_of_gitlab_leaves_its_reports(user: User, base: str) -> None:
    job = yaml.safe_load((ROOT / ".ci" / "review" / "gitlab.yml").read_text())["review"]
    variables = {
        **job["variables"],
        "EBB_MODEL": answering(user),
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": base,
        "REVIEW_PACKAGE": "",
    }
    done = shell(user, "\n".join([*job["before_script"], *job["script"]]), variables)
    assert (done.returncode, done.stdout.splitlines()[0], done.stderr) == (
        0, "It changes a sum.", f"ebb: {ATTACHED}\n",
    )  # fmt: skip
    reports = job["artifacts"]["reports"]
    assert ElementTree.parse(user.project / reports["junit"]).getroot().get("tests") == "1"
    assert json.loads((user.project / reports["codequality"]).read_text())[0]["location"]["path"] == "a.py"
    assert (user.project / job["artifacts"]["paths"][0]).exists()


def test_the_action_installs_a_package(user: User) -> None:
    step = step_of("Install")
    assert step["env"] == {"PACKAGE": "${{ inputs.package }}"}
    assert "${{" not in step["run"]
    done = subprocess.run(["bash", "-n", "-c", step["run"]], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_review_that_fails_says_why(user: User, base: str) -> None:
    run = user.ebb("review", base, "-m", user.script(*[{"text": "It looks fine."}] * 4))
    assert (run.code, run.out, "the review failed: the answer" in run.err) == (8, "", True), run.err
    run = user.ebb("review", base, "-m", user.script({"error": "auth"}))
    assert (run.code, run.out, "the review failed: " in run.err) == (4, "", True), run.err
