"""Which outputs show files as they no longer are."""

import pytest

from ebbtide.agent.compaction.stale_outputs import find_stale_outputs
from ebbtide.agent.messages import Assistant, Conversation, Message, OutputStatus, Text, ToolCall, ToolOutput, User

FOUND = "src/a.py\n12:def one\n\nsrc/b.py\n3:one()"
GREP_FOUND = "src/a.py:12:def one\nsrc/b.py-2-\nsrc/b.py:3:one()"


def is_stale(
    shown: tuple[str, str, str], later: tuple[str, str], text: str = "x", status: OutputStatus = "done"
) -> bool:
    """Whether the output of the first call is stale after the second one."""
    name, argument, value = shown
    later_name, later_value = later
    later_argument = {"bash": "command", "apply_patch": "patch"}.get(later_name, "path")
    messages: tuple[Message, ...] = (
        User((Text("Go."),)),
        Assistant((ToolCall("c1", name, {argument: value}),)),
        User((ToolOutput("c1", text),)),
        Assistant((ToolCall("c2", later_name, {later_argument: later_value}),)),
        User((ToolOutput("c2", "ok", status),)),
    )
    return find_stale_outputs(Conversation(messages)) == {"r1"}


READ, CAT = ("read", "path", "src/a.py"), ("bash", "command", "cat src/a.py")


@pytest.mark.parametrize("shown", [READ, CAT])
@pytest.mark.parametrize(
    "later",
    [
        ("edit", "./src/a.py"),
        ("edit", "/home/me/project/src/a.py"),
        ("write", "src/a.py"),
        ("apply_patch", "*** Begin Patch\n*** Update File: src/a.py\n*** End Patch"),
        ("read", "src/a.py"),
        ("bash", "sed -i s/x/y/ src/a.py"),
        ("bash", "bash -lc \"sed -i 's/x/y/' src/a.py\""),
        ("bash", "cat > src/a.py <<'END'\nx\nEND"),
        ("bash", "mv src/a.py src/b.py"),
        ("bash", "cd src && echo x >> a.py"),
        ("bash", "python3 - <<'END'\nfrom pathlib import Path\nPath('src/a.py').write_text('x')\nEND"),
        ("bash", "git checkout -- ."),
        ("bash", "git -C . stash"),
    ],
)
def test_a_file_that_was_changed_later(shown: tuple[str, str, str], later: tuple[str, str]) -> None:
    assert is_stale(shown, later)


@pytest.mark.parametrize("shown", [READ, CAT])
@pytest.mark.parametrize(
    "later",
    [
        ("edit", "src/b.py"),
        ("edit", "src/aa.py"),
        ("apply_patch", "*** Begin Patch\n*** Update File: nowhere.py\n*** End Patch"),
        ("bash", "sed -n 1,9p src/b.py"),
        ("bash", "sed -i s/x/y/ src/b.py"),
        ("bash", "python src/a.py 2>/dev/null"),
        ("bash", "git status; git diff"),
        ("bash", "git commit -qm 'Merge and restore'"),
        ("bash", "git stash list; git checkout -b other"),
        ("bash", "make"),
    ],
)
def test_a_file_that_no_call_has_changed(shown: tuple[str, str, str], later: tuple[str, str]) -> None:
    assert not is_stale(shown, later)


def test_a_change_that_failed_or_was_not_allowed_is_none() -> None:
    assert not is_stale(READ, ("edit", "src/a.py"), status="failed")
    assert not is_stale(CAT, ("bash", "sed -i s/x/y/ src/a.py"), status="denied")
    assert is_stale(CAT, ("bash", "sed -i s/x/y/ src/a.py && make"), status="failed")


def test_parts_of_a_file_that_a_command_shows_one_after_the_other_are_all_current() -> None:
    assert not is_stale(("bash", "command", "sed -n 1,80p src/a.py"), ("bash", "sed -n 80,160p src/a.py"))


@pytest.mark.parametrize(
    "command",
    [
        "cd src && cat a.py",
        "cat src/*.py",
        "cat < src/a.py",
        "for f in src/*.py; do cat $f; done",
        "find src -name '*.py' | xargs cat",
        "bash -lc 'cat src/a.py'",
        "git diff",
        "git diff HEAD -- src",
    ],
)
def test_every_way_in_which_a_command_names_what_it_shows(command: str) -> None:
    assert is_stale(("bash", "command", command), ("edit", "src/a.py"))


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (("grep", "pattern", "one"), FOUND),
        (("grep", "pattern", "one"), GREP_FOUND),
        (("bash", "command", "grep -rn one ."), "./" + GREP_FOUND),
        (("bash", "command", "rg one src"), FOUND),
    ],
)
def test_matches_are_stale_once_one_of_their_files_was_changed(shown: tuple[str, str, str], text: str) -> None:
    assert is_stale(shown, ("edit", "src/a.py"), text)
    assert is_stale(shown, ("bash", "sed -i s/x/y/ src/b.py"), text)
    assert not is_stale(shown, ("edit", "src/c.py"), text)
    assert not is_stale(shown, ("edit", "def"), text)
