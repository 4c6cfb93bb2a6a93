"""Words are compared without their endings, and with others that mean the same."""

import pytest

from ebbtide.tools.search.relevance_ranking import SYNONYM_WEIGHT, query_terms, stem, word_stems


@pytest.mark.parametrize(
    "forms",
    [
        ("file", "files", "filed", "filing"),
        ("query", "queries", "querying"),
        ("slow", "slower", "slowest"),
        ("create", "creates", "creating", "creation"),
        ("pay", "pays", "payment", "payments"),
        ("authorised", "authorized", "authorize"),
        ("raise", "raises", "raised", "raising"),
        ("rise", "rises", "rising"),
        ("noise", "noises"),
        ("remind", "reminder", "reminders"),
    ],
)
def test_the_forms_of_a_word_are_one(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


def test_different_words_stay_apart() -> None:
    words = ("user", "use", "server", "service", "status", "state", "order", "form", "format", "pass", "class", "面板")
    assert len({stem(word) for word in words}) == len(words)


def test_names_are_split_at_their_humps_and_signs() -> None:
    assert word_stems("mcp__chat__getHTTPHistoryOfChannel-2") == (
        "mcp",
        "chat",
        "get",
        "http",
        "histori",
        "channel",
        "2",
    )


def test_a_word_is_answered_by_itself_and_less_by_others() -> None:
    removal, thing = query_terms("delete the ticket")
    assert removal[stem("delete")] == thing[stem("ticket")] == 1.0
    assert removal[stem("remove")] == thing[stem("issue")] == SYNONYM_WEIGHT
    assert query_terms("the of and") == []
    assert query_terms("delete deleting") == [removal]
    (every,) = query_terms("which")
    assert every[stem("list")] == SYNONYM_WEIGHT
