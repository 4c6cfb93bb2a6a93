"""Which language servers a project may use."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ebbtide.agent.config.load import load_config
from ebbtide.agent.extensions.trust import ProjectTrust
from ebbtide.agent.integrations.lsp.server_detection import find_servers, language_server_trust_items
from ebbtide.agent.integrations.lsp.session_language_servers import SessionLanguageServers
from tests.kit.files import write_program


class Place:
    """A project, and a folder of the user's programs."""

    def __init__(self, home: Path) -> None:
        self.home, self.project, self.bin = home, home / "app", home / "bin"
        self.project.mkdir()
        self.bin.mkdir()
        self.environment: Mapping[str, str] = {
            "EBB_HOME": str(home),
            "PATH": f"{self.bin}:node_modules/.bin:{self.project}/.venv/bin",
        }
        self.flags: tuple[str, ...] = ("agent.sandbox=off",)

    def found(self) -> list[tuple[str, str, str]]:
        config = load_config(self.project, self.environment, {}, self.flags)
        servers = find_servers(config, self.project, self.environment)
        return [(one.spec.name, one.spec.command[0].removeprefix(f"{self.home}/"), one.state) for one in servers]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path.resolve())


def test_the_user_s_programs_run(place: Place) -> None:
    for name in ("ruff", "gopls", "pyright-langserver"):
        write_program(place.bin / name)
    assert place.found() == [
        ("pyright", "bin/pyright-langserver", "on"),
        ("ruff", "bin/ruff", "on"),
        ("gopls", "bin/gopls", "on"),
    ]
    write_program(place.bin / "basedpyright-langserver")
    assert [name for name, _, _ in place.found()] == ["basedpyright", "ruff", "gopls"]


def test_a_project_s_program_runs_once_it_is_approved_and_as_long_as_it_is_the_same(place: Place) -> None:
    own = write_program(place.project / ".venv/bin/ruff")
    assert place.found() == [("ruff", "app/.venv/bin/ruff", "not approved")]
    write_program(place.bin / "ruff")
    assert place.found() == [("ruff", "bin/ruff", "on")]
    (place.bin / "ruff").unlink()
    config = load_config(place.project, place.environment, {}, place.flags)
    assert language_server_trust_items(config, place.project, place.environment, {".go"}) == ()
    items = language_server_trust_items(config, place.project, place.environment, {".py"})
    assert [(item.name, item.details) for item in items] == [("ruff (language server)", ("runs `.venv/bin/ruff`",))]
    ProjectTrust(config).decide(items, "approved")
    write_program(place.bin / "ruff")
    assert place.found() == [("ruff", "app/.venv/bin/ruff", "on")]
    own.write_text("#!/bin/sh\ncurl example.org\n")
    assert place.found() == [("ruff", "bin/ruff", "on")]


def test_a_link_to_a_project_s_program_is_the_project_s(place: Place) -> None:
    write_program(place.project / "tools/gopls")
    (place.bin / "gopls").symlink_to(place.project / "tools/gopls")
    assert place.found() == []


def test_what_runs_the_project_s_code_needs_trust_where_no_sandbox_holds_it(place: Place) -> None:
    write_program(place.bin / "rust-analyzer")
    assert place.found() == [("rust-analyzer", "bin/rust-analyzer", "not approved")]


def test_typescript_is_its_own_server_since_its_seventh_version(place: Place) -> None:
    package = place.home / "lib" / "node_modules" / "typescript"
    (place.bin / "tsc").symlink_to(write_program(package / "bin" / "tsc"))
    write_program(place.bin / "typescript-language-server")
    place.flags = ("agent.sandbox=off", "lsp.servers.typescript-language-server.enabled=false")
    other = ("typescript-language-server", "bin/typescript-language-server", "off")
    for version in (
        None,
        '{"name": "typescript", "version": "5.9.3"}',
        "{broken",
        "[" * 20_000,
        "[]",
        '{"name": "other"}',
    ):
        if version is not None:
            (package / "package.json").write_text(version)
        assert place.found() == [other]
    (package / "package.json").write_text('{"name": "typescript", "version": "7.0.2"}')
    assert place.found() == [("typescript", "bin/tsc", "on")]


def test_the_user_names_others_and_leaves_some_out(place: Place) -> None:
    write_program(place.bin / "ruff")
    mine = str(write_program(place.bin / "my-server"))
    place.flags = (
        *place.flags,
        "lsp.servers.ruff.enabled=false",
        f'lsp.servers.mine.command=["{mine}", "--stdio"]',
        'lsp.servers.mine.extensions=["txt", ".MD"]',
        "lsp.servers.mine.settings={a = {b = 1}}",
    )
    assert place.found() == [("mine", "bin/my-server", "on"), ("ruff", "bin/ruff", "off")]
    config = load_config(place.project, place.environment, {}, place.flags)
    spec = find_servers(config, place.project, place.environment)[0].spec
    assert (spec.command, spec.extensions, spec.settings) == ((mine, "--stdio"), (".txt", ".md"), {"a": {"b": 1}})


@pytest.mark.parametrize(("enabled", "state"), [("true", "on"), ("false", "off")])
def test_a_known_server_with_another_program_handles_its_usual_files(place: Place, enabled: str, state: str) -> None:
    own = write_program(place.home / "opt" / "my-pyright")
    place.flags = (f'lsp.servers.pyright.command=["{own}"]', f"lsp.servers.pyright.enabled={enabled}")
    assert place.found() == [("pyright", "opt/my-pyright", state)]
    config = load_config(place.project, place.environment, {}, (*place.flags, "lsp.enabled=true"))
    languages = SessionLanguageServers(config, place.project, None, place.environment)
    assert languages.is_available_for({".py"}) == (state == "on")
    assert not languages.is_available_for({".go"})
