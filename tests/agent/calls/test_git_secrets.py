"""A password in the address of a remote is hidden from the model however it looks at Git's settings."""

from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.events.session import ToolFinished, ToolProgress
from ebbtide.tools.secrets.git_passwords import find_git_passwords
from tests.agent.calls.test_secret_arguments import asked_of
from tests.kit.mcp_project import McpProject, say
from tests.kit.session import call

PASSWORD, WORD, TOKEN = "hunter2-Pw", "summer", "x1Y2z3A4b5C6d7E8f9G0"
HEADER = "eC1hY2Nlc3MtdG9rZW46eDFZMnozQTRi"


@pytest.fixture
def project(tmp_path: Path) -> McpProject:
    """A project with remotes as `git clone https://me:PASSWORD@…` and `actions/checkout` leave them."""
    project = McpProject(tmp_path)
    for words in (
        ("init", "-q"),
        ("remote", "add", "origin", f"https://me:{PASSWORD}@git.example.org/a.git"),
        ("remote", "add", "word", f"https://me:{WORD}@git.example.org/b.git"),
        ("remote", "add", "token", f"https://{TOKEN}@git.example.org/c.git"),
        ("config", "http.https://git.example.org/.extraheader", f"AUTHORIZATION: basic {HEADER}"),
        ("config", f"url.https://me:{PASSWORD}2@git.example.org/.insteadOf", "mine:"),
    ):
        project.git(*words)
    return project


LOOKS = (
    "git remote -v",
    "git config --get remote.origin.url; git config remote.word.url; git config --get-all remote.token.url",
    "git remote get-url word",
    "grep -r url .git",
    "rg --hidden url . || true",
    "cat .git/config | tail -n 30",
    "git config -l",
    "git ls-remote --get-url origin",
    "base64 -w0 .git/config",
)


async def test_no_look_shows_a_password_of_a_remote(project: McpProject) -> None:
    steps: list[dict[str, Any]] = [{"calls": [call("bash", command=line)]} for line in LOOKS]
    steps += [{"calls": [call("read", path=".git/config")]}, {"calls": [call("grep", pattern="url", path=".git")]}]
    session = await project.open(*steps, {"text": "done"})
    events = await say(session, "look")
    outputs = [repr(event) for event in events if isinstance(event, ToolFinished | ToolProgress)]
    everything = "\n".join((asked_of(session), *outputs))
    assert "git.example.org/a.git" in everything
    found = [secret for secret in (PASSWORD, f":{WORD}@", TOKEN, HEADER) if secret in everything]
    assert found == []


async def test_a_password_that_the_user_adds_meanwhile_is_hidden_too(project: McpProject) -> None:
    look: dict[str, Any] = {"calls": [call("bash", command="git remote get-url late")]}
    session = await project.open(look, {"text": "one"}, look, {"text": "two"})
    await say(session, "look")
    address = "https://me:lat3r-Pass@git.example.org/late.git"
    project.git("remote", "add", "late", address)
    await say(session, "again")
    assert ("git.example.org/late.git" in asked_of(session), "lat3r-Pass" in asked_of(session)) == (True, False)


async def test_what_the_user_quotes_of_it_is_hidden_as_well(project: McpProject) -> None:
    session = await project.open({"text": "done"})
    await say(session, f"the remote is https://me:{PASSWORD}@git.example.org/a.git")
    assert PASSWORD not in asked_of(session)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("url = https://git.example.org:8080/a@b.git", set()),
        ("url = git@git.example.org:a.git", set()),
        ("url = https://me@git.example.org/a", set()),
        ("url = https://me:p%40ss-Word1@h/a", {"p%40ss-Word1", "p@ss-Word1"}),
        ("url = https://me:abc@h/a", {"//me:abc@"}),
        ("extraheader = Authorization: Bearer abcdefgh", {"abcdefgh"}),
    ],
)
def test_what_counts_as_a_password_in_settings(text: str, found: set[str]) -> None:
    assert set(find_git_passwords(text)) == found
