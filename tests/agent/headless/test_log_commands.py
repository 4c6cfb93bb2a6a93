"""Lines that the runners of CI systems obey do nothing in the log of a run."""

import json
from xml.etree import ElementTree

import pytest

from ebbtide.agent.headless.printing import escape_for_log, escape_json_for_log, escape_xml_for_log

GITHUB = {"GITHUB_ACTIONS": "true"}


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("::error::x", "\\::error::x"),
        ("ok\n  ::add-mask::a\n", "ok\n  \\::add-mask::a\n"),
        ("ok\r::Set-Output name=a::b", "ok\r\\::Set-Output name=a::b"),
        ("::stop-commands::t\n::std::vector<int> a;", "\\::stop-commands::t\n::std::vector<int> a;"),
        # actions/runner issue 4692: the older form is obeyed anywhere in a line.
        ("see `##[error]Process completed`", "see `##\\[error]Process completed`"),
        ("a ##vso[task.setvariable variable=x]y", "a ##\\vso[task.setvariable variable=x]y"),
        ("## A title [1], a::error::b", "## A title [1], a::error::b"),
    ],
)
def test_a_line_that_the_runner_would_obey_gets_a_backslash(text: str, printed: str) -> None:
    assert (escape_for_log(text, GITHUB), escape_for_log(text, {})) == (printed, text)


@pytest.mark.parametrize("environment", [GITHUB, {"TF_BUILD": "True"}, {"TEAMCITY_VERSION": "2026.1"}])
def test_json_and_xml_mean_what_they_meant(environment: dict[str, str]) -> None:
    text = "##[group]a ##teamcity[buildStop] ##vso[x]\n::error::b"
    line = escape_json_for_log(json.dumps({"a": text}), environment)
    page = escape_xml_for_log(f"<a>{text}</a>", environment)
    assert ("##" in line, json.loads(line)) == (False, {"a": text})
    assert ("##" in page, "\n::" in page, ElementTree.fromstring(page).text) == (False, False, text)
