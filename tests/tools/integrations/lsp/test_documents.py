"""What is kept of what a server says."""

from pathlib import Path

import pytest

from ebbtide.tools.integrations.lsp.documents import Documents, path_from_uri

ROOT = Path("/project")
PLACE = {"start": {"line": 0, "character": 0}}


def pushed(documents: Documents, name: str, count: int) -> bool:
    found = [{"range": PLACE, "message": "wrong"}] * count
    return documents.store_pushed({"uri": (ROOT / name).as_uri(), "diagnostics": found}) is not None


def test_no_more_is_kept_than_a_project_can_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.tools.integrations.lsp.documents.MAX_FILES_WITH_PROBLEMS", 30)
    monkeypatch.setattr("ebbtide.tools.integrations.lsp.documents.MAX_STORED_PROBLEMS", 500)
    documents = Documents("words", ROOT)
    assert all(pushed(documents, f"{number}", 1) for number in range(30))
    assert not pushed(documents, "more", 1)
    documents = Documents("words", ROOT)
    assert sum(pushed(documents, f"{number}", 100) for number in range(20)) == 5
    assert pushed(documents, "0", 0)
    assert pushed(documents, "more", 100)
    documents.remove(ROOT / "more")
    assert pushed(documents, "again", 100)


def test_only_files_of_this_machine_are_meant() -> None:
    uris = ("file:///a%20b", "file://localhost/a", "file://host/a", "http://a/b", "untitled:a", "file:///%00", "[", 3)
    assert [path_from_uri(uri) for uri in uris] == [Path("/a b"), Path("/a"), None, None, None, None, None, None]


def test_what_makes_no_sense_is_passed_over() -> None:
    documents = Documents("words", ROOT)
    for diagnostics in (None, 3, [3, {}, {"message": 3}, {"message": "no place", "severity": "?", "code": []}]):
        assert documents.store_pushed({"uri": "file:///project/a", "diagnostics": diagnostics}) == ROOT / "a"
    (problem,) = documents.problems(ROOT / "a")
    assert (problem.line, problem.column, problem.severity, problem.message, problem.rule) == (
        1, 1, "error", "no place", ""
    )  # fmt: skip
    assert documents.store_pushed(["?"]) is None
