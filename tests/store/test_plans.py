"""How the database answers: by its indices, and not by reading all that was ever said."""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator

import pytest

from ebbtide.store.archive import ArchiveStore
from ebbtide.store.calls import replies_with_calls
from ebbtide.store.catalogue import SessionCatalogue, SessionFilter
from ebbtide.store.forks import ForkStore
from ebbtide.store.queries import SearchQuery
from ebbtide.store.search import IndexProgress, SearchDocument, SearchIndex
from ebbtide.store.search_tables import LARGE_DOCUMENT_BYTES
from ebbtide.store.session_rows import MessageRow, SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.store.usage import UsageStore
from ebbtide.store.vectors import VectorStore

A, B = "aa11bb22cc33", "bb22cc33dd44"
LARGE = re.compile(r"SCAN (messages|m|outputs|usage|rewrites|situation|views|summaries|documents|d|accesses)\b")
"""Tables that grow with everything that is said; an index may be walked until there is enough."""
CALL = '{"parts":[{"type":"call","id":"c1","name":"bash","arguments":{}}]}'


@pytest.fixture
def store() -> Iterator[SessionStore]:
    opened = SessionStore(":memory:")
    for id, changed in ((A, 1.0), (B, 2.0)):
        opened.create(SessionRow(id, "/p", f"title of {id}", "m", "ask", changed, changed))
        replies = [MessageRow(at, ("user", "assistant")[at % 2], CALL.replace("c1", f"{id[0]}{at}")) for at in range(6)]
        opened.write(id, replies)
    yield opened
    opened.close()


def index_of(store: SessionStore) -> SearchIndex:
    index = SearchIndex(store)
    index.add_documents(IndexProgress(A, 2, 0, 0, 0, 0), [SearchDocument(0, 0, "user", "", "find this")])
    return index


def vectors_of(store: SessionStore) -> VectorStore:
    index_of(store)
    vectors = VectorStore(store, "m")
    vectors.prepare()
    return vectors


ASKED: dict[str, Callable[[SessionStore], object]] = {
    "recent": lambda store: store.recent_sessions("/p"),
    "recent everywhere": lambda store: store.recent_sessions(),
    "matching": lambda store: store.sessions_with_prefix("aa"),
    "messages": lambda store: store.messages(A, 2),
    "messages before": lambda store: store.messages_before(A, 4, 2),
    "snapshot": lambda store: store.snapshot(A),
    "views": lambda store: store.views(A),
    "usage": lambda store: (store.usage(A), store.usage_total(A), store.rewrites(A)),
    "situation": lambda store: (store.all_facts(A), store.facts(A, "job")),
    "outputs": lambda store: (ArchiveStore(store).output_parts(A, 1), ArchiveStore(store).all_output_parts(A)),
    "large outputs": lambda store: ArchiveStore(store).outputs_larger_than(A, 9),
    "outputs before": lambda store: ArchiveStore(store).count_outputs_before(A, 3),
    "names": lambda store: (
        ArchiveStore(store).messages_without_ref(A),
        ArchiveStore(store).messages_with_ref_prefix(A, "12"),
    ),
    "summaries": lambda store: ArchiveStore(store).summaries(A),
    "a page": lambda store: SessionCatalogue(store).page("/p", 10, (3.0, 9), ("title",)),
    "a page of what is tagged": lambda store: SessionCatalogue(store).page(None, 10, None, ("#pa",), ("parser", "b")),
    "selected": lambda store: SessionCatalogue(store).matching_sessions(
        SessionFilter("/p", 9.0, ("a",), only_untagged=True, is_unanswered=True)
    ),
    "what requests took": lambda store: (UsageStore(store).request_count(A), [*UsageStore(store).requests(A)]),
    "a page of all": lambda store: SessionCatalogue(store).page(None, 10),
    "some": lambda store: SessionCatalogue(store).sessions_by_id((A, B)),
    "family": lambda store: ForkStore(store).family(A),
    "drafts": lambda store: ForkStore(store).unused_drafts(),
    "holding": lambda store: ForkStore(store).messages_containing(A, "user", "go"),
    "calls": lambda store: replies_with_calls(store, "/p", A, 10),
    "behind": lambda store: index_of(store).unfinished_sessions(),
    "found": lambda store: index_of(store).find(SearchQuery("this", project="/p", sessions=(A,))),
    "long outputs": lambda store: index_of(store).find(
        SearchQuery("", kinds=("output",), larger_than=LARGE_DOCUMENT_BYTES)
    ),
    "newest": lambda store: index_of(store).find(SearchQuery("", limit=3)),
    "vectors": lambda store: vectors_of(store).unembedded_count(),
}


@pytest.mark.parametrize("asked", ASKED)
def test_what_somebody_waits_for_reads_no_large_table_as_a_whole(store: SessionStore, asked: str) -> None:
    ASKED[asked](store)  # builds what is built at its first use
    statements: list[str] = []
    database: sqlite3.Connection = store._db
    database.set_trace_callback(statements.append)
    ASKED[asked](store)
    database.set_trace_callback(None)
    read = [each for each in statements if each.lstrip().startswith("select") and "sqlite_master" not in each]
    assert read
    for statement in read:
        plan = [row[3] for row in database.execute(f"explain query plan {statement}")]
        assert not [step for step in plan if LARGE.match(step) and "INDEX" not in step], statement
        if "body" in statement:  # what is large is read in order, and not sorted
            assert "USE TEMP B-TREE FOR ORDER BY" not in plan, statement


def test_the_calls_of_a_project_begin_with_those_of_the_session_that_was_changed_last(store: SessionStore) -> None:
    def ids(session: str, limit: int = 9) -> list[str]:
        return [json.loads(row.body)["parts"][0]["id"] for row in replies_with_calls(store, "/p", session, limit)]

    assert ids("none") == ["b5", "b3", "b1", "a5", "a3", "a1"]
    assert ids(B) == ["b3", "b1", "a5", "a3", "a1"]
    assert ids(A, 4) == ["b5", "b3", "b1", "a3"]
    assert replies_with_calls(store, "/q", A, 9) == ()
