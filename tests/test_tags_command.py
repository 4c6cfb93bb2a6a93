"""Tags of sessions as a user gives, takes and finds them, and as they go with a session."""

import json
from pathlib import Path

import pytest

from tests.kit.user import User


def session_of(user: User) -> str:
    return str(user.ask({"text": "done"}).result["session"])


def listed(user: User, *arguments: str) -> dict[str, list[str]]:
    return {line["id"]: line["tags"] for line in user.ebb("sessions", "list", "--json", *arguments).lines}


def test_sessions_are_found_by_all_tags_that_are_named(user: User) -> None:
    first, second = session_of(user), session_of(user)
    run = user.ebb("sessions", "tag", first[:6], "#Release", "parser", "release")
    assert (run.code, run.out) == (0, f"{first}  go  #parser #release\n")
    assert user.ebb("sessions", "tag", second, "parser", "--json").result == {
        "session": second, "title": "go", "tags": ["parser"],
    }  # fmt: skip
    assert listed(user) == {second: ["parser"], first: ["parser", "release"]}
    assert listed(user, "--tag", "PARSER", "--tag", "#release") == {first: ["parser", "release"]}
    assert user.ebb("sessions", "--tag", "release").out.rstrip().endswith("go  #parser #release")
    assert user.ebb("sessions", "untag", first, "parser").out == f"{first}  go  #release\n"
    assert user.ebb("sessions", "untag", first).out == f"{first}  go  (no tags)\n"
    nothing = user.ebb("sessions", "list", "--tag", "release")
    assert (nothing.code, nothing.out) == (
        0, "no session in this project has #release; `--all` includes other projects\n",
    )  # fmt: skip


def test_that_there_are_more_sessions_than_are_listed_is_said(user: User) -> None:
    sessions = [session_of(user) for _ in range(3)]
    run = user.ebb("sessions", "--limit", "2")
    assert [line.split()[0] for line in run.out.splitlines()] == [sessions[2], sessions[1]]
    assert run.err == "ebb: there are more than 2 sessions; `--limit N` lists more\n"
    assert (len(listed(user, "--limit", "3")), user.ebb("sessions", "--limit", "3").err) == (3, "")
    assert user.ebb("sessions", "--limit", "0").code == 2


@pytest.mark.parametrize("word", ["two words", "", "#", "-", "a\nb", "x" * 51, "\x1b[31m", "a,b"])
def test_a_word_that_cannot_be_a_tag_changes_nothing(user: User, word: str) -> None:
    session = session_of(user)
    run = user.ebb("sessions", "tag", "--", session, "good", word)
    assert run.code == 2
    assert "is not a valid tag: use one word" in run.err
    assert "\x1b" not in run.err
    assert listed(user) == {session: []}


def test_a_session_has_no_more_tags_than_a_line_holds(user: User) -> None:
    session = session_of(user)
    assert user.ebb("sessions", "tag", session, *(f"t{n}" for n in range(50))).code == 0
    run = user.ebb("sessions", "tag", session, "t1", "one-more")
    assert (run.code, run.err) == (2, f"ebb: a session has at most 50 tags: `{session}` would have 51\n")


def test_tags_go_with_forks_and_with_an_exported_session(user: User, tmp_path: Path) -> None:
    session = session_of(user)
    user.ebb("sessions", "tag", session, "parser")
    user.ebb("sessions", "fork", session)
    assert sorted(listed(user).values()) == [["parser"], ["parser"]]
    user.ebb("sessions", "export", session, str(tmp_path / "a.zip"))
    user.ebb("sessions", "delete", session)
    user.ebb("sessions", "import", str(tmp_path / "a.zip"))
    assert listed(user)[session] == ["parser"]


def test_a_session_that_goes_on_keeps_its_tags(user: User) -> None:
    session = session_of(user)
    user.ebb("sessions", "tag", session, "parser")
    model = user.script({"text": "more"})
    assert json.loads(user.ebb("-c", "-p", "go on", "-m", model, "--output-format", "json").out)["session"] == session
    assert listed(user) == {session: ["parser"]}
