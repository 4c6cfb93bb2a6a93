"""Searches by meaning, with a real model and a real database."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.archive.recall_search import INDEX_REBUILT_NOTE, NEAR_MATCH_NOTE
from ebbtide.agent.archive.semantic_search import EmbeddingFailed
from ebbtide.agent.integrations.semantic_search.embedding_index import (
    DOCUMENTS_PER_BATCH,
    LEADING_PART_COUNT,
    PART_CHARS,
    RRF_CONSTANT,
    TRAILING_PART_COUNT,
    merge_rankings,
    part_bounds,
    reciprocal_rank_fusion,
)
from ebbtide.agent.integrations.semantic_search.embeddings import SETTING_KEY, Embedder, find_model_problem
from ebbtide.agent.integrations.semantic_search.vector_index import QuantizedVectors, quantize
from ebbtide.agent.records.store_access import delete_session
from ebbtide.store.queries import SearchQuery
from ebbtide.store.search import SearchHit
from ebbtide.store.vectors import QuantizedVector
from ebbtide.tools.outputs.recall_results import RecallQuery, RecallResult
from ebbtide.tools.outputs.recall_scope import RecallScope
from tests.kit.archived_sessions import ELSEWHERE, HERE, THERE, Sessions, opened
from tests.kit.word_vectors import model_in


@pytest.fixture
def model(tmp_path: Path) -> str:
    return model_in(tmp_path / "model")


def excerpts(memory: RecallResult) -> list[str]:
    return [one.excerpt for one in memory.items]


async def count(sessions: Sessions) -> int:
    ((number,),) = await sessions.thread.run(sessions.store.query, "select count(*) from vectors")
    return int(number)


async def test_what_was_said_in_other_words_is_found_and_says_so(sessions: Sessions, model: str) -> None:
    await sessions.says("the automobile stands there")
    await sessions.says("a kitten sleeps")
    memory = await sessions.recall(model=model).search(RecallQuery("car"))
    assert (excerpts(memory), memory.notes) == (["the automobile stands there"], (NEAR_MATCH_NOTE,))
    assert memory.items[0].by_meaning
    assert excerpts(await sessions.recall().search(RecallQuery("car"))) == []


async def test_what_holds_the_words_never_stands_below_what_only_means_the_same(sessions: Sessions, model: str) -> None:
    for _ in range(60):
        await sessions.says("automobile quick repair")
    await sessions.says("nothing else but much besides, and somewhere in it a car that is fast, with bread and a boat")
    await sessions.says("of cars, breakfast")
    found = (await sessions.recall(model=model).search(RecallQuery("car fast", limit=5))).items
    assert [one.by_meaning for one in found] == [False, False, True, True, True]
    assert [one.excerpt[:7] for one in found[:2]] == ["nothing", "of cars"]


async def test_words_between_quotation_marks_are_meant_as_they_stand(sessions: Sessions, model: str) -> None:
    await sessions.says("the automobile stands there")
    assert excerpts(await sessions.recall(model=model).search(RecallQuery('"car"'))) == []


async def test_of_what_holds_some_of_the_words_and_what_means_them_the_best_of_both_come_first(
    sessions: Sessions, model: str
) -> None:
    await sessions.says("who knows the way")
    await sessions.says("who mends an automobile")
    await sessions.says("an automobile and bread")
    found = (await sessions.recall(model=model).search(RecallQuery("who has a car"))).items
    assert [one.excerpt for one in found] == ["who mends an automobile", "who knows the way", "an automobile and bread"]
    assert [one.by_meaning for one in found] == [False, False, True]


@pytest.mark.parametrize(
    ("scope", "seen"), [("session", {HERE}), ("project", {HERE, THERE}), ("all", {HERE, THERE, ELSEWHERE})]
)
async def test_a_scope_bounds_what_is_found_by_meaning(
    sessions: Sessions, model: str, scope: RecallScope, seen: set[str]
) -> None:
    for session in (HERE, THERE, ELSEWHERE):
        await sessions.says(f"automobile {session}", session)
    memory = await sessions.recall(scope, model=model).search(RecallQuery("car"))
    assert {text.split()[-1] for text in excerpts(memory)} == seen


async def test_every_filter_holds_for_what_is_found_by_meaning(sessions: Sessions, model: str) -> None:
    await sessions.says("automobile said")
    await sessions.runs("read", "automobile read", path="src/a.py")
    await sessions.runs("bash", "automobile printed", command="ls")
    await sessions.replies("automobile answered")
    recall = sessions.recall(model=model)
    everything = await recall.search(RecallQuery("car"))
    assert len(everything.items) == 4
    await sessions.thread.run(sessions.store.query, "update documents set created = 100 where text like '%said'")
    recall = sessions.recall(model=model)
    for asked, expected in (
        (RecallQuery("car", kinds=("output",)), {"automobile read", "automobile printed"}),
        (RecallQuery("car", kinds=("assistant", "user")), {"automobile answered", "automobile said"}),
        (RecallQuery("car", tool="bash"), {"automobile printed"}),
        (RecallQuery("car", path="a.py"), {"automobile read"}),
        (RecallQuery("car", path="*/b.py"), set()),
        (RecallQuery("car", until=200), {"automobile said"}),
        (RecallQuery("car", since=200, kinds=("user",)), set()),
    ):
        assert set(excerpts(await recall.search(asked))) == expected


async def test_the_part_that_is_near_is_shown(sessions: Sessions, model: str) -> None:
    await sessions.says("go")
    filler = "unknown words stand here\n" * 60
    await sessions.runs("bash", f"{filler}a feline sleeps\n{filler}", command="print diary")
    (one,) = (await sessions.recall(model=model).search(RecallQuery("kitten"))).items
    assert one.ref == "r1"
    assert one.excerpt.startswith("unknown words stand here\n")  # of the part, which is longer than an excerpt
    await sessions.runs("bash", f"{'x' * 995}\na feline sleeps", command="print more")
    found = (await sessions.recall(model=model).search(RecallQuery("kitten"))).items
    assert [one.excerpt for one in found if one.ref == "r2"] == ["a feline sleeps"]


async def test_new_messages_are_found_and_those_of_deleted_sessions_are_not(sessions: Sessions, model: str) -> None:
    recall = sessions.recall(model=model)
    await sessions.says("one automobile", THERE)
    assert excerpts(await recall.search(RecallQuery("car"))) == ["one automobile"]
    await sessions.says("another vehicle")
    assert set(excerpts(await recall.search(RecallQuery("car")))) == {"one automobile", "another vehicle"}
    await delete_session(sessions.thread, sessions.store, THERE)
    assert excerpts(await recall.search(RecallQuery("car"))) == ["another vehicle"]
    assert await count(sessions) == 1
    await sessions.says("a third vehicle")
    assert set(excerpts(await recall.search(RecallQuery("car")))) == {"a third vehicle", "another vehicle"}


async def test_vectors_are_kept_and_those_of_another_model_are_replaced(
    sessions: Sessions, model: str, tmp_path: Path
) -> None:
    await sessions.says("one automobile")
    await sessions.recall(model=model).search(RecallQuery("car"))
    first = await sessions.thread.run(sessions.store.query, "select id from vectors")
    await sessions.recall(model=model).search(RecallQuery("car"))
    assert await sessions.thread.run(sessions.store.query, "select id from vectors") == first
    other = model_in(tmp_path / "other", turn=1)
    assert excerpts(await sessions.recall(model=other).search(RecallQuery("car"))) == ["one automobile"]
    models = await sessions.thread.run(sessions.store.query, "select distinct model from vectors")
    assert [name.split(":")[0] for (name,) in models] == [Embedder(other).fingerprint]
    assert Embedder(other).fingerprint != Embedder(model).fingerprint


async def test_a_search_says_what_has_no_vector_yet_and_the_next_one_goes_on(
    sessions: Sessions, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(DOCUMENTS_PER_BATCH + 10):
        await sessions.says(f"kitten {number}")
    recall = sessions.recall(model=model)
    monkeypatch.setattr("ebbtide.agent.archive.recall_search.INDEX_TIMEOUT_S", 0.0)
    monkeypatch.setattr("ebbtide.agent.archive.indexer.start_index_process", lambda *arguments: False)
    first, second = await recall.search(RecallQuery("feline")), await recall.search(RecallQuery("feline"))
    assert first.notes == (
        "10 texts cannot be found by meaning yet; the next search continues with them",
        NEAR_MATCH_NOTE,
    )
    assert second.notes == (NEAR_MATCH_NOTE,)
    assert await count(sessions) == DOCUMENTS_PER_BATCH + 10


@pytest.mark.parametrize("damage", ["drop table vectors", "delete from words_data where id > 10"])
async def test_what_is_damaged_is_made_anew(tmp_path: Path, model: str, damage: str) -> None:
    first = await opened(tmp_path)
    for number in range(30):
        await first.says(f"automobile {number}")
    await first.recall(model=model).search(RecallQuery("car"))
    await first.thread.close()
    with sqlite3.connect(tmp_path / "sessions.db") as db:
        db.execute(damage)
    db.close()
    second = await opened(tmp_path)
    memory = await second.recall(model=model).search(RecallQuery("car automobile", limit=50))
    assert len(memory.items) == 30
    assert (INDEX_REBUILT_NOTE in memory.notes) == ("words_data" in damage)
    await second.thread.close()


async def test_a_model_that_cannot_be_used_is_told_of_once_and_words_still_find(
    sessions: Sessions, tmp_path: Path
) -> None:
    await sessions.says("the automobile stands there")
    recall = sessions.recall(model=str(tmp_path / "nowhere"))
    first, second = await recall.search(RecallQuery("automobile")), await recall.search(RecallQuery("automobile"))
    assert excerpts(first) == excerpts(second) == ["the automobile stands there"]
    problem = (
        f"`{SETTING_KEY}`: folder `{tmp_path / 'nowhere'}` not found (models are not downloaded); searches "
        "use words only"
    )
    assert (first.notes, second.notes) == ((problem,), ())


def test_a_name_is_no_folder_and_nothing_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EmbeddingFailed, match=f"folder `{tmp_path}/minishlab/potion-base-8M`"):
        Embedder("minishlab/potion-base-8M")


def test_a_folder_without_a_model_or_with_a_damaged_one_says_so(tmp_path: Path, model: str) -> None:
    (tmp_path / "empty").mkdir()
    assert "contains no static model" in find_model_problem(str(tmp_path / "empty"))
    assert find_model_problem(model) == ""
    (Path(model) / "tokenizer.json").write_text("{")
    with pytest.raises(EmbeddingFailed, match="cannot be loaded"):
        Embedder(model)


def test_a_text_without_known_words_has_no_direction(model: str) -> None:
    rows = Embedder(model).embed(["zzz", "car", ""])
    assert [round(float(np.linalg.norm(row)), 3) for row in rows] == [0.0, 1.0, 0.0]


def test_what_stands_high_in_both_rankings_comes_first() -> None:
    scores = reciprocal_rank_fusion([1, 2, 3], [3, 4])
    assert sorted(scores, key=lambda one: -scores[one]) == [3, 1, 2, 4]
    assert scores[3] == 1 / 63 + 1 / 61
    words = [SearchHit(1, "words"), SearchHit(2, "words"), SearchHit(5, "parts")]
    near = [SearchHit(9, "meaning"), SearchHit(5, "meaning"), SearchHit(2, "meaning")]
    assert [(hit.id, hit.method) for hit in merge_rankings(words, near)] == [
        (2, "words"), (1, "words"), (5, "parts"), (9, "meaning"),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "short", "word " * 5000, "x" * 3000, "line\n" * 700, "測試" * 900])
def test_parts_cover_a_text_or_its_ends(text: str) -> None:
    parts = part_bounds(text)
    assert 1 <= len(parts) <= LEADING_PART_COUNT + TRAILING_PART_COUNT
    assert all(end - start <= PART_CHARS for start, end in parts)
    assert (parts[0][0], parts[-1][1]) == (0, len(text))
    if len(parts) < LEADING_PART_COUNT + TRAILING_PART_COUNT:
        assert "".join(text[start:end] for start, end in parts) == text


def test_sketches_that_differ_least_are_those_of_the_nearest_vectors() -> None:
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((2000, 100)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    sketches = QuantizedVectors(1500)
    rows = zip(range(1, 2001), quantize(vectors), strict=True)
    sketches.add(QuantizedVector(id, id, "s", "/p", "user", "", "", 0.0, bits.tobytes()) for id, bits in rows)
    assert (len(sketches), sketches.last_id) == (1500, 2000)
    query = vectors[1234] + 0.1 * rng.standard_normal(100).astype(np.float32)
    found = sketches.nearest(quantize(query[None]), SearchQuery(), lambda paths: (), 20)
    assert len(found) == 20
    assert 1235 in found


def test_what_was_asked_for_in_vain_is_found_once_it_is_there() -> None:
    sketches, query = QuantizedVectors(10), np.zeros((1, 1), np.uint64)

    def found(wanted: SearchQuery) -> list[int]:
        return sketches.nearest(query, wanted, lambda paths: (), 10)

    sketches.add([QuantizedVector(1, 1, "old", "/p", "user", "", "", 0.0, query.tobytes())])
    assert (found(SearchQuery(sessions=("new",))), found(SearchQuery(tool="bash"))) == ([], [])
    sketches.add([QuantizedVector(2, 2, "new", "/p", "output", "bash", "", 0.0, query.tobytes())])
    asked = (SearchQuery(sessions=("new",)), SearchQuery(tool="bash"), SearchQuery(project="/p"))
    assert [sorted(found(wanted)) for wanted in asked] == [[2], [2], [1, 2]]


rankings = st.lists(st.lists(st.integers(0, 20), unique=True, max_size=12), max_size=4)


@given(rankings)
def test_whatever_is_ranked_has_a_score_and_every_place_counts(given_rankings: list[list[int]]) -> None:
    scores = reciprocal_rank_fusion(*given_rankings)
    assert set(scores) == {one for ranking in given_rankings for one in ranking}
    for one, score in scores.items():
        places = [ranking.index(one) + 1 for ranking in given_rankings if one in ranking]
        assert abs(score - sum(1 / (RRF_CONSTANT + place) for place in places)) < 1e-12


@given(st.lists(st.integers(0, 20), unique=True, max_size=12), st.integers(1, 4))
def test_rankings_that_agree_are_the_ranking(ranking: list[int], times: int) -> None:
    scores = reciprocal_rank_fusion(*[ranking] * times)
    assert sorted(scores, key=lambda one: -scores[one]) == ranking


@given(rankings)
def test_the_order_of_rankings_makes_no_difference(given_rankings: list[list[int]]) -> None:
    forwards, backwards = reciprocal_rank_fusion(*given_rankings), reciprocal_rank_fusion(*reversed(given_rankings))
    assert forwards.keys() == backwards.keys()
    assert all(abs(forwards[one] - backwards[one]) < 1e-12 for one in forwards)
