"""The examples of docs/scale.md, where what they need is installed."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.kit.commands import ROOT, command, environment
from tests.kit.files import write_files, write_program
from tests.kit.user import User

PAGE = (ROOT / "docs" / "scale.md").read_text("utf-8")


def example(section: str, language: str, number: int = 0) -> str:
    """A block of code under a heading."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    blocks: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return blocks[number]


def shell(user: User, script: str, home: str = "") -> "subprocess.CompletedProcess[str]":
    """What a script does where the tasks are. `home`: that of another machine."""
    program = write_program(user.home / "bin" / "ebb", f'exec {shlex.join(command())} "$@"\n')
    variables = {"EBB_MODEL": f"scripted/{user.home / 'script.json'}", **({"EBB_HOME": home} if home else {})}
    env = environment(user.home, variables)
    env["PATH"] = f"{program.parent}:{env['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=user.home, env=env, capture_output=True, text=True,
        check=False, stdin=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip


needs = pytest.mark.skipif(
    not (shutil.which("parallel") and shutil.which("jq") and shutil.which("split")),
    reason="GNU parallel, jq or split is not installed here",
)


@needs
def test_parts_of_a_batch_run_in_parallel_and_their_sessions_come_together(tmp_path: Path) -> None:
    user = User(tmp_path, "project")
    user.script({"text": "Done."})
    lines = (json.dumps({"id": f"t{number}", "prompt": f"do {number}"}) for number in range(6))
    (user.home / "tasks.jsonl").write_text("".join(f"{line}\n" for line in lines))
    done = shell(user, example("GNU parallel", "sh"))
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in (user.home / "results.jsonl").read_text().splitlines()]
    assert sorted(result["id"] for result in results) == [f"t{number}" for number in range(6)]
    assert {result["result"] for result in results} == {"Done."}

    exported = shell(user, example("One store", "sh"))
    assert exported.returncode == 0, exported.stderr
    other = str(tmp_path / "other")
    for _ in range(2):  # the second time nothing is new
        merged = shell(user, example("One store", "sh", 1), other)
        assert merged.returncode == 0, merged.stderr
    listed = shell(user, "ebb sessions list --all --json", other).stdout.splitlines()
    assert {json.loads(line)["id"] for line in listed} == {result["session"] for result in results}
    assert len(listed) == 6


@needs
def test_prompts_run_in_parallel(tmp_path: Path) -> None:
    user = User(tmp_path)
    user.script({"text": "Done."})
    write_files(tmp_path, ("src/a.py", "src/b.py"), "x = 1\n")
    (tmp_path / "out").mkdir()
    done = shell(user, example("GNU parallel", "sh", 1))
    assert done.returncode == 0, done.stderr
    assert [json.loads((tmp_path / f"out/{name}.json").read_text())["result"] for name in "ab"] == ["Done.", "Done."]


def test_the_other_examples_can_be_read() -> None:
    compile(example("Ray", "python"), "on_ray.py", "exec")
    assert yaml.safe_load(example("A matrix in CI", "yaml"))["strategy"]["matrix"]["part"] == ["00", "01", "02", "03"]
    done = subprocess.run(["sh", "-n", "-c", example("Slurm", "sh")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
