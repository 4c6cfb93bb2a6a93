"""Which definitions come first."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.tools.integrations.code_map.map_format import MapEntry, map_within_budget
from ebbtide.tools.integrations.code_map.rank import MapFocus, rank_definitions
from ebbtide.tools.integrations.code_map.tags import Definition, Tags


def file(defined: str, used: str = "") -> Tags:
    definitions = tuple(Definition(name, line, 0, name) for line, name in enumerate(defined.split(), start=1))
    return Tags(definitions, dict.fromkeys(used.split(), 3))


PROJECT = {
    "core.py": file("engine"),
    "a.py": file("alpha", "engine"),
    "b.py": file("beta", "engine alpha"),
    "c.py": file("gamma", "beta"),
    "d.py": file("_hidden delta"),
    "e.py": file("epsilon", "_hidden"),
}


def order(focus: MapFocus | None = None) -> list[str]:
    return [one.name for _, one, _ in rank_definitions(PROJECT, focus)]


def test_what_much_is_built_on_comes_first() -> None:
    assert order()[0] == "engine"
    assert order().index("alpha") < order().index("gamma")


def test_what_a_known_file_uses_comes_before_what_it_defines() -> None:
    found = order(MapFocus(seen_files=frozenset({"c.py"})))
    assert found[0] == "beta"
    assert found.index("alpha") < found.index("gamma")


def test_what_was_asked_for_comes_first() -> None:
    assert order(MapFocus(requested_names=frozenset({"gamma"})))[0] == "gamma"
    assert set(order(MapFocus(requested_files=frozenset({"d.py"})))[:2]) == {"delta", "_hidden"}


names = st.text("abcd_", min_size=1, max_size=3)
tags = st.builds(
    lambda defined, used: file(" ".join(defined), " ".join(used)),
    st.lists(names, max_size=4),
    st.lists(names, max_size=6),
)
projects = st.dictionaries(st.text("xyz", min_size=1, max_size=2), tags, max_size=8)


@settings(max_examples=40)
@given(projects, st.sets(st.text("xyz", min_size=1, max_size=2)), st.sets(names))
def test_every_definition_is_ranked_once_and_always_in_the_same_order(
    files: dict[str, Tags], known: set[str], asked: set[str]
) -> None:
    focus = MapFocus(known & files.keys(), frozenset(), asked)
    found = rank_definitions(files, focus)
    every = [(path, one) for path, tags in files.items() for one in tags.definitions]
    assert sorted((path, one) for path, one, _ in found) == sorted(every)
    assert rank_definitions(dict(reversed(files.items())), focus) == found
    assert all(weight >= 0 for _, _, weight in found)


@given(
    st.lists(st.builds(MapEntry, names, st.integers(1, 99), st.integers(0, 2), names), max_size=30), st.integers(0, 300)
)
def test_a_map_takes_no_more_than_it_may_and_as_much_as_it_can(chosen: list[MapEntry], most: int) -> None:
    map_text, count = map_within_budget(chosen, len(chosen), most, len)
    assert len(map_text) <= most or count == 0
    if count < len(chosen):
        assert len(map_within_budget(chosen[: count + 1], len(chosen), 10**6, len)[0]) > most
