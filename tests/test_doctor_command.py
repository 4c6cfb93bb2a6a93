"""`ebb doctor` as a user runs it, on real homes: sound ones, and ones that something has happened to."""

import base64
import json
import os
import sqlite3
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from ebbtide.tools.files.private_folder import create_private_folder
from ebbtide.tui.integrations.doctor.subcommand import CheckProgress
from tests.kit.commands import Run, ebb
from tests.kit.files import write_file
from tests.kit.user import Worker
from tests.kit.word_vectors import model_in

SEEN = "others can list `{}` (mode {}); they cannot read its files"


class House(Worker):
    """A home in which a session was left."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.left = self.session("seq 50000", "seq 60000")
        self.model = f"scripted/{home / 'script.json'}"

    def run(self, *arguments: str, **env: str) -> Run:
        return self.ebb(*arguments, "-m", self.model, env=env)

    def doctor(self, *arguments: str, **env: str) -> dict[str, Any]:
        """What it found, without what is well; the exit code agrees."""
        done = self.run("doctor", "--json", *arguments, **env)
        assert done.err == ""
        found = done.result
        assert done.code == (0 if found["well"] else 1)
        return {
            f"{one['state']} {one['subject']}": (one["text"], one["advice"])
            for one in found["findings"]
            if one["state"] != "well" and one["subject"] != "keys"
        }

    def configure(self, text: str) -> None:
        write_file(self.home / "config" / "config.toml", text)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_a_sound_home_is_well(house: House) -> None:
    done = house.run("doctor", OPENAI_API_KEY="sk-secret-1")
    assert (done.code, done.err) == (0, "")
    assert "sk-secret" not in done.out
    subjects = (
        "configuration",
        "keys",
        "model",
        "sandbox",
        "certificates",
        "terminal",
        "folders",
        "store",
        "references",
        "stored",
    )
    assert [line.split(maxsplit=2)[:2] for line in done.out.splitlines()] == [["ok", subject] for subject in subjects]
    assert "found in OPENAI_API_KEY\n" in done.out
    assert "all 2 in 1 session resolve; `--deep` reads every byte\n" in done.out
    assert house.doctor("--deep") == {}


def test_a_home_in_which_nothing_was_said_is_well(tmp_path: Path) -> None:
    done = ebb("doctor", "-m", "ollama/qwen3", "-C", str(tmp_path), home=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "no sessions yet" in done.out
    assert not (tmp_path / "data").exists()


def test_without_a_model_or_its_key_something_is_broken(house: House) -> None:
    done = house.ebb("doctor", "--json")
    (broken,) = [one for one in done.result["findings"] if one["state"] == "broken"]
    assert (done.code, broken["subject"]) == (1, "model")
    assert broken["text"].startswith("no model is set")
    keyless = house.ebb("doctor", "-m", "anthropic/claude-sonnet-5-5")
    assert keyless.code == 1
    assert "BAD   model           there is no key for anthropic: type `/key anthropic` in a session, run" in keyless.out


def test_a_configuration_that_cannot_be_read_is_told_and_the_rest_is_looked_at(house: House) -> None:
    house.configure("[agent\n")
    done = house.run("doctor")
    assert (done.code, done.err) == (1, "")
    assert f"BAD   configuration   cannot read `{house.home}/config/config.toml`" in done.out
    assert "ok    references      all 2 in 1 session resolve" in done.out


def test_bytes_that_are_gone_are_found(house: House) -> None:
    house.blob(house.left, 1).unlink()
    house.blob(house.left, 2).unlink()
    assert house.doctor() == {
        "broken session": (
            f"{house.left}: the bytes of `r1`, `r2` are gone", "run the calls again if they are needed",
        )
    }  # fmt: skip


def test_bytes_that_have_changed_are_found_by_reading_them(house: House) -> None:
    blob = house.blob(house.left, 2)
    data = bytearray(blob.read_bytes())
    data[len(data) // 2] ^= 0xFF
    blob.write_bytes(data)
    assert house.doctor() == {}
    assert house.doctor("--deep") == {
        "broken session": (
            f"{house.left}: the bytes of `r2` are damaged", "run the calls again if they are needed",
        )
    }  # fmt: skip


def test_bytes_that_went_by_their_age_are_no_fault(house: House) -> None:
    empty_view = json.dumps({"start": 6, "summary": "Work was done.", "anchor": None, "anchored": 0})
    house.query("update snapshots set body = ?", empty_view)
    house.run("sessions", "--config", "archive.max_bytes=1")
    assert list((house.data / "blobs").glob("??/*")) == []
    assert house.doctor("--deep") == {}


def test_an_output_in_view_without_its_row_is_found(house: House) -> None:
    house.query("delete from outputs where number = 2")
    assert house.doctor() == {
        "broken session": (f"{house.left}: `r2` in its context refer to nothing", "compact the session to continue"),
        "note stored outputs": (
            "1 not needed by any session (0.1 MB)",
            "they are removed within a day of use, or when a session is deleted",
        ),
    }  # fmt: skip


def test_a_message_that_is_gone_or_cannot_be_read_is_found(house: House) -> None:
    house.query("update messages set body = '{' where position = 3")
    ((text, advice),) = house.doctor().values()
    assert text.startswith(f"{house.left}: message 3 of the session cannot be read")
    assert advice == "resuming the session shows a placeholder for what cannot be read"
    house.query("delete from messages where position = 3")
    assert house.doctor() == {
        "broken session": (f"{house.left}: some of its messages are missing", "restore the database from a backup")
    }


def test_a_snapshot_and_a_summary_that_cannot_be_read_are_found(house: House) -> None:
    house.query("update snapshots set body = 'x'")
    house.query("insert into summaries values (?, 1, 0, 'x', 1.0)", house.left)
    found = house.doctor()
    assert found["note session"] == (f"{house.left}: its snapshot cannot be read", "it can be resumed without it")
    assert found["broken session"][0].startswith(f"{house.left}: summary 1 of the session cannot be read")


def test_bytes_that_nobody_needs_are_noted(house: House) -> None:
    house.query("delete from outputs")
    house.query("delete from messages")
    house.query("delete from snapshots")
    left = house.data / "blobs" / "incoming" / "left.part"
    left.write_bytes(b"x")
    os.utime(left, (1.0, 1.0))
    (house.data / "outputs" / "abcdefabcdef").mkdir(parents=True)
    done = house.run("doctor")
    assert (done.code, done.err) == (0, "")
    notes = [line for line in done.out.splitlines() if line.startswith("note  stored")]
    assert notes == [
        "note  stored outputs  2 not needed by any session (0.2 MB): they are removed within a day of use, or when a "
        "session is deleted",
        "note  stored outputs  1 left unfinished by killed programs: they are removed within a day of use",
        f"note  stored outputs  1 folders in `{house.data}/outputs` belong to no session: remove them if no program is "
        "running",
    ]


@pytest.mark.parametrize(
    ("mode", "inside", "state", "text"),
    [
        (
            0o755,
            0o600,
            "note",
            SEEN.format("{0}", 755),
        ),
        (0o755, 0o644, "broken", "others can read `{0}/context.jsonl`, since `{0}` has mode 755"),
        (
            0o744,
            0o644,
            "note",
            SEEN.format("{0}", 744),
        ),
        (0o777, 0o600, "broken", "others can create files in `{0}` (mode 777)"),
    ],
)
def test_folders_that_others_may_look_into_are_told_by_what_they_find(
    house: House, mode: int, inside: int, state: str, text: str
) -> None:
    logs = house.home / "logs"
    write_file(logs / "context.jsonl")
    (logs / "context.jsonl").chmod(inside)
    logs.chmod(mode)
    assert house.doctor() == {f"{state} folders": (text.format(logs), f"run `chmod 700 {logs}`")}
    logs.chmod(0o700)
    assert house.doctor() == {}


def test_a_folder_that_cannot_be_looked_at_is_told_and_ends_nothing(house: House) -> None:
    place = f"/{'x' * 300}"  # as one behind a folder of another user, which root gets into
    found = house.doctor(EBB_HOME=place)
    assert found["broken folders"] == (f"cannot access `{place}/data`: File name too long", "")


def test_folders_that_are_made_with_one_in_them_are_the_users_alone(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        create_private_folder(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(old)
    assert [oct((tmp_path / each).stat().st_mode)[-3:] for each in ("a", "a/b", "a/b/c")] == ["700"] * 3
    (tmp_path / "file").touch()
    for under in ("file", "file/b"):
        with pytest.raises(OSError, match=r"file"):
            create_private_folder(tmp_path / under)


def test_a_database_of_a_newer_version_and_one_that_is_none(house: House) -> None:
    database = house.data / "sessions.db"
    house.query("pragma user_version = 999")
    ((text, advice),) = house.doctor().values()
    assert text.startswith(f"`{database}` has schema 999; this version supports up to ")
    assert advice == "update this program"
    database.write_bytes(b"not a database" * 1000)
    assert house.doctor() == {
        "broken store": (
            f"the session database `{database}` is not a session database; "
            "`ebb doctor --repair` saves what can be read",
            "",
        )
    }  # fmt: skip


def test_damage_inside_the_database_is_found(house: House) -> None:
    database = house.data / "sessions.db"
    house.query("vacuum")
    db = sqlite3.connect(database)
    page = db.execute("select rootpage from sqlite_master where name = 'usage_by_session'").fetchone()[0]
    size = db.execute("pragma page_size").fetchone()[0]
    db.execute("pragma journal_mode = delete")
    db.close()
    with database.open("r+b") as file:
        file.seek((page - 1) * size + 8)
        file.write(b"\xff" * 64)
    found = house.doctor()
    assert [name for name in found if name.startswith("broken store")]


def test_it_tells_how_far_it_is_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    progress = CheckProgress()
    progress("sessions", 1, 9)
    now[0] = 101.5
    progress("sessions", 1_234, 9_000)
    progress("sessions", 1_235, 9_000)
    progress.clear_line()
    assert capsys.readouterr().err == "\r\x1b[Kchecking sessions  1,234 of 9,000\r\x1b[K"


def test_a_model_of_meanings_is_looked_at(tmp_path: Path) -> None:
    house = House(tmp_path)
    model = Path(model_in(tmp_path / "model"))
    setting = ("--config", f'recall.embedding_model="{model}"')
    assert house.doctor(*setting) == {}
    lines = house.run("doctor", *setting).out.splitlines()
    assert [line for line in lines if line[6:].startswith("meanings")] == [
        f"ok    meanings        `{model}` returns vectors of 8 numbers"
    ]
    (model / "model.safetensors").unlink()
    problem = f"`recall.embedding_model`: `{model}` contains no static model (`model.safetensors`); "
    assert house.doctor(*setting) == {"broken meanings": (f"{problem}searches use words only", "")}


def test_variables_of_direnv_that_commands_do_not_get_are_named(house: House) -> None:
    record = base64.urlsafe_b64encode(zlib.compress(b'{"p": {}, "n": {"APP_MODE": "dev", "DB_PASSWORD": "x"}}'))
    found = house.doctor(DIRENV_DIFF=record.decode(), APP_MODE="dev", DB_PASSWORD="x")
    assert found["note environment"] == (
        "direnv sets variables that may contain secrets; commands do not get them: DB_PASSWORD",
        "set `EBB_PASS_ENV='DB_PASSWORD'` to pass them on",
    )


def test_servers_are_looked_at_and_none_is_started(house: House) -> None:
    started = house.home / "started"
    declared = {"forge": {"command": "touch", "args": [str(started)]}, "broken": {}}
    source = house.project / ".mcp.json"
    source.write_text(json.dumps({"mcpServers": declared}))
    house.configure('[mcp.servers.mine]\ncommand = "x"\n')
    lines = [
        line.split("  ", 1)[1].split(maxsplit=1)[1]
        for line in house.run("doctor").out.splitlines()
        if "servers  " in line
    ]
    assert lines == [
        f"`forge` of `{source}`: the user has not approved it: `ebb mcp test forge` shows it",
        f"`broken` of `{source}` cannot be used: it needs a `command` or a `url`, and only one of them",
        "mine; not started for this check",
    ]
    assert not started.exists()
