"""Variables that direnv sets reach commands if they look like no secret; output names those that a command lacked."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ebbtide.tools.base import Workspace
from ebbtide.tools.process.shell import child_environment
from ebbtide.tools.process.user_variables import withheld_direnv_variables, withheld_variables_note
from tests.kit.files import write_file
from tests.tools.test_bash import bash


@pytest.fixture
def exported(tmp_path: Path) -> dict[str, str]:
    """The environment that the real direnv makes of a folder's `.envrc`."""
    direnv = shutil.which("direnv")
    if direnv is None:
        pytest.skip("there is no direnv")
    lines = ("APP_MODE=dev", "DB_HOST=db.local:5432", "PGDATABASE='my db'", "STRIPE=sk_live_x1Y2z3A4b5C6d7E8f9G0")
    secret = ("ADMIN_PASSWORD=hunter22", "DSN=postgres://me:word@db/x", "HASH=0123456789abcdef0123", "BASH_ENV=/x")
    folder = tmp_path / "project"
    write_file(folder / ".envrc", "".join(f"export {line}\n" for line in (*lines, *secret)))
    base = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "NOT_OF_DIRENV": "x"}
    subprocess.run([direnv, "allow"], cwd=folder, env=base, check=True, capture_output=True)
    made = subprocess.run(
        [direnv, "exec", str(folder), "env", "-0"], cwd=folder, env=base, check=True, capture_output=True, text=True
    )
    return dict(line.split("=", 1) for line in made.stdout.split("\0") if "=" in line)


def test_what_direnv_has_set_reaches_commands_if_it_looks_like_no_secret(exported: dict[str, str]) -> None:
    passed = child_environment(exported)
    names = ("APP_MODE", "DB_HOST", "PGDATABASE", "NOT_OF_DIRENV", "DIRENV_DIFF")
    assert {name: passed.get(name) for name in names} == {
        "APP_MODE": "dev",
        "DB_HOST": "db.local:5432",
        "PGDATABASE": "my db",
        "NOT_OF_DIRENV": None,
        "DIRENV_DIFF": None,
    }
    withheld = withheld_direnv_variables(exported, passed)
    assert sorted(withheld) == ["ADMIN_PASSWORD", "BASH_ENV", "DSN", "HASH", "STRIPE"]


@pytest.mark.parametrize("record", ["", "x", "eJw", "====", "eJyrVipTslJQqgUADLkCVQ=="])
def test_a_damaged_record_of_direnv_sets_nothing(record: str) -> None:
    assert "APP" not in child_environment({"DIRENV_DIFF": record, "APP": "x"})


async def test_a_command_that_names_a_withheld_variable_is_told_so(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_DATABASE", "x")
    note = (
        "`MY_DATABASE` is set in the user's environment but not for commands: the user can pass it with"
        " `EBB_PASS_ENV='MY_DATABASE'`"
    )
    result = await bash(workspace, "echo db=$MY_DATABASE")
    assert result.text == f"db=\nexit code 0\n{note}"
    result = await bash(workspace, 'python3 -c \'import os; os.environ["MY_" + "DATABASE"]\'')
    assert result.text.endswith(f"exit code 1\n{note}")
    result = await bash(workspace, "MY_DATABASE=here; echo db=$MY_DATABASE")
    assert result.text == "db=here\nexit code 0"
    monkeypatch.setenv("EBB_PASS_ENV", "MY_DATABASE")
    result = await bash(workspace, "echo db=$MY_DATABASE")
    assert result.text == "db=x\nexit code 0"


@pytest.mark.parametrize(
    ("command", "is_used"),
    [
        ("psql $A_B", True),
        ("psql ${A_B:-x}", True),
        ("printenv A_B", True),
        ("node -e 'console.log(process.env.A_B)'", True),
        ("python3 -c 'import os; print(os.environ[\"A_B\"])'", True),
        ("python3 -c 'import os; print(os.environ.get(\"A_B\"))'", True),
        ("ruby -e 'puts ENV[\"A_B\"]'", True),
        ("grep -rn A_B src", False),
        ("A_B=1 make; echo $A_B", False),
        ("echo $A_BC", False),
    ],
)
def test_a_command_that_only_searches_for_the_name_uses_no_value(command: str, is_used: bool) -> None:
    assert bool(withheld_variables_note(command, "", ("A_B",))) == is_used


def test_a_note_names_few_variables_and_only_whole_names() -> None:
    names = ("A_B", "C_D", "E_F", "G_H", "I_J")
    assert withheld_variables_note("echo $A_BC XA_B", "", names) == ""
    note = withheld_variables_note("echo $A_B $C_D ${E_F} $G_H $I_J", "", names)
    assert note.endswith("with `EBB_PASS_ENV='A_B C_D E_F G_H'`")
