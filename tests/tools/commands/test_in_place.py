"""Which files a command line edits in place."""

import pytest

from ebbtide.tools.commands.named_files import files_edited_in_place


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("sed -i 's/a/b/' f.py", ("s/a/b/", "f.py")),
        ("cd src && sed -i.bak -e 's/a/b/' f.py g.py", ("src/s/a/b/", "src/f.py", "src/g.py")),
        ("sudo perl -pi -e 's/a/b/' f.py; cat f.py", ("s/a/b/", "f.py")),
        ('sed -i "s/$old/$new/" f.py', ("s/$old/$new/", "f.py")),
        ("sed -n 1,5p f.py", ()),
        ("sed -i s/a/b/ *.py", ()),
        ("sed -i s/a/b/ $file", ()),
        ("sed -i 's/a/b/ f.py", ()),
        ("cp -i a b", ()),
    ],
)
def test_a_line_names_the_files_that_it_edits_in_place(line: str, names: tuple[str, ...]) -> None:
    assert files_edited_in_place(line) == names
