from collections.abc import MutableMapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from ebbtide.tui.render.markdown import PARSER, MarkdownPiece, split_finished_pieces

BLOCKS = [
    "# Title", "words **bold**", "- a\n- b", "1. one\n2. two", "```python\nx = 1\n```", "> quote",
    "| a |\n|---|\n| 1 |",
]  # fmt: skip


def split(text: str) -> tuple[MarkdownPiece, ...]:
    """The pieces of a whole text."""
    pieces, rest, gap = split_finished_pieces((), text, True)
    return (*pieces, MarkdownPiece(rest, gap)) if rest.strip() else pieces


def test_blocks_are_pieces() -> None:
    assert split("# A\n\ntext\nmore\n\n- x\n- y\n") == (
        MarkdownPiece("# A"),
        MarkdownPiece("text\nmore"),
        MarkdownPiece("- x\n- y\n"),
    )


def test_only_the_last_block_stays_open() -> None:
    assert split_finished_pieces((), "one\n\ntwo", True) == ((MarkdownPiece("one"),), "two", True)


def test_a_long_open_fence_is_drawn_in_parts() -> None:
    source = "```python\n" + "\n".join(f"x{number} = 1" for number in range(200))
    pieces, rest, gap = split_finished_pieces((), source, True)
    assert len(pieces) > 3
    assert all(piece.source.startswith("```python\n") and piece.source.endswith("\n```") for piece in pieces)
    assert [piece.has_gap for piece in pieces] == [True] + [False] * (len(pieces) - 1)
    assert not gap
    code = [line for piece in (*pieces, MarkdownPiece(rest)) for line in piece.source.split("\n") if "=" in line]
    assert code == source.split("\n")[1:]


def test_a_long_list_is_drawn_in_parts_that_count_on() -> None:
    source = "\n".join(f"{number}. item" for number in range(1, 120))
    pieces = split(source)
    assert len(pieces) > 2
    assert "\n".join(piece.source for piece in pieces) == source


def test_the_items_of_a_long_list_are_not_counted_anew_for_each_part() -> None:
    parsed: list[int] = []
    source = "- item\n" * 2_000

    class Watched(MarkdownIt):
        def parse(self, src: str, env: MutableMapping[str, Any] | None = None) -> list[Token]:
            parsed.append(len(src))
            return PARSER.parse(src, env)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ebbtide.tui.render.markdown.PARSER", Watched())
        assert len(split(source)) > 50
    assert sum(parsed) < 20 * len(source)


def test_a_long_paragraph_is_drawn_in_parts() -> None:
    source = "A sentence of some words. " * 1_000
    pieces = split(source)
    assert len(pieces) > 3
    assert " ".join(piece.source.strip() for piece in pieces) == source.strip()


@given(st.lists(st.sampled_from(BLOCKS), max_size=8), st.data())
def test_pieces_do_not_depend_on_how_the_text_arrives(blocks: list[str], data: st.DataObject) -> None:
    source = "\n\n".join(blocks)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(source)), max_size=6)))
    pieces: tuple[MarkdownPiece, ...] = ()
    rest, gap = "", True
    for start, end in zip([0, *cuts], [*cuts, len(source)], strict=True):
        pieces, rest, gap = split_finished_pieces(pieces, rest + source[start:end], gap)
    whole = (*pieces, MarkdownPiece(rest, gap)) if rest.strip() else pieces
    assert "".join("".join(piece.source.split()) for piece in whole) == "".join(source.split())


@given(st.text())
def test_any_text_is_kept_whole(source: str) -> None:
    joined = "".join("".join(piece.source.split()) for piece in split(source))
    assert joined == "".join(source.split())
