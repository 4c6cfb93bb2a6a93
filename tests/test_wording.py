"""Texts that people read use the words of a native engineer: the documentation, and the literals of the interface, the
command line, line mode and the integrations. `--help`, commands, keys and settings are such literals."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

WORDS: dict[str, str] = {
    r"somebody|nobody|someone else|whoever": "name the person or program",
    r"whatever": "name the thing",
    r"anew": "again, rebuilt, updated",
    r"besides": "also, other",
    r"but for": "except",
    r"of ours": "our",
    r"mend(?:s|ed|ing)?": "fix",
    r"(?:bring|brings|brought|bringing)(?: (?:it|them|these|this))? back(?! into context)": "restore",
    r"(?:take|takes|took|taken|taking)(?: (?:it|them|these|this))? (?:back|away)": "revert, remove",
    r"(?:go|goes|going|gone|went) on": "continue, resume",
    r"stands? for": "replaces, means",
    r"so many": "name the number",
    r"(?:it|that|this|these|which) (?:is|are) none": "not a, no such",
    r"unasked|without a question": "without asking",
    r"servers of tools": "MCP servers",
    r"(?:tell|tells|told|telling) of|programs that are told": "report, show",
    r"hand(?:s|ed)? in": "submit",
    r"work trees?": "worktree",
}
"""Regular expressions for words that nobody would say there, and what to write."""

LITERALS = (
    "tui/cli", "tui/plain", "tui/integrations", "tui/bindings.py", "tui/command_names.py",
    "tui/slash_commands.py", "tui/integration_registry.py", "tui/keys.py", "tui/startup.py", "agent/config/options.py",
    "agent/errors.py", "tui/view", "tui/commands", "tui/screens", "tui/session", "tui/prompt", "tui/terminal",
    "tui/render", "tui/widgets", "tui/app.py", "tui/screen_context.py",
)  # fmt: skip
"""Folders and modules whose string literals are read by people."""

TEXTS = (
    "README.md", "CHANGELOG.md", "docs/*.md", "docs/ebb.1", "tui/integrations/browser/page/*", "tui/cli/shells/*",
)  # fmt: skip
"""Patterns of texts that are read by people; each matches a file."""

_PATTERN = re.compile("|".join(rf"\b(?:{words})\b" for words in WORDS), re.IGNORECASE)


def read_texts() -> Iterator[tuple[Path, int, str]]:
    """Lines of the documents."""
    for pattern in TEXTS:
        found = sorted(ROOT.glob(pattern))
        assert found, pattern
        for path in found:
            for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
                yield path, number, line


def read_literals() -> Iterator[tuple[Path, int, str]]:
    """String literals with a space that are not docstrings; `{}` for each value in an f-string."""
    for place in LITERALS:
        found = sorted((ROOT / place).rglob("*.py")) if (ROOT / place).is_dir() else sorted(ROOT.glob(place))
        assert found, place
        for path in found:
            for line, text in literals_of(path.read_text("utf-8")):
                yield path, line, text


def literals_of(source: str) -> Iterator[tuple[int, str]]:
    tree = ast.parse(source)
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            parts = (str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            text = "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            text = node.value
        else:
            continue
        if " " in text.strip():
            yield node.lineno, text


def unplain_words(text: str) -> list[str]:
    return [found[0] for found in _PATTERN.finditer(text)]


@pytest.mark.parametrize("read", [read_texts, read_literals])
def test_what_people_read_uses_plain_words(read: Callable[[], Iterable[tuple[Path, int, str]]]) -> None:
    faults = [
        f"{path.relative_to(ROOT)}:{line}: `{word}`: write {instead_of(word)}"
        for path, line, text in read()
        for word in unplain_words(text)
    ]
    assert not faults, "\n" + "\n".join(faults)


def instead_of(word: str) -> str:
    return next(instead for words, instead in WORDS.items() if re.fullmatch(words, word, re.IGNORECASE))


def test_a_word_is_found_in_a_literal_and_not_in_a_docstring() -> None:
    source = """'Anew.'
X = 1
'Whatever it is.'
say(f"{x} goes "
    f"on anew")
say("mends")
say("it is mended")
"""
    assert [(line, unplain_words(text)) for line, text in literals_of(source)] == [
        (4, ["goes on", "anew"]),
        (7, ["mended"]),
    ]
