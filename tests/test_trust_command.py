"""`ebb trust` as a user runs it."""

import json
from pathlib import Path

import pytest

from tests.kit.commands import Run, ebb
from tests.kit.files import write_files, write_program


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    hook = {"type": "command", "command": "true"}
    write_files(
        folder,
        {
            ".git/HEAD": "",
            ".claude/skills/deploy/SKILL.md": "---\ndescription: Deploys.\n---\nDo it.\n",
            ".claude/commands/look.md": "Look: !`ls`\n",
            ".claude/agents/bad.md": "---\nname: bad\n---\n",
            ".claude/settings.json": json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}}),
            ".mcp.json": json.dumps({"mcpServers": {"forge": {"command": "forge"}, "off": {}}}),
        },
    )
    return folder


def test_what_a_project_brings_is_listed_approved_refused_and_forgotten(project: Path, tmp_path: Path) -> None:
    def trust(*arguments: str) -> Run:
        return ebb("-C", str(project), "trust", *arguments, home=tmp_path)

    def standings() -> dict[str, str]:
        return {row["name"]: row["standing"] for row in trust("--json").result["brings"]}

    brings = ("skill:deploy", "command:look", "hook:.claude/settings.json", "server:forge")
    assert standings() == dict.fromkeys(brings, "not approved")
    listed = trust()
    assert listed.out.splitlines()[1] == f"not approved  {'command:look':<28}  .claude/commands/look.md"
    assert listed.err.splitlines()[0] == "ebb: the agent `.claude/agents/bad.md` is skipped: it has no description"
    asked = trust("approve")
    assert (asked.code, "  runs: ls\n" in asked.out) == (2, True)
    assert asked.err.endswith("ebb: nothing approved; confirm in a terminal, or use `--yes`\n")
    assert trust("approve", "skill:deploy", "command:look", "--yes").code == 0
    assert trust("refuse", "server:forge").code == 0
    (project / ".claude/commands/look.md").write_text("Look: !`rm x`\n")
    (project / ".claude/skills/deploy/SKILL.md").unlink()
    stands = {
        "command:look": "changed", "hook:.claude/settings.json": "not approved", "server:forge": "refused",
        "skill:deploy": "approved",
    }  # fmt: skip
    assert standings() == stands
    assert trust("forget", "server:none").err.endswith(
        "ebb: `server:none` is not listed; write KIND:NAME as in `ebb trust`\n"
    )
    assert trust("forget").code == 0
    assert standings() == dict.fromkeys(brings[1:], "not approved")


def test_programs_of_the_folder_are_listed_where_it_is_named_in_another_way(project: Path, tmp_path: Path) -> None:
    program = write_program(project / ".venv/bin/basedpyright-langserver")
    (project / "a.py").touch()
    (tmp_path / "link").symlink_to(project)
    on = {"EBB_LSP_ENABLED": "true"}
    for folder in ("link", "project/../link"):
        (found,) = (
            row["source"]
            for row in ebb("-C", str(tmp_path / folder), "trust", "--json", home=tmp_path, env=on).result["brings"]
            if row["name"] == "server:basedpyright (language server)"
        )
        assert found == str(program)
