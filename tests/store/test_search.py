"""The search index, on a real database."""

import random
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ebbtide.store.errors import StoreError
from ebbtide.store.migrations import MIGRATIONS
from ebbtide.store.queries import SearchQuery
from ebbtide.store.search import DocumentKind, IndexProgress, SearchDocument, SearchIndex, SearchMatch
from ebbtide.store.session_rows import MessageRow, SessionRow
from ebbtide.store.sessions import SessionStore

HOSTILE = (
    '"', '""', "'", "*", "a*", "*a", "^a", "a^", "-a", "+a", "(a", "a)", "()", "{a} : b", "title : a", "a:b",
    "marks : a",
    "NEAR(a b, 2)", "a AND", "OR b", "NOT", "a NOT b", "AND OR NOT", "\0", "a\0b", "\x1b[31m", "%", "_", "[", "]", "{",
    "}", "\\", "\\x00", ";drop table words", "--", "/*", "😀", "\ud800", "é", "\u0301", "ﬀ", "測試", "測", "テスト",
    "가",
    "a" * 5000, "\u202e", "'; delete from documents; --", "?1", ":x", "@x", "$x", "0x00", "1e999", "\t\n\r", "\u3000",
)  # fmt: skip


def doc(position: int, text: str, kind: DocumentKind = "user", **more: Any) -> SearchDocument:
    return replace(SearchDocument(position, 0, kind, "", text), **more)


class Opened:
    """A store with sessions `a` and `b` of one project and `c` of another."""

    def __init__(self, path: Path | str = ":memory:") -> None:
        self.store = SessionStore(path)
        self.index = SearchIndex(self.store)
        for session, project in (("a", "/p"), ("b", "/p"), ("c", "/q")):
            if self.store.session(session) is None:
                self.store.create(SessionRow(session, project, "", "m", "ask", 1.0, 1.0))

    def add(self, session: str, *documents: SearchDocument) -> None:
        last = max((document.position for document in documents), default=-1)
        self.index.add_documents(IndexProgress(session, last + 1, 0, 0, 0, 0), documents)

    def texts(self, words: str, **more: Any) -> list[str]:
        return [match.document.text for match in self.index.find(SearchQuery(words, **more))]


@pytest.fixture
def opened() -> Opened:
    return Opened()


def test_what_holds_all_words_is_found_with_all_that_is_known_of_it(opened: Opened) -> None:
    found = doc(3, "the retry limit is five", "output", number=2, tool="read", path="src/a.py", size=99, created=7.0)
    opened.add("a", doc(0, "the limit of memory"), found)
    assert opened.index.find(SearchQuery("retry LIMIT")) == (SearchMatch("a", "/p", found, "words", 0),)


def test_each_message_is_ranked_by_itself(opened: Opened) -> None:
    opened.add("a", doc(0, "cache " + "other words " * 50), doc(1, "cache cache cache"), doc(2, "nothing of it"))
    assert [match.document.position for match in opened.index.find(SearchQuery("cache"))] == [1, 0]


def test_of_equal_matches_that_comes_first_which_was_looked_up_more(opened: Opened) -> None:
    opened.add("a", *(doc(at, "same words", "output", number=at + 1, created=float(at)) for at in range(3)))
    assert [match.document.number for match in opened.index.find(SearchQuery("same"))] == [3, 2, 1]
    opened.index.record_access("a", "r2")
    assert [(m.document.number, m.access_count) for m in opened.index.find(SearchQuery("same"))] == [
        (2, 1),
        (3, 0),
        (1, 0),
    ]


def test_parts_of_words_are_found_after_whole_words(opened: Opened) -> None:
    opened.add("a", doc(0, "a precompaction step"), doc(1, "compact it"))
    assert [(m.document.position, m.method) for m in opened.index.find(SearchQuery("compact"))] == [
        (1, "words"),
        (0, "parts"),
    ]
    opened.add("a", doc(2, "recompacted later"))
    assert opened.texts("ompacte") == ["recompacted later"]
    assert [m.method for m in opened.index.find(SearchQuery("it precompacte"))] == ["some"]


@pytest.mark.parametrize("query", ["user_name", "userName", "user-name", "UserName", "USER_NAME"])
def test_a_name_is_found_however_its_words_are_joined(opened: Opened, query: str) -> None:
    forms = ["userName", "user_name", "user-name", "User name", "getUserNameList", "USER_NAME = 1", "username"]
    opened.add("a", *(doc(place, form) for place, form in enumerate([*forms, "user, and then a name", "use"])))
    found = set(opened.texts(query, limit=20))
    assert found == set(forms)


def test_long_names_are_found_by_their_parts_and_long_keys_by_their_beginnings(opened: Opened) -> None:
    name, key = "Internal" + "Frame" * 20 + "TitlePane", "0123456789abcdef" * 8
    opened.add("a", doc(0, f"class {name}:"), doc(1, f"digest {key}."))
    for query, position in (("titlepane", 0), ("FrameTitle", 0), (name, 0), (key[:12], 1), (key[:60], 1), (key, 1)):
        assert [match.document.position for match in opened.index.find(SearchQuery(query))] == [position], query


def test_a_name_is_found_by_its_beginning(opened: Opened) -> None:
    opened.add("a", doc(0, "def measure_window_size(): ..."))
    assert opened.texts("measure_win") == opened.texts("measure_window_size") == ["def measure_window_size(): ..."]


@pytest.mark.parametrize(
    "words", ["测试", "试这", "功", "能。", "这个功能", "テスト", "スト", "실패", "패", "测试 功能"]
)
def test_scripts_without_blanks_are_found_by_any_of_their_characters(opened: Opened, words: str) -> None:
    text = "我们测试这个功能。 テストは실패했다"
    opened.add("a", doc(0, text), doc(1, "别的东西"))
    assert opened.texts(words) == [text]


def test_when_nothing_holds_all_words_some_are_enough(opened: Opened) -> None:
    opened.add("a", doc(0, "the retry limit"), doc(1, "unrelated"))
    (match,) = opened.index.find(SearchQuery("where was the retry decided"))
    assert (match.document.position, match.method) == (0, "some")


def test_a_phrase_stands_in_its_order(opened: Opened) -> None:
    opened.add("a", doc(0, "limit the retries"), doc(1, "the limit"))
    assert opened.texts('"the limit"') == ["the limit"]


def test_filters_narrow_what_is_found(opened: Opened) -> None:
    opened.add("a", doc(0, "word one", created=10.0), doc(1, "word two", "output", tool="read", path="src/a.py\nb.py"))
    opened.add("b", doc(0, "word three", "assistant", created=20.0))
    opened.add("c", doc(0, "word four", "summary", number=1, created=30.0))
    for words in ("word", ""):
        assert opened.texts(words, sessions=("a",)) == ["word one", "word two"]
        assert opened.texts(words, project="/q") == ["word four"]
        assert opened.texts(words, kinds=("summary", "assistant")) == ["word four", "word three"]
        assert opened.texts(words, tool="read") == opened.texts(words, path="src/") == ["word two"]
        assert opened.texts(words, path="*b.py") == ["word two"]
        assert opened.texts(words, path="s?c*") == ["word two"]
        assert opened.texts(words, since=10.0, until=30.0) == ["word three", "word one"]
        assert opened.texts(words, limit=1) == ["word four"]


def test_the_name_of_a_kind_or_a_session_is_no_word_of_a_text(opened: Opened) -> None:
    opened.add("a", doc(0, "hello", "output", tool="read"))
    assert opened.texts("output") == opened.texts("read") == opened.texts("a") == []


def test_no_query_is_a_mistake(opened: Opened) -> None:
    opened.add("a", doc(0, "a plain text with words and 測試"))
    rng = random.Random(5)
    queries = [*HOSTILE, *("".join(rng.choices(HOSTILE, k=rng.randint(1, 12))) for _ in range(700))]
    queries += [" ".join(rng.choices(HOSTILE, k=rng.randint(1, 40))) for _ in range(300)]
    for query in queries:
        assert len(opened.index.find(SearchQuery(query, path=query[:20], tool=query[:9], sessions=(query[:5],)))) <= 1
        assert len(opened.index.find(SearchQuery(query))) <= 1


@pytest.mark.parametrize("words", ["", "   ", "\n"])
def test_without_words_the_newest_are_found(opened: Opened, words: str) -> None:
    opened.add("a", doc(0, "old", created=1.0), doc(1, "new", created=2.0))
    assert opened.texts(words) == ["new", "old"]


@pytest.mark.parametrize("words", ["!!!", '"', "-- ;"])
def test_signs_alone_find_nothing(opened: Opened, words: str) -> None:
    opened.add("a", doc(0, "!!! -- ;"))
    assert opened.texts(words) == []


def test_texts_that_a_database_does_not_take_are_found_all_the_same(opened: Opened) -> None:
    opened.add("a", doc(0, "nul\0 and \ud800 half a pair"))
    assert opened.texts("half") == ["nul  and ? half a pair"]


def test_it_says_which_sessions_have_more_than_it_knows(opened: Opened) -> None:
    assert opened.index.unfinished_sessions() == ()
    rows = [MessageRow(at, "user", "{}", 5.0) for at in range(3)]
    opened.store.write("a", rows)
    assert opened.index.unfinished_sessions() == (IndexProgress("a", 0, 0, 0, 3, 0, "/p"),)
    opened.index.add_documents(IndexProgress("a", 2, 4, 0, 0, 0), [])
    assert opened.index.unfinished_sessions() == (IndexProgress("a", 2, 4, 0, 1, 0, "/p"),)
    assert opened.index.messages("a", 1, 1) == (rows[1],)


def test_what_another_process_added_first_is_not_added_again(opened: Opened) -> None:
    other = SearchIndex(opened.store)
    for index in (opened.index, other):
        index.add_documents(IndexProgress("a", 1, 0, 0, 0, 0), [doc(0, "once")])
    assert opened.texts("once") == ["once"]
    opened.index.add_documents(IndexProgress("gone", 1, 0, 0, 0, 0), [doc(0, "never")])
    assert opened.texts("never") == []


def test_an_index_that_was_emptied_meanwhile_gets_no_gap(opened: Opened) -> None:
    opened.store.write("a", [MessageRow(at, "user", "{}", 5.0) for at in range(4)])
    opened.index.add_documents(IndexProgress("a", 2, 0, 0, 0, 0), [doc(0, "one"), doc(1, "two")])
    opened.index.clear()
    opened.index.add_documents(IndexProgress("a", 4, 0, 0, 0, 0), [doc(2, "three"), doc(3, "four")], 2)
    assert opened.index.unfinished_sessions() == (IndexProgress("a", 0, 0, 0, 4, 0, "/p"),)
    assert opened.texts("three") == []


def test_a_deleted_session_leaves_no_word_behind(opened: Opened) -> None:
    opened.add("a", doc(0, "precious secretword"))
    opened.add("b", doc(0, "another word"))
    assert opened.texts("cretwor") == ["precious secretword"]
    opened.store.delete("a")
    opened.index.reset_word_parts()
    assert opened.texts("secretword") == opened.texts("cretwor") == []
    assert opened.texts("nothe") == ["another word"]
    tables = [name for (name,) in opened.store.query("select name from sqlite_master where type = 'table'")]
    tables_text = [str(opened.store.query(f"select * from {name}")) for name in tables if not name.startswith("words_")]
    assert not [text for text in tables_text if "secretword" in text]


@pytest.mark.parametrize(
    "damage",
    [
        "delete from words_data where id > 10",
        "update words_data set block = zeroblob(9)",
        "delete from words_config",
        "drop table words_data",
        "drop table words_idx",
        "drop table documents",
    ],
)
def test_a_damaged_index_is_made_anew(tmp_path: Path, damage: str) -> None:
    opened = Opened(tmp_path / "s.db")
    opened.add("a", *(doc(at, f"some words {at}") for at in range(50)))
    opened.texts("ome")
    opened.store.close()
    with sqlite3.connect(tmp_path / "s.db") as db:
        db.execute(damage)
    db.close()
    opened = Opened(tmp_path / "s.db")
    opened.index.clear()
    opened.add("a", doc(0, "some words"))
    assert opened.texts("words") == opened.texts("ome") == ["some words"]


def test_a_database_of_an_earlier_version_can_be_searched(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "s.db") as db:
        for migrate in MIGRATIONS[:3]:
            migrate(db)
        db.execute("pragma user_version = 3")
    db.close()
    opened = Opened(tmp_path / "s.db")
    opened.store.write("a", [MessageRow(0, "user", "{}")])
    assert opened.index.unfinished_sessions() == (IndexProgress("a", 0, 0, 0, 1, 0, "/p"),)
    opened.add("a", doc(0, "words"))
    assert opened.texts("words") == ["words"]


def test_an_index_without_its_documents_is_an_error_that_says_so(tmp_path: Path) -> None:
    opened = Opened(tmp_path / "s.db")
    opened.add("a", doc(0, "words"))
    with opened.store.transaction() as db:
        db.execute("drop table documents")
    with pytest.raises(StoreError) as raised:
        opened.texts("words")
    assert raised.value.reason == "unreadable"
