"""Patches that a model hands to a shell."""

from pathlib import Path
from shlex import quote

import pytest

from ebbtide.agent.calls.shell_patch import (
    MAX_PARSED_COMMAND_CHARS,
    NOT_A_PROGRAM_ERROR,
    RUN_AS_PATCH_NOTE,
    patch_in_command,
)
from ebbtide.tools.base import ToolError
from tests.kit.project import Project
from tests.kit.session import call, events_of, outputs_of

PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two $HOME `x`\n*** End Patch"
QUOTES = '*** Begin Patch\n*** Update File: a.txt\n@@\n-print("it\'s $HOME \\ `x`")\n+two\n*** End Patch'
FED = f"apply_patch <<EOF\n{PATCH}\nEOF"


@pytest.mark.parametrize(
    "command",
    [
        FED,
        f"apply_patch <<'EOF'\n{PATCH}\nEOF\n",
        f'applypatch <<-"PATCH"\n{PATCH}\nPATCH',
        f"cat <<'EOF' | apply_patch\n{PATCH}\nEOF",
        f"apply_patch '{PATCH}'",
        f"bash -lc {quote(FED)}",
    ],
)
def test_a_command_that_only_patches_is_a_patch(command: str) -> None:
    assert patch_in_command({"command": command}) == PATCH


@pytest.mark.parametrize(
    ("command", "workdir", "path"),
    [
        (f"cd src && apply_patch <<'EOF'\n{PATCH}\nEOF", "", "src/a.txt"),
        (f'cd "a b" && {FED}', "", "a b/a.txt"),
        (f"cd '$a'; {FED}", "", "$a/a.txt"),
        (f"cd 'a b'; apply_patch <<'EOF'\n{PATCH}\nEOF", "lib", "lib/a b/a.txt"),
        (f"apply_patch <<'EOF'\n{PATCH}\nEOF", "/tmp/x", "/tmp/x/a.txt"),
    ],
)
def test_its_files_are_named_from_the_folder_in_which_it_would_have_run(command: str, workdir: str, path: str) -> None:
    assert patch_in_command({"command": command, "workdir": workdir}) == PATCH.replace("a.txt", path)


@pytest.mark.parametrize(
    "command",
    [
        f"apply_patch <<'EOF'\n{PATCH}\nEOF\nrm -rf build",
        f"apply_patch <<'EOF' && make\n{PATCH}\nEOF",
        f"apply_patch <<'EOF'\n{PATCH}\nEOF\napply_patch <<'EOF'\n{PATCH}\nEOF",
        f"apply_patch <<'EOF'\n{PATCH}",
        f'apply_patch "{PATCH}"',
        f"apply_patch '{PATCH}{'+' * MAX_PARSED_COMMAND_CHARS}'",
        f"apply_patch '{PATCH}';ls",
        f"apply_patch '{PATCH}'\"$HOME\"",
        f'cd "$HOME/proj" && {FED}',
        f'cd "`pwd`/proj" && {FED}',
        f'cd "a\\b" && {FED}',
        f"cd - && {FED}",
        f"cd foo\\ && {FED}",
    ],
)
def test_what_does_more_than_patch_is_refused_with_what_to_do(command: str) -> None:
    with pytest.raises(ToolError) as refusal:
        patch_in_command({"command": command})
    assert str(refusal.value) == NOT_A_PROGRAM_ERROR


@pytest.mark.parametrize("quoted", [quote(QUOTES), "'" + QUOTES.replace("'", r"'\''") + "'"])
def test_quotes_in_a_patch_are_those_of_the_patch(quoted: str) -> None:
    assert patch_in_command({"command": f"apply_patch {quoted}"}) == QUOTES


@pytest.mark.parametrize("command", ["ls", f"cat > notes.md <<'EOF'\n{PATCH}\nEOF", f"echo apply_patch '{PATCH}'"])
def test_a_command_that_speaks_of_patches_stays_one(command: str) -> None:
    assert patch_in_command({"command": command}) is None


async def test_it_is_asked_about_and_done_as_a_change_of_files(tmp_path: Path) -> None:
    work = call("bash", command=f"apply_patch <<'EOF'\n{PATCH}\nEOF")
    async with Project(tmp_path) as project:
        (project.root / "a.txt").write_text("one\n")
        denied = await project.session({"calls": [work]}, {"text": "ok"}, mode="ask")
        await events_of(denied)
        assert [output.status for output in outputs_of(denied)] == ["denied"]
        assert (project.root / "a.txt").read_text() == "one\n"
        done = await project.session(
            {"calls": [call("read", path="a.txt")]}, {"calls": [work]}, {"text": "ok"}, mode="accept-edits"
        )
        await events_of(done)
        assert [output.status for output in outputs_of(done)] == ["done", "done"]
        assert RUN_AS_PATCH_NOTE in outputs_of(done)[1].text
        assert (project.root / "a.txt").read_text() == "two $HOME `x`\n"
