"""Gathers the pages of the site in a folder: `python -m docs.site FOLDER`.

The README is the first page. Links to files of the repository that are no pages become plain text.
"""

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
_OUTSIDE_LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./|AGENT\.md|CHANGELOG\.md|LICENSE)[^)]*\)")


def first_page(readme: str) -> str:
    """Return the README as a page beside those of docs/."""
    return readme.replace("](docs/", "](")


def without_outside_links(markdown: str) -> str:
    """Return Markdown in which links out of the site are their text."""
    return _OUTSIDE_LINK.sub(r"\1", markdown)


def gather(folder: Path) -> None:
    """Write all pages, pictures and schemas into a new folder; what it held is deleted."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.py", "*.1", "__pycache__"))
    (folder / "index.md").write_text(first_page((ROOT / "README.md").read_text("utf-8")), "utf-8")
    for page in folder.glob("*.md"):
        page.write_text(without_outside_links(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    gather(Path(sys.argv[1]))
