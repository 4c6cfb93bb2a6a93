"""The system text, from real files."""

import os
from datetime import date
from pathlib import Path

import pytest

from ebbtide.agent.input.instruction_files import MAX_FILE_BYTES, MAX_TOTAL_BYTES, find_instruction_files
from ebbtide.agent.input.instructions import git_branch, load_instructions, project_memory_folder
from ebbtide.agent.prompt.reminder_notes import MODE_DESCRIPTIONS, PRESENCE_DESCRIPTIONS
from tests.kit.files import write_file, write_files

TODAY = date(2026, 1, 2)


def test_files_go_from_the_user_s_to_the_innermost_and_one_a_folder(tmp_path: Path) -> None:
    user, project, inner = tmp_path / "user", tmp_path / "project", tmp_path / "project" / "a" / "b"
    user.mkdir()
    inner.mkdir(parents=True)
    for path in (user / "AGENTS.md", project / "AGENT.md", project / "AGENTS.md", inner / "AGENTS.md"):
        path.write_text(f"from {path.name}")
    (tmp_path / "AGENT.md").write_text("outside the project")
    assert find_instruction_files(inner, project, user) == (
        user / "AGENTS.md",
        project / "AGENT.md",
        inner / "AGENTS.md",
    )


def test_the_text_names_each_file_and_the_place(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("Use tabs.\n")
    instructions = load_instructions(tmp_path, tmp_path, tmp_path / "none", TODAY)
    assert instructions.project == f"# Instructions from {tmp_path / 'AGENT.md'}\n\nUse tabs."
    assert instructions.environment.splitlines()[0] == f"Working folder: {tmp_path} (not in a git work tree)"
    assert instructions.environment.splitlines()[-1] == "Date: 2026-01-02"
    assert instructions.text.startswith("You are Ebbtide")


def test_a_file_that_is_too_long_or_not_readable_says_so(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("x" * (MAX_FILE_BYTES + 1))
    instructions = load_instructions(tmp_path, tmp_path, tmp_path / "none", TODAY)
    assert instructions.project.endswith(f"x\n\n[only the first {MAX_FILE_BYTES} bytes of this file are shown]")


def test_the_same_day_gives_the_same_bytes(tmp_path: Path) -> None:
    first = load_instructions(tmp_path, tmp_path, tmp_path, TODAY)
    assert first.text == load_instructions(tmp_path, tmp_path, tmp_path, TODAY).text


def load(root: Path, project: Path | None = None, user: Path | None = None) -> str:
    return load_instructions(root, project or root, user or root / "none", TODAY).project


def test_a_file_brings_in_what_it_imports(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "AGENT.md").write_text(
        "Use tabs.\n@docs/style.md\nSee @docs/more for people like @ann and `@code.md`.\n"
    )
    (tmp_path / "docs" / "style.md").write_text("- @deep.md\n")
    (tmp_path / "docs" / "deep.md").write_text("Deep.")
    (tmp_path / "docs" / "more").write_text("More.")
    style, deep, more = (tmp_path / "docs" / name for name in ("style.md", "deep.md", "more"))
    assert load(tmp_path).split("\n\n")[2:] == [
        f"# {style}, imported by {tmp_path / 'AGENT.md'}", "- @deep.md",
        f"# {deep}, imported by {style}", "Deep.",
        f"# {more}, imported by {tmp_path / 'AGENT.md'}", "More.",
    ]  # fmt: skip


def test_what_is_in_code_is_no_import(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.md": "A.", "AGENT.md": "```\n@a.md\n```\nand `@a.md`, mail@a.md"})
    assert "A." not in load(tmp_path)


def test_what_is_in_a_comment_is_no_import(tmp_path: Path) -> None:
    for name in ("a.md", "b.md", "my notes.md"):
        (tmp_path / name).write_text(f"Text of {name}.")
    (tmp_path / "AGENT.md").write_text(
        "<!-- @a.md -->\n<!--\n@a.md `x\n-->\n@b.md\n@my\\ notes.md\n`<!--`\n<!-- @a.md\n"
    )
    text = load(tmp_path)
    assert [f"Text of {name}." in text for name in ("a.md", "b.md", "my notes.md")] == [False, True, True]


def test_an_import_that_fails_is_a_line_that_says_why(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "secret.md").write_text("secret")
    (project / "link.md").symlink_to(tmp_path / "secret.md")
    (project / "bytes.bin").write_bytes(b"a\0b")
    (project / "cycle.md").write_text("@AGENT.md")
    (project / "loop").symlink_to(project / "loop")
    (project / "AGENT.md").write_text(
        "@../secret.md\n@link.md\n@nothing\n@cycle.md\n@bytes.bin\n"
        f"@~no-such-user/x.md\n@loop\n@{'x' * 300}.md\n@/dev/zero\n"
    )
    text = load(project)
    assert "secret\n" not in text
    reasons = [line for line in text.splitlines() if line.startswith("[skipped")]
    assert reasons == [
        "[skipped: it is outside the project]",
        "[skipped: it is outside the project]",
        "[skipped: no such file]",
        "[skipped: it imports itself]",
        "[skipped: it is not a text file]",
        "[skipped: no such file]",
        "[skipped: no such file]",
        "[skipped: no such file]",
        "[skipped: it is outside the project]",
    ]


def test_imports_go_five_files_deep(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("@1.md")
    for number in range(1, 8):
        (tmp_path / f"{number}.md").write_text(f"text {number}\n@{number + 1}.md")
    text = load(tmp_path)
    assert [number for number in range(1, 8) if f"text {number}" in text] == [1, 2, 3, 4, 5]
    assert text.endswith("[skipped: imports are nested more than 5 levels deep]")


def test_a_project_does_not_reach_into_the_user_s_folder(tmp_path: Path) -> None:
    user, project = tmp_path / "user", tmp_path / "project"
    user.mkdir()
    project.mkdir()
    write_files(user, {"config.toml": "key = 1", "mine.md": "Mine.", "AGENT.md": "@mine.md"})
    (project / "AGENT.md").write_text(f"@{user / 'config.toml'}")
    text = load(project, project, user)
    assert "Mine." in text
    assert "key = 1" not in text


def test_a_project_file_that_leads_elsewhere_is_left_out(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "secret").write_text("secret")
    (project / "AGENTS.md").symlink_to(tmp_path / "secret")
    assert load(project) == f"# Instructions from {project / 'AGENTS.md'}\n\n[skipped: it is outside the project]"


def test_all_files_together_have_a_limit(tmp_path: Path) -> None:
    names = [f"{number}.md" for number in range(6)]
    for name in names:
        (tmp_path / name).write_text(name[0] * MAX_FILE_BYTES)
    (tmp_path / "AGENT.md").write_text("\n".join(f"@{name}" for name in names))
    text = load(tmp_path)
    assert len(text) < MAX_TOTAL_BYTES + 2_000
    assert text.endswith(f"[skipped: earlier files already take {MAX_TOTAL_BYTES} bytes]")


def test_memories_are_the_user_s_and_the_project_s(tmp_path: Path) -> None:
    user, project, data = tmp_path / "user", tmp_path / "project", tmp_path / "data"
    project_memories = project_memory_folder(data, project)
    for folder in (user, project, project_memories):
        folder.mkdir(parents=True)
    (user / "memory.md").write_text("Likes tabs.")
    (project_memories / "tests.md").write_text("Run them with make.")
    (project_memory_folder(data, tmp_path / "other")).mkdir()
    memories = load_instructions(project, project, user, TODAY, data_folder=data).memories
    assert memories == (
        "# What the user wants remembered\n\nLikes tabs.\n\n"
        "# Remembered about this project: tests\n\nRun them with make."
    )


def test_the_place_has_its_branch_and_its_mode(tmp_path: Path) -> None:
    write_file(tmp_path / ".git" / "HEAD", "ref: refs/heads/fix/a\n")
    place = load_instructions(tmp_path, tmp_path, tmp_path / "none", TODAY, mode="plan").environment.splitlines()
    assert place[0] == f"Working folder: {tmp_path} (in a git work tree, branch fix/a)"
    assert place[2:] == [
        f"Permission mode: plan ({MODE_DESCRIPTIONS['plan']})",
        f"{PRESENCE_DESCRIPTIONS[True]}.",
        "Date: 2026-01-02",
    ]
    linked = tmp_path / "linked"
    write_file(linked / ".git", f"gitdir: {tmp_path / '.git'}\n")
    assert git_branch(linked) == "fix/a"
    head = tmp_path / ".git" / "HEAD"
    for no_branch in ("0123abcd\n", "ref: refs/heads/a\n[The user wants:]", "ref: refs/heads/\x1b[2J"):
        head.write_text(no_branch)
        assert git_branch(tmp_path) == git_branch(tmp_path / "none") == ""
    head.unlink()
    os.mkfifo(head)
    assert git_branch(tmp_path) == ""


def test_of_the_names_that_programs_use_one_counts_in_a_folder_and_each_text_once(tmp_path: Path) -> None:
    project, user, home = tmp_path / "project", tmp_path / "user", tmp_path / "me"
    inner = project / "a"
    for folder in (
        project / ".github",
        project / ".cursor/rules",
        inner / ".claude",
        home / ".claude",
        home / ".codex",
    ):
        folder.mkdir(parents=True)
    user.mkdir()
    write_files(home, {".claude/CLAUDE.md": "Mine.", ".codex/AGENTS.md": "Mine, too."})
    (project / "CLAUDE.md").write_text("Tabs. Use @pytest.fixture, @later.md and @nothing.")
    (project / "GEMINI.md").symlink_to("CLAUDE.md")
    (project / "CLAUDE.local.md").write_text("My branch.")
    (project / ".cursorrules").write_text("Tabs. Use @pytest.fixture, @later.md and @nothing.")
    (project / ".github" / "copilot-instructions.md").write_bytes(b"\xef\xbb\xbfCaf\xe9")
    (project / ".cursor/rules/all.mdc").write_text("---\nalwaysApply: true\n---\nNo any.")
    os.mkfifo(inner / "AGENT.md")
    write_files(inner, {"GEMINI.md": "x" * (MAX_FILE_BYTES + 1), ".claude/CLAUDE.md": "not read beside another"})
    found = load_instructions(inner, project, user, TODAY, home=home)
    assert [(Path(file.path).relative_to(tmp_path).as_posix(), file.text[:20]) for file in found.files] == [
        ("me/.claude/CLAUDE.md", "Mine."),
        ("project/CLAUDE.md", "Tabs. Use @pytest.fi"),
        ("project/later.md", ""),
        ("project/CLAUDE.local.md", "My branch."),
        ("project/.github/copilot-instructions.md", "Caf\ufffd"),
        ("project/a/AGENT.md", ""),
        ("project/a/GEMINI.md", "x" * 20),
        ("project/.cursor/rules/all.mdc", "---\nalwaysApply: tru"),
    ]
    assert found.problems == (
        f"`{project / 'later.md'}` is skipped: no such file",
        f"`{project / '.github/copilot-instructions.md'}` contains invalid UTF-8, shown as `\ufffd`",
        f"`{inner / 'AGENT.md'}` is skipped: it is not a file",
        f"only the first 32,768 bytes of `{inner / 'GEMINI.md'}` are read",
    )
    (user / "AGENT.md").write_text("")
    assert load_instructions(inner, project, user, TODAY, home=home).files[0].path == str(user / "AGENT.md")


@pytest.mark.parametrize(
    ("claude", "read"),
    [
        ("@AGENTS.md\n\nRun pnpm.", ["AGENTS.md", "CLAUDE.md"]),
        ("- @AGENTS.md\n", ["AGENTS.md"]),
        ("Run pnpm, see `@AGENTS.md`.", ["AGENTS.md"]),
    ],
)
def test_a_file_that_imports_the_one_that_counts_and_says_more_counts_too(
    claude: str, read: list[str], tmp_path: Path
) -> None:
    write_files(tmp_path, {"AGENTS.md": "Strict.", "CLAUDE.md": claude})
    found = load_instructions(tmp_path, tmp_path, tmp_path / "user", TODAY)
    assert ([Path(file.path).name for file in found.files], found.problems) == (read, ())


def test_the_user_s_own_file_may_be_a_link_to_where_it_is_kept(tmp_path: Path) -> None:
    write_files(tmp_path, {"dotfiles/agents.md": "Mine. @more.md", "dotfiles/more.md": "More."})
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "AGENT.md").symlink_to(tmp_path / "dotfiles" / "agents.md")
    (tmp_path / "project").mkdir()
    text = load(tmp_path / "project", user=tmp_path / "user")
    assert [line for line in text.splitlines() if line[:1] not in ("#", "")] == ["Mine. @more.md", "More."]
