"""Which files and names the words of a message are about."""

from ebbtide.agent.prompt.mentions import file_names_in, files_mentioned, identifiers_in

FILES = ("README.md", "src/util/helper.py", "a/same.py", "b/same.py", "src/main.c", "Makefile")


def test_files_are_named_by_their_path_or_by_a_name_that_only_one_has() -> None:
    text = "Fix `README.md`, (helper.py) and ./src/main.c: see Makefile, same.py, nothing.py and util."
    assert files_mentioned(text, FILES) == ("README.md", "src/util/helper.py", "src/main.c", "Makefile")
    assert files_mentioned("In helper.py. Look at helper.py!", FILES) == ("src/util/helper.py",)
    assert files_mentioned("", FILES) == ()
    assert files_mentioned("." * 10_000, FILES) == ()


def test_what_has_the_form_of_a_file_is_a_name_of_one() -> None:
    text = "Create hello.py and 'docs/a.md', version 1.2.0 with node.js."
    assert file_names_in(text) == ("hello.py", "docs/a.md", "node.js")


def test_names_of_programs_are_written_as_such_or_quoted() -> None:
    text = "Set MAX_SIZE in getUser or load_all, UserList too; 'projct' is wrong, I don't say Why and API `x y`"
    assert identifiers_in(text) == ("MAX_SIZE", "getUser", "load_all", "UserList", "projct", "x y")
