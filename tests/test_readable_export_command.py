"""`ebb sessions export` in forms to be read, as a user runs it."""

import json
import re
import stat
import zipfile
from pathlib import Path

import pytest

from tests.kit.session import bash, call, calls
from tests.kit.user import User

KEY = "correct-horse-7-battery"


def session_of(user: User) -> str:
    run = user.ask(calls(bash(f"echo '<b>{KEY}</b>'; seq 30000")), {"text": "It says **so**."}, flags=(
        "--permission-mode", "auto",
    ))  # fmt: skip
    return str(run.result["session"])


def test_a_session_is_written_into_a_file_or_to_standard_output(user: User, tmp_path: Path) -> None:
    session = session_of(user)
    user.ebb("sessions", "tag", session, "parser")
    env = {"DEPLOY_TOKEN": KEY}
    page = tmp_path / "talk.html"
    run = user.ebb("sessions", "export", session[:5], "-o", str(page), env=env)
    assert (run.code, run.err) == (0, "")
    assert run.out == f"wrote 4 messages of {session} to {page}; recognised keys and passwords are masked\n"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    text = page.read_text()
    assert ("&lt;b&gt;***&lt;/b&gt;" in text, KEY in text, "<strong>so</strong>" in text) == (True, False, True)
    assert ("#parser" in text, "All of it, " in text) == (True, True)
    printed = user.ebb("sessions", "export", session, "--format", "html", env=env)
    assert (printed.code, printed.out, printed.err) == (0, text, "")
    piped = json.loads(user.ebb("sessions", "export", session, "-", "--format", "json", env=env).out)
    assert (len(piped["messages"]), len(piped["requests"]), piped["session"]["tags"]) == (4, 2, ["parser"])
    exported = user.ebb("sessions", "export", session, str(tmp_path / "a.md"), "--raw", "--json")
    assert exported.result == {
        "session": session, "title": "go", "messages": 4, "problems": "", "format": "md",
        "file": str(tmp_path / "a.md"),
    }  # fmt: skip
    assert KEY in (tmp_path / "a.md").read_text()


def test_what_agents_did_stands_in_the_page_and_is_linked_from_their_calls(user: User) -> None:
    (user.project / "notes.txt").write_text(f"the word is {KEY}\n")
    sent = [call("task", agent="explore", prompt=f"look {place} <i>") for place in ("here", "there")]
    asked = {"text": "I ask.", **calls(*sent)}
    read = calls(call("read", path="notes.txt"))
    run = user.ask(asked, read, {"text": "It is **there**."}, {"text": "Nothing."}, {"text": "Found."})
    assert run.code == 0, run.err
    session = str(run.result["session"])
    env = {"DEPLOY_TOKEN": KEY}
    page = user.ebb("sessions", "export", session, "--format", "html", env=env).out
    places = re.findall(r'<details class="agent" id="(agent-[0-9a-f]{12})"><summary><b>Agent explore</b>', page)
    links = re.findall(r'What it did: <a href="#(agent-[0-9a-f]{12})">explore</a>', page)
    assert (len(set(places)), sorted(links)) == (2, sorted(places))
    first, second = page.split('<details class="agent"')[1:]
    assert (KEY in page, "look here &lt;i&gt;" in first, "look there &lt;i&gt;" in second) == (False, True, True)
    ids = re.findall(r'id="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    exported = json.loads(user.ebb("sessions", "export", session, "--format", "json", env=env).out)
    prompts = [(one["agent"], one["messages"][0]["parts"][0]["text"]) for one in exported["agents"]]
    assert prompts == [("explore", "look here <i>"), ("explore", "look there <i>")]
    assert [f"agent-{one['session']['id']}" for one in exported["agents"]] == places


def test_a_file_that_is_there_stays_and_what_cannot_be_meant_is_said(user: User, tmp_path: Path) -> None:
    session = session_of(user)
    (page := tmp_path / "talk.html").write_text("mine")
    run = user.ebb("sessions", "export", session, str(page))
    assert (run.code, run.err) == (
        2, f"ebb: `{page}` already exists: choose another name, or replace it with --force\n",
    )  # fmt: skip
    assert page.read_text() == "mine"
    assert user.ebb("sessions", "export", session, str(page), "--force").code == 0
    assert page.read_text().startswith("<!doctype html>")
    for arguments, message in (
        ((session, "--format", "html", "--json"), "name one with -o"),
        ((session, "a.html", "-o", "b.html"), "give the file once"),
        ((session, "--format", "pdf"), "invalid choice"),
        (("zzzz", "--format", "md"), "there is no session `zzzz`"),
        ((session, "-o", str(tmp_path / "none" / "a.html")), "cannot write"),
    ):
        run = user.ebb("sessions", "export", *arguments)
        assert (run.code, message in run.err, run.out) == (2, True, ""), arguments
    assert not [*tmp_path.glob("*.part")]


def test_a_damaged_message_is_told_of_and_the_others_are_written(user: User) -> None:
    session = session_of(user)
    user.query("update messages set body = '{' where session = ? and position = 1", session)
    run = user.ebb("sessions", "export", session, "--format", "md")
    assert (run.code, "cannot be read" in run.err, "It says **so**." in run.out) == (0, True, True)


SECRET_LINES = {
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCY9secret": "aws_secret_access_key={}",
    "correcthorse": 'password = "{}"',
    "hunter2hunter2": "DB_PASSWORD: {}",
    "p4ssw0rd!x": "postgres://app:{}@db.example:5432/app",
    "s3cr3tPW": "curl -u admin:{} https://ci.example/api",
    "plainwordpw": "curl --user 'admin:{}' https://ci.example/api",
    "sesameopen": "sshpass -p {} ssh host",
    "rootpw12": "mysql -h db -u root -p{} app",
    "abc.def-ghi_123": "Authorization: Bearer {}",
    "k9a8b7c6d5": "https://api.example/v1?access_token={}&page=1",
    "anotherword": "vault login --token={}",
}
"""Secrets, and how they stand in commands, files and addresses."""


@pytest.mark.parametrize("form", ["zip", "html", "json", "md"])
def test_one_masking_holds_for_all_formats(form: str, user: User, tmp_path: Path) -> None:
    lines = [line.format(secret) for secret, line in SECRET_LINES.items()]
    (user.project / "secrets.txt").write_text("\n".join(lines) + "\n")
    looks = [bash(f": {line}; cat secrets.txt; seq 3000") for line in lines]
    run = user.ask({"text": "; ".join(lines), **calls(*looks)}, {"text": "Done."}, flags=("--permission-mode", "auto"))
    session = str(run.result["session"])
    file = tmp_path / f"session.{form}"
    assert user.ebb("sessions", "export", session, str(file)).code == 0
    if form == "zip":
        with zipfile.ZipFile(file) as bundle:
            content = b"\n".join(bundle.read(name) for name in bundle.namelist()).decode("utf-8", "replace")
    else:
        content = file.read_text()
    assert [secret for secret in SECRET_LINES if secret in content] == []
    assert ("db.example:5432" in content, "ci.example/api" in content) == (True, True)
