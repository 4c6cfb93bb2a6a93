"""The system text, from real files."""

from datetime import date
from pathlib import Path

from agent.instructions import MAX_BYTES, instruction_files, load_instructions

TODAY = date(2026, 1, 2)


def test_files_go_from_the_user_s_to_the_innermost_and_one_a_folder(tmp_path: Path) -> None:
    user, project, inner = tmp_path / "user", tmp_path / "project", tmp_path / "project" / "a" / "b"
    user.mkdir()
    inner.mkdir(parents=True)
    for path in (user / "AGENTS.md", project / "AGENT.md", project / "AGENTS.md", inner / "AGENTS.md"):
        path.write_text(f"from {path.name}")
    (tmp_path / "AGENT.md").write_text("outside the project")
    assert instruction_files(inner, project, user) == (user / "AGENTS.md", project / "AGENT.md", inner / "AGENTS.md")


def test_the_text_names_each_file_and_the_place(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("Use tabs.\n")
    instructions = load_instructions(tmp_path, tmp_path, tmp_path / "none", TODAY)
    assert instructions.project == f"# Instructions from {tmp_path / 'AGENT.md'}\n\nUse tabs."
    assert instructions.environment.splitlines()[0] == f"Working folder: {tmp_path} (not in a git work tree)"
    assert instructions.environment.splitlines()[-1] == "Date: 2026-01-02"
    assert instructions.text.startswith("You are Ebbtide")


def test_a_file_that_is_too_long_or_not_readable_says_so(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("x" * (MAX_BYTES + 1))
    instructions = load_instructions(tmp_path, tmp_path, tmp_path / "none", TODAY)
    assert instructions.project.endswith(f"x\n\n[only the first {MAX_BYTES} bytes of this file are shown]")


def test_the_same_day_gives_the_same_bytes(tmp_path: Path) -> None:
    first = load_instructions(tmp_path, tmp_path, tmp_path, TODAY)
    assert first.text == load_instructions(tmp_path, tmp_path, tmp_path, TODAY).text
