"""Which files are asked about in every mode, since something will obey them unasked."""

import pytest

from ebbtide.tools.files.autorun import autorun_reason, find_autorun_file

ROOT = "/w/.claude/worktrees/a.git"


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit", "sub/.git", "bare.git/hooks/post-update", ".gitmodules", "a/.gitattributes",
        ".husky/pre-push", "lefthook.yml", ".lefthook-local.toml", ".pre-commit-config.yaml", "../../home/.bashrc",
        ".envrc", ".zed/tasks.json", ".vscode/tasks.json", "x.code-workspace", ".idea/workspace.xml",
        ".devcontainer/devcontainer.json", ".github/workflows/ci.yml", ".github/actions/a/action.yml",
        ".gitlab-ci.yml", "Jenkinsfile", ".circleci/config.yml", "AGENT.md", "AGENTS.md", "docs/CLAUDE.md",
        "GEMINI.md", ".claude/settings.json", ".cursor/mcp.json", ".mcp.json", ".github/copilot-instructions.md",
        ".ebb/config.toml", "package.json", "a/composer.json", ".npmrc", ".cargo/config.toml", "sitecustomize.py",
        "src/evil.pth", "conftest.py", "src/conftest.py", ".config/git/config", "rust-toolchain.toml", "AGENTS.MD",
        ".GIT/config", ".Git\u200b/config", "package.json.", ".git ./config", ".git::$INDEX_ALLOCATION/config",
        "GIT~1/config", ".GITHUB/Workflows/ci.yml", "\u212aEEP/.vscode/x", "cl\u0061ude.md",
        "crush.json", ".crush/x", "CRUSH.md", ".vibe/config.toml", ".roorules", ".roorules-code",
        ".clinerules-code/a.md", ".aider.model.settings.yml", ".iflow/settings.json", ".venv/bin/python",
        "a/venv/bin/activate",
        "node_modules/.bin/eslint",
    ],
)  # fmt: skip
def test_what_something_obeys_by_itself_has_a_reason(path: str) -> None:
    place = f"{ROOT}/{path}" if not path.startswith("..") else "/home/.bashrc"
    assert autorun_reason(place, ROOT)


@pytest.mark.parametrize(
    "path",
    [
        "src/a.py", "Makefile", "setup.py", "tests/conftest.py", "pkg/tests/unit/conftest.py", "README.md",
        ".gitignore", ".github/ISSUE_TEMPLATE.md", "docs/agents.rst", ".config/app.toml", "config.toml",
        "mypackage.json", "git/config", "a.gitx", "lefthook/x", "package.jsonc", "...", "src/profile",
        "node_modules/a/index.js", ".venv/lib/a.py", "bin/run", "roorules-x",
    ],
)  # fmt: skip
def test_what_runs_because_somebody_says_so_has_none(path: str) -> None:
    assert autorun_reason(f"{ROOT}/{path}", ROOT) == ""


def test_where_the_working_folder_lies_does_not_count() -> None:
    assert autorun_reason(f"{ROOT}/a.py", ROOT) == ""
    assert autorun_reason("/w/.claude/worktrees/a.gitb/a.py", ROOT)  # beside it: `.claude` counts


def test_the_first_such_file_is_named_with_its_reason() -> None:
    found = find_autorun_file((f"{ROOT}/a.py", f"{ROOT}/.envrc", f"{ROOT}/.git/x"), ROOT)
    assert found == (f"{ROOT}/.envrc", "a shell runs it when it starts")
    assert find_autorun_file((), ROOT) is None
