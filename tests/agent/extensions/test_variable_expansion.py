"""Folders that stand as variables in lines for a shell and in texts: one word, even with a blank in their path."""

import shlex
import subprocess

import pytest

from ebbtide.agent.extensions.variable_expansion import fill_shell_line, fill_text, quote_variables

PATH = "/home/me/My Projects/it's $5"
VALUES = {"CLAUDE_PROJECT_DIR": PATH}
IN_ONE_WORD = [
    "$CLAUDE_PROJECT_DIR/a.sh",
    "sh ${CLAUDE_PROJECT_DIR}/a.sh",
    "sh ${CLAUDE_PROJECT_DIR:-.}/a.sh",
    '"$CLAUDE_PROJECT_DIR"/a.sh',
    'sh "${CLAUDE_PROJECT_DIR}/a.sh"',
    "cd $CLAUDE_PROJECT_DIR && pwd  # don't split it",
    "X=$CLAUDE_PROJECT_DIR sh -c 'echo \"$X\"'",
    '"$(dirname "$CLAUDE_PROJECT_DIR")/a.sh"',
    'sh "$(echo "$CLAUDE_PROJECT_DIR")/a.sh" \'one $CLAUDE_PROJECT_DIR\'',
    "cat <<E\n$CLAUDE_PROJECT_DIR\nE",
]


def printed(line: str) -> str:
    """What bash prints where each command prints its words, one a line."""
    words = 'say() { printf "%s\\n" "$0" "$@" X="$X"; }; sh() { say sh "$@"; }; cd() { say cd "$@"; }\n'
    unknown = 'command_not_found_handle() { say "$@"; }\n'
    environment = {**VALUES, "PATH": "/usr/bin:/bin"}
    run = subprocess.run(["bash", "-c", words + unknown + line], env=environment, capture_output=True, text=True)
    return run.stdout + run.stderr


@pytest.mark.parametrize("line", IN_ONE_WORD)
def test_an_unquoted_folder_is_one_word_for_the_shell(line: str) -> None:
    """anthropics/claude-code#5648, awslabs/aidlc-workflows#519, ruvnet/agentic-flow#184: hooks that name their script
    with an unquoted `$CLAUDE_PROJECT_DIR` fail in each project with a blank in its path."""
    assert "/home/me/My\n" not in printed(quote_variables(line, VALUES))
    assert printed(quote_variables(quote_variables(line, VALUES), VALUES)) == printed(quote_variables(line, VALUES))


@pytest.mark.parametrize("line", [line for line in IN_ONE_WORD if '"$C' in line or '"$(' in line or "<<" in line])
def test_a_line_that_quotes_it_stays_as_it_is(line: str) -> None:
    assert quote_variables(line, VALUES) == line


@pytest.mark.parametrize("line", IN_ONE_WORD)
def test_a_line_for_a_plain_folder_stays_as_it_is(line: str) -> None:
    assert quote_variables(line, {"CLAUDE_PROJECT_DIR": "/srv/app", "CLAUDE_PLUGIN_ROOT": ""}) == line


@pytest.mark.parametrize(
    "line",
    [
        "cat ${CLAUDE_PROJECT_DIR}/a.md",
        'cat "${CLAUDE_PROJECT_DIR}/a.md"',
        'cat "a b"${CLAUDE_PROJECT_DIR}',
        "cat ${CLAUDE_PROJECT_DIR:-.}",
    ],
)
def test_a_folder_put_into_a_line_is_one_word(line: str) -> None:
    becomes = fill_shell_line(line, VALUES)
    assert shlex.split(becomes.replace("\\$", "$")) == [
        word.replace("${CLAUDE_PROJECT_DIR}", PATH) for word in shlex.split(line)
    ]


def test_a_folder_put_into_words_is_one_word_where_a_file_is_named() -> None:
    assert fill_text("See @${A}/x.md, @${A}. ${A} a@${A}", {"A": "/a b"}) == 'See @"/a b/x.md", @"/a b". /a b a@/a b'
    assert fill_text("See @${A}/x.md, @${B}", {"A": "/a"}) == "See @/a/x.md, @${B}"
