"""The pages that `make site` is made of. That their links lead somewhere is checked where the site is built."""

from pathlib import Path

from docs.site import first_page, gather, without_outside_links
from tests.kit.commands import ROOT


def test_links_out_of_the_site_are_plain_text() -> None:
    text = "[the map](AGENT.md), [listed](../tools/x.py), [scripts](scripts.md#json), [web](https://example.org)"
    assert without_outside_links(text) == "the map, listed, [scripts](scripts.md#json), [web](https://example.org)"
    assert first_page("[guide](docs/guide.md) ![x](docs/terminal.svg)") == "[guide](guide.md) ![x](terminal.svg)"


def test_every_page_is_in_the_menu(tmp_path: Path) -> None:
    gather(tmp_path / "pages")
    pages = {page.name for page in (tmp_path / "pages").glob("*.md")}
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert "index.md" in pages
    assert {page for page in pages if page not in menu} == set()
    assert [path.name for path in (tmp_path / "pages").rglob("*.py")] == []
