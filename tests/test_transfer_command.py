"""`ebb sessions export` and `import` as a user runs them: two homes, one file between them."""

import hashlib
import json
import sqlite3
import stat
import subprocess
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.kit.commands import Run, command, environment
from tests.kit.session import bash, call, calls
from tests.kit.user import User

Script = list[dict[str, Any]]

SHELL_KEY = "correct-horse-7-battery"
TABLES = ("sessions", "messages", "usage", "rewrites", "snapshots", "situation", "outputs", "summaries", "accesses")


COUNTED = {"usage": {"input": 10, "cache_read": 20, "cache_write": 30, "output": 40}}
WORK: Script = [
    {**calls(bash("seq 50000"), bash("echo short")), **COUNTED},
    {**calls(bash("head -c 100000 /dev/zero | tr '\\0' x; exit 3")), **COUNTED},
    {**calls(call("read_result", ref_id="r1", lines="40000-40001"), call("todo", items=[])), **COUNTED},
    {"text": "Done."},
]


class Owner(User):
    """Somebody with sessions."""

    def say(self, script: Script, *more: str) -> str:
        """The session in which a scripted model said that; its id."""
        answered = self.ask(*script, flags=("--permission-mode", "auto", *more))
        assert answered.code == 0, answered.err
        return str(answered.result["session"])

    def run(self, *arguments: str) -> Run:
        return self.ebb("sessions", *arguments)

    def everything(self, session: str) -> dict[str, list[dict[str, Any]]]:
        """All rows of a session by table, without the numbers that a database gives them."""
        with closing(sqlite3.connect(self.data / "sessions.db")) as db:
            db.row_factory = sqlite3.Row
            where = {table: "id" if table == "sessions" else "session" for table in TABLES}
            rows = {
                table: db.execute(f"select * from {table} where {where[table]} = ?", (session,)).fetchall()
                for table in TABLES
            }
        left_out = {"messages": {"id"}, "usage": {"id"}, "rewrites": {"id"}}
        return {
            table: [{key: row[key] for key in row.keys() if key not in left_out.get(table, ())} for row in found]  # noqa: SIM118  # a row is no mapping
            for table, found in rows.items()
        }

    def bytes_of(self, session: str, ref: str) -> bytes:
        """What a reference stands for, as `ebb` prints it."""
        done = subprocess.run(
            command("sessions", "show", session, ref, "-C", str(self.project)),
            env=environment(self.home), capture_output=True, timeout=120, check=True,
        )  # fmt: skip
        return done.stdout


@pytest.fixture
def here(tmp_path: Path) -> Owner:
    return Owner(tmp_path / "here")


@pytest.fixture
def there(tmp_path: Path) -> Owner:
    return Owner(tmp_path / "there")


def test_secrets_are_masked_in_a_file_for_others_and_outputs_keep_their_size(here: Owner, there: Owner) -> None:
    github, pem = (
        "ghp_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5",
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASCBKcwggSjkeyABC1\n-----END PRIVATE KEY-----",
    )
    (here.project / "notes.txt").write_text(pem)
    printed = (
        f"seq 99999; printf 'x%.0s' $(seq 262100); echo; cat notes.txt; echo; echo {github}; seq 9; echo {SHELL_KEY}"
    )
    script = [calls(bash(printed), call("read", path="notes.txt")), {"text": f"It is {github}."}]
    session = here.say(script)
    masked, raw = here.project.parent / "masked.zip", here.project.parent / "raw.zip"
    run = here.ebb("sessions", "export", session, str(masked), env={"API_TOKEN": SHELL_KEY})
    as_json = here.run("export", session, str(raw), "--raw", "--json")
    assert (run.code, as_json.result["masked"]) == (0, None)
    assert "secrets masked (a password that looks like an ordinary word is not recognised)" in run.out
    for secret in (github, "MIIEvQIBADANBgkq", "keyABC1", SHELL_KEY):
        assert secret.encode() in unpacked(raw)
        assert secret.encode() not in unpacked(masked)
    brought = there.run("import", str(masked), "--json").result["session"]
    mine, theirs = here.bytes_of(session, "r1"), there.bytes_of(brought, "r1")
    assert (len(mine), mine.count(b"\n")) == (len(theirs), theirs.count(b"\n"))
    assert theirs == mine.replace(github.encode(), b"*" * 40).replace(
        SHELL_KEY.encode(), b"*" * len(SHELL_KEY)
    ).replace(pem.encode(), "\n".join("*" * len(line) for line in pem.split("\n")).encode())


def unpacked(file: Path) -> bytes:
    """All that is in it."""
    with zipfile.ZipFile(file) as bundle:
        return b"".join(map(bundle.read, bundle.namelist()))


def exported(place: Owner, session: str, file: Path) -> Path:
    done = place.run("export", session, str(file))
    assert done.code == 0, done.err
    return file


def test_a_session_comes_back_with_the_same_rows_and_bytes_and_goes_on(
    here: Owner, there: Owner, tmp_path: Path
) -> None:
    session = here.say(WORK)
    file = exported(here, session[:6], tmp_path / "s.zip")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    done = there.run("import", str(file))
    assert (done.code, done.err, done.out) == (0, "", f"imported {session}  go\nResume: ebb -r {session}\n")
    before, after = here.everything(session), there.everything(session)
    # What a session was allowed where it was exported is not allowed here.
    assert (before["sessions"][0].pop("mode"), after["sessions"][0].pop("mode")) == ("auto", "ask")
    assert after == before
    again = exported(there, session, tmp_path / "again.zip")
    with zipfile.ZipFile(file) as one, zipfile.ZipFile(again) as other:
        assert other.namelist() == one.namelist()
        for name in set(one.namelist()) - {"manifest.json"}:
            assert other.read(name) == one.read(name)

    assert [row["number"] for row in before["outputs"]] == [1, 2, 3, 4, 5]
    for number in range(1, 6):
        assert there.bytes_of(session, f"r{number}") == here.bytes_of(session, f"r{number}")
    assert there.bytes_of(session, "r1") == b"".join(b"%d\n" % number for number in range(1, 50_001)) + b"exit code 0"

    went_on = there.say([calls(call("read_result", ref_id="r3", limit=5)), {"text": "Yes."}], "-r", session)
    assert went_on == session
    assert there.bytes_of(session, "r6") == b"xxxxx\n(bytes 0-5 of 100,012; continue at offset=5)"


def test_pictures_come_along_once_and_are_sound(here: Owner, there: Owner, tmp_path: Path) -> None:
    picture = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
    (here.project / "a.png").write_bytes(picture)
    look = call("read", path="a.png")
    session = here.say([calls(look, look), {"text": "Done."}])
    file = exported(here, session, tmp_path / "s.zip")
    digest = hashlib.sha256(picture).hexdigest()
    with zipfile.ZipFile(file) as opened:
        assert [name for name in opened.namelist() if name.startswith("blobs/")] == [f"blobs/{digest}"]
    assert there.run("import", str(file)).code == 0
    assert there.everything(session)["messages"] == here.everything(session)["messages"]
    assert there.say([calls(call("read_result", ref_id="r2")), {"text": "Yes."}], "-r", session) == session
    assert [there.bytes_of(session, ref) for ref in ("r1", "r2:tool-1", "r3")] == [picture] * 3
    checked = there.ebb("doctor", "--deep", "--json")
    broken = [one for one in checked.result["findings"] if one["state"] == "broken" and one["subject"] != "model"]
    assert broken == []
    (there.data / "blobs" / digest[:2] / digest).unlink()
    checked = there.ebb("doctor", "--json")
    assert f"{session}: the bytes of `r1`, `r2`, `r3` are gone" in [one["text"] for one in checked.result["findings"]]
    assert there.run("delete", session).code == 0
    assert list((there.data / "blobs").glob("??/*")) == []


def test_a_session_that_is_here_already_stays_as_it_is(here: Owner, tmp_path: Path) -> None:
    session = here.say(WORK)
    file = exported(here, session, tmp_path / "s.zip")
    before = here.everything(session)
    done = here.run("import", str(file))
    assert (done.code, done.out) == (0, f"{session} already exists; nothing imported\n")
    assert here.everything(session) == before
    assert here.query("select count(*) from sessions") == [(1,)]


def test_an_id_that_another_session_has_is_replaced_and_references_still_resolve(
    here: Owner, there: Owner, tmp_path: Path
) -> None:
    session = here.say(WORK)
    file = exported(here, session, tmp_path / "s.zip")
    other = there.say([{"text": "Another one."}])
    there.query("pragma foreign_keys = off")
    for table in TABLES:
        there.query(f"update {table} set {'id' if table == 'sessions' else 'session'} = ? ", session)
    done = there.run("import", "--json", str(file))
    assert done.code == 0
    new = done.result["session"]
    assert new not in (session, other)
    assert done.result == {
        "session": new, "title": "go", "messages": 8, "exported_id": session, "is_new": True,
    }  # fmt: skip
    assert there.query("select session, count(*) from messages group by session order by 2") == [(session, 2), (new, 8)]
    script = [calls(call("read_result", ref_id=f"ebb://app/{session}/r1", lines="7-7")), {"text": "Yes."}]
    assert there.say(script, "-r", new) == new
    assert there.bytes_of(new, "r6") == b"7\t7\n(lines 7-7 of 50,001)"


def test_a_file_is_never_replaced_unless_that_is_asked_for(here: Owner, tmp_path: Path) -> None:
    session = here.say([{"text": "Hi."}])
    file = tmp_path / "precious"
    file.write_text("precious")
    done = here.run("export", session, str(file))
    assert (done.code, done.err) == (
        2, f"ebb: `{file}` already exists: choose another name, or replace it with --force\n",
    )  # fmt: skip
    assert file.read_text() == "precious"
    assert here.run("export", session, str(file), "--force").code == 0
    assert zipfile.is_zipfile(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    refused = here.run("export", session, str(tmp_path), "--force")
    assert (refused.code, refused.err) == (2, f"ebb: `{tmp_path}` is not a file: choose another name\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "precious"]


def test_what_cannot_be_exported_leaves_no_file(here: Owner, tmp_path: Path) -> None:
    done = here.run("export", "abcdef", str(tmp_path / "s.zip"))
    assert (done.code, done.err) == (2, "ebb: there is no session `abcdef`; `ebb sessions list` shows them\n")
    assert not (tmp_path / "s.zip").exists()
    session = here.say([{"text": "Hi."}])
    done = here.run("export", session, str(tmp_path / "no" / "folder.zip"))
    assert (done.code, done.err) == (2, f"ebb: cannot write `{tmp_path}/no/folder.zip`: No such file or directory\n")


def test_standard_output_takes_the_file_too(here: Owner, there: Owner, tmp_path: Path) -> None:
    session = here.say(WORK)
    piped = subprocess.run(
        command("sessions", "export", session, "-", "-C", str(here.project)),
        env=environment(here.home), capture_output=True, timeout=120, check=True,
    )  # fmt: skip
    assert piped.stderr == b""
    file = tmp_path / "piped.zip"
    file.write_bytes(piped.stdout)
    assert there.run("import", str(file)).code == 0
    assert there.bytes_of(session, "r1") == here.bytes_of(session, "r1")


def test_bytes_that_are_gone_are_told_and_left_out(here: Owner, there: Owner, tmp_path: Path) -> None:
    session = here.say(WORK)
    ((digest,),) = here.query("select digest from outputs where number = 1")
    (here.data / "blobs" / digest[:2] / digest).unlink()
    done = here.run("export", session, str(tmp_path / "s.zip"))
    notice = "ebb: the stored content of `r1` is missing, so it is not exported\n"
    assert (done.code, done.err) == (0, notice)
    assert there.run("import", str(tmp_path / "s.zip")).code == 0
    printed = there.run("show", session, "r1")
    assert (printed.code, printed.out) == (1, "")
    assert "`r1` was removed on" in printed.err
    assert there.bytes_of(session, "r3") == here.bytes_of(session, "r3")


def test_an_output_that_an_earlier_version_kept_in_a_file_comes_along_and_its_path_does_not(
    here: Owner, there: Owner, tmp_path: Path
) -> None:
    session = here.say(WORK)
    log = tmp_path / "old.log"
    log.write_text("all of it\n" * 3)
    ((id, body),) = here.query("select id, body from messages where position = 2")
    message = json.loads(body)
    message["parts"][1]["whole"] = str(log)
    here.query("update messages set body = ? where id = ?", json.dumps(message), id)
    file = exported(here, session, tmp_path / "s.zip")
    log.unlink()
    assert there.run("import", str(file)).code == 0
    assert there.bytes_of(session, "r2") == b"all of it\n" * 3
    assert str(log) not in str(there.everything(session)["messages"])


def test_what_is_no_session_is_refused_in_one_sentence(there: Owner, tmp_path: Path) -> None:
    file = tmp_path / "bad.zip"
    file.write_bytes(b"hello")
    done = there.run("import", str(file))
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert done.err.startswith(f"ebb: `{file}` is not an exported session, or only a part of one")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.zip", "there"]
    missing = there.run("import", str(tmp_path / "none.zip"))
    assert (missing.code, missing.err) == (2, f"ebb: cannot read `{tmp_path}/none.zip`: No such file or directory\n")
    folder = there.run("import", str(tmp_path))
    assert (folder.code, folder.err) == (2, f"ebb: cannot read `{tmp_path}`: Is a directory\n")
