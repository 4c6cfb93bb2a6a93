"""Names say what a value is, in words that an engineer would search for: no variable, parameter, attribute, field,
function or class of the program is called by a word that leaves open what was told, kept or shown."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("agent", "tui", "tools", "store", "bench", "docs", "ebbtide")
WORDS = frozenset(
    {
        *("anew", "aside", "beside", "hear", "heard", "held", "hears", "kept", "pay", "pays", "rent"),
        *("rents", "said", "shown", "taken", "tell", "tells", "told"),
    }
)
"""Words of a snake_case or CamelCase name. Use the noun: `message`, `text`, `note`, `visible`, `stored`, `pending`."""
STORED = {
    ("agent/budget/last_request.py", "held_back"): "a key of the last request in snapshots",
    ("agent/events/view.py", "rent"): "a key of the stream's JSON",
    ("tools/outputs/extent.py", "shown"): "a key of outputs in stored messages",
    ("tools/process/state.py", "told"): "a key of outputs in stored messages, and of the stream's JSON",
}
"""Fields that are stored or documented under that name."""
USUAL = {("agent/eviction/carrying_costs.py", "will_pay_off"): "to pay off"}
"""Names in which such a word has its usual meaning."""


def names_in(source: str) -> Iterator[tuple[int, str]]:
    """The names that a module defines, with their lines."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield node.lineno, name
            case ast.ExceptHandler(name=str(name)) | ast.alias(asname=str(name)):
                yield node.lineno, name
            case _:
                pass


def words_of(name: str) -> set[str]:
    split = "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in name) if not name.isupper() else name
    return set(split.lower().split("_"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_name_is_a_word_that_leaves_open_what_it_is(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, name in names_in(path.read_text("utf-8"))
        if words_of(name) & WORDS and (str(path.relative_to(ROOT)), name) not in STORED | USUAL
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("path", "name"), [*STORED, *USUAL])
def test_each_exception_is_needed(path: str, name: str) -> None:
    assert name in {found for _, found in names_in((ROOT / path).read_text("utf-8"))}


@pytest.mark.parametrize(
    "source",
    [
        "told = 1",
        "self.told = 1",
        "class A:\n    told: int",
        "for told in (): pass",
        "def f(told): pass",
        "def f(*, told=1): pass",
        "lambda told: 1",
        "def told(): pass",
        "[1 for told in ()]",
        "with a as told: pass",
        "import a as told",
        "match a:\n    case b() as told: pass",
        "match a:\n    case [*told]: pass",
        "match a:\n    case {**told}: pass",
        "try: pass\nexcept E as told: pass",
        "if told := 1: pass",
    ],
)
def test_every_way_to_define_a_name_is_found(source: str) -> None:
    assert "told" in {name for _, name in names_in(source)}


@pytest.mark.parametrize("name", ["told", "_told", "has_told", "told_of", "Told", "_ToldNames", "MAX_TOLD", "TOLD_BY"])
def test_the_words_of_a_name_are_found(name: str) -> None:
    assert "told" in words_of(name)
    assert "told" not in words_of(name.lower().replace("told", "toldya"))
