"""Package managers in a real sandbox use the user's registries and see no password: with the real npm and pip, and a
registry on this machine."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.tools.base import Workspace
from ebbtide.tools.sandbox import mount_paths, sandbox
from ebbtide.tools.sandbox.boundary import Boundary
from ebbtide.tools.sandbox.system import SandboxProgram, landlock_problem
from ebbtide.tools.secrets.registry_settings import copy_without_secrets
from tests.kit.files import write_file
from tests.kit.web_server import Answer, QuietHandler, web_server
from tests.tools.sandbox.test_sandbox import bash, boxed, home, place, pytestmark

__all__ = ["boxed", "home", "place", "pytestmark"]

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm")
TOKEN = "npm_" + "aB3" * 12


@pytest.fixture(autouse=True)
def one_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mount_paths, "_user_database_home", lambda: home)
    for name in list(os.environ):
        if name.casefold().startswith(("npm_", "pip_", "http_proxy", "https_proxy", "all_proxy")):
            monkeypatch.delenv(name)


class Registry:
    """A registry with one package, which records each request."""

    def __init__(self) -> None:
        self.asked = list[tuple[str, str]]()
        """Path and `Authorization` of each request."""
        self.refuses, self.url = False, ""

    def answer(self, request: QuietHandler) -> Answer:
        self.asked.append((request.path, request.headers.get("Authorization", "")))
        versions = {"4.5.6": {"name": "left", "version": "4.5.6"}}
        body = {"name": "left", "dist-tags": {"latest": "4.5.6"}, "versions": versions}
        return 401 if self.refuses else 200, json.dumps(body).encode()


@pytest.fixture
def registry() -> Iterator[Registry]:
    registry = Registry()
    with web_server(registry.answer) as registry.url:
        yield registry


@needs_npm
async def test_npm_asks_the_registry_of_the_users_settings(boxed: Workspace, home: Path, registry: Registry) -> None:
    (home / ".npmrc").write_text(f"; mine\nregistry={registry.url}/own/\nfund=false\n")
    result = await bash(boxed, "npm view left version")
    assert result.text == "4.5.6\nexit code 0"
    assert [path for path, _ in registry.asked] == ["/own/left"]


@needs_npm
async def test_npm_asks_the_same_registry_without_the_token_and_this_is_reported(
    boxed: Workspace, home: Path, registry: Registry
) -> None:
    host, registry.refuses = registry.url.removeprefix("http:"), True
    settings = home / ".npmrc"
    settings.write_text(
        f"registry={registry.url}/own/\n{host}/own/:_authToken={TOKEN}\n@me:registry={registry.url}/me\n"
    )
    result = await bash(boxed, f"grep -c . {settings}; cat {settings}; npm view left version")
    assert f"2\nregistry={registry.url}/own/\n@me:registry={registry.url}/me\n" in result.text
    assert TOKEN not in result.text
    assert result.sandbox_block == f"it sees `{settings}` without the passwords or tokens in it"
    assert registry.asked == [("/own/left", "")]


@needs_npm
async def test_npm_takes_settings_from_another_file_and_from_variables(
    boxed: Workspace, place: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = place / "npm-settings"
    other.write_text(f"registry={registry.url}/file\n_auth=c2VjcmV0\n")
    monkeypatch.setenv("NPM_CONFIG_USERCONFIG", str(other))
    await bash(boxed, "npm view left version")
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", f"{registry.url}/variable")
    monkeypatch.setenv("npm_config_prefix", "/opt/mine")
    result = await bash(boxed, "npm view left version; npm config get prefix; cat $NPM_CONFIG_USERCONFIG")
    assert result.text == f"4.5.6\n/opt/mine\nregistry={registry.url}/file\nexit code 0"
    assert [path for path, _ in registry.asked] == ["/file/left", "/variable/left"]


@needs_npm
async def test_settings_cannot_be_written(boxed: Workspace, home: Path) -> None:
    (home / ".npmrc").write_text("registry=http://127.0.0.1:1/\n")
    result = await bash(boxed, "npm config set registry http://127.0.0.1:2/; echo x > ~/.npmrc")
    assert result.has_failed
    assert (home / ".npmrc").read_text() == "registry=http://127.0.0.1:1/\n"


@needs_npm
@pytest.mark.skipif(bool(landlock_problem()), reason="the kernel has no Landlock that could be tried")
async def test_npm_asks_the_same_registry_where_only_landlock_holds_it(
    boxed: Workspace, home: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "detect_sandbox", lambda: SandboxProgram("landlock", ()))
    (home / ".npmrc").write_text(f"registry={registry.url}/own/\n_authToken={TOKEN}\n")
    scratch = boxed.outputs_folder / "tmp"
    scratch.mkdir(parents=True)
    (scratch / ".npmrc").symlink_to(home / ".bashrc")
    result = await bash(boxed, "npm view left version; cat $npm_config_userconfig")
    assert result.text == f"4.5.6\nregistry={registry.url}/own/\nexit code 0"
    assert (home / ".bashrc").read_text() == "kept\n"


async def test_pip_uses_the_users_index_without_its_password(
    boxed: Workspace, home: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_password = registry.url.replace("http://", "http://me:p4ssword@")
    monkeypatch.setenv("PIP_INDEX_URL", f"{with_password}/simple")
    pip = f"{sys.executable} -m pip"
    result = await bash(boxed, f"{pip} download --no-deps left; echo $PIP_INDEX_URL")
    assert f"{registry.url}/simple\n" in result.text
    assert "p4ssword" not in result.text
    assert registry.asked[0] == ("/simple/left/", "")
    monkeypatch.delenv("PIP_INDEX_URL")
    write_file(home / ".config" / "pip" / "pip.conf", f"[global]\nindex-url = {registry.url}/conf\n")
    await bash(boxed, f"{pip} download --no-deps left")
    assert registry.asked[-1] == ("/conf/left/", "")


async def test_other_settings_are_seen_only_if_they_hold_no_secret(boxed: Workspace, home: Path) -> None:
    (home / ".yarnrc.yml").write_text('npmRegistryServer: "https://npm.example.org"\n')
    (home / ".wgetrc").write_text("http_password = x\n")
    result = await bash(boxed, "cat ~/.yarnrc.yml ~/.wgetrc")
    assert result.text == 'npmRegistryServer: "https://npm.example.org"\nexit code 0'


@pytest.mark.parametrize(
    "line",
    [
        f"//npm.example.org/:_authToken={TOKEN}",
        "//npm.example.org/:_authToken=${NPM_TOKEN}",
        "//npm.example.org/:_password=cGFzc3dvcmQ=",
        "//npm.example.org/:username=me",
        "_auth = bWU6cGFzc3dvcmQ=",
        "email=me@example.org",
        "cert=-----BEGIN CERTIFICATE-----",
        "//npm.example.org/:keyfile=/home/me/client.key",
        "odd = dGhpc0lzQSBTZWNyZXQ4OTA3NjU0",
    ],
)
def test_no_line_of_npms_settings_that_may_be_secret_is_copied(line: str) -> None:
    copy = copy_without_secrets(".npmrc", f"registry=https://r.example.org/\n{line}\nprefix=/home/me/.npm-global\n")
    assert copy is not None
    assert (copy.text, copy.is_complete) == ("registry=https://r.example.org/\nprefix=/home/me/.npm-global\n", False)


def test_an_address_of_npms_settings_is_copied_without_its_password() -> None:
    copy = copy_without_secrets(".npmrc", "registry=https://me:p@ss@r.example.org/x/\nproxy = http://u:v@proxy:3128\n")
    assert copy is not None
    assert copy.text == "registry=https://r.example.org/x/\nproxy = http://proxy:3128\n"


def test_a_boundary_without_such_files_has_no_copies() -> None:
    assert Boundary({}, "/scratch", "none").settings_copies == {}
