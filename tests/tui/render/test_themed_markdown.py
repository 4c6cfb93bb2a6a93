import pytest
from pygments.lexers import find_lexer_class_for_filename  # type: ignore[import-untyped]
from rich.segment import Segment
from textual.theme import BUILTIN_THEMES

from ebbtide.tui.render.themed_markdown import PaletteConsole, language_for_file_name, markdown_renderable
from ebbtide.tui.text.styles import get_palette

PALETTE = get_palette(BUILTIN_THEMES["textual-dark"].to_color_system().generate())


def drawn(source: str) -> list[Segment]:
    (line,) = PaletteConsole(PALETTE).render_to_lines(markdown_renderable(source, PALETTE), 100)
    return line


def text(source: str) -> str:
    return "".join(segment.text for segment in drawn(source)).rstrip()


def targets(source: str) -> dict[str, str]:
    """The words that can be followed, and where to."""
    return {segment.text: segment.style.link for segment in drawn(source) if segment.style and segment.style.link}


def test_a_link_shows_its_address_and_can_be_followed() -> None:
    source = "see [the *notes*](https://a.example/x?y=1), please"
    assert text(source) == "see the notes (https://a.example/x?y=1), please"
    assert targets(source) == {"the ": "https://a.example/x?y=1", "notes": "https://a.example/x?y=1"}


def test_an_address_is_not_shown_twice() -> None:
    assert text("<https://a.example/ö>") == "https://a.example/ö"


def test_what_leads_elsewhere_than_into_the_web_is_not_followed() -> None:
    source = "[a](mailto:a@b.example) [b](javascript:alert) [c](../x.md)"
    assert text(source) == "a (mailto:a@b.example) [b](javascript:alert) c (../x.md)"
    assert targets(source) == {}


FILE_NAMES = (
    "a.py a.ts a.tsx a.h a.sql a.pl a.s a.S Makefile CMakeLists.txt Dockerfile PKGBUILD .bashrc a.unknown a a.test.js "
    "a.php5 nginx.conf a.m x-Makefile.am"
)


@pytest.mark.parametrize("name", ["", *FILE_NAMES.split()])
def test_the_language_of_a_file_is_the_one_that_pygments_finds(name: str) -> None:
    lexer_class = find_lexer_class_for_filename(name)
    assert language_for_file_name(name) == (lexer_class.aliases[0] if lexer_class is not None else "")
