"""Calls that a model writes into its text: which text is a call, and which only shows one."""

import html
import json
from dataclasses import replace

import pytest

from ebbtide.agent.calls.call_resolution import is_callable_name, known_argument_names, matches_tool_exactly
from ebbtide.agent.events.session import CallsRead, TurnFinished
from ebbtide.agent.integrations.small_models.call_forms import TextCall
from ebbtide.agent.integrations.small_models.call_search import (
    EXAMPLE_CALL_ADVICE,
    NOT_A_CALL_ADVICE,
    FoundCalls,
    find_calls,
)
from ebbtide.agent.integrations.small_models.text_calls import MAX_COMPARED_CALLS, convert_text_calls
from ebbtide.agent.messages import Assistant, Reasoning, Text, ToolCall
from ebbtide.agent.providers.base import ModelFacts
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.tools.base import Tool
from ebbtide.tools.catalog import create_builtin_tools
from tests.kit.session import Home, events_of, finished, first_turn

TOOLS: dict[str, Tool] = {tool.name: tool for tool in create_builtin_tools()}
LS, WC = TextCall("bash", {"command": "ls"}), TextCall("bash", {"command": "wc a"})
ONE = '{"name": "bash", "arguments": {"command": "ls"}}'
TWO = '{"name": "bash", "arguments": {"command": "wc a"}}'

XML = "<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>"
HARMONY = '<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{"command": "ls"}<|call|>'
GLM = "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>"
DEEPSEEK = (
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>bash\n```json\n{"command": "ls"}\n```'
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)
DEEPSEEK_NEW = (
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>bash<｜tool▁sep｜>{"command": "ls"}'
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)
KIMI = (
    '<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{"command": "ls"}'
    "<|tool_call_end|><|tool_calls_section_end|>"
)
INVOKES = (
    '<function_calls>\n<invoke name="bash">\n<parameter name="command">ls</parameter>\n</invoke>\n'
    '<invoke name="bash">\n<parameter name="command">wc a</parameter>\n</invoke>\n</function_calls>'
)


@pytest.mark.parametrize(
    ("text", "calls", "words"),
    [
        (ONE, [LS], ""),
        (f"```json\n{ONE}\n```", [LS], ""),
        (f"I look.\n\n```json\n{ONE}\n```\n", [LS], "I look."),
        (f"```json\n{ONE}\n```\n\n```json\n{TWO}\n```", [LS, WC], ""),
        (f"```\n{ONE}\n{TWO}\n```", [LS, WC], ""),
        (f"```json\n[{ONE}, {TWO}]\n```", [LS, WC], ""),
        (f"{ONE}\n{TWO}", [LS, WC], ""),
        (f"```json\n{ONE}\n```\nThis lists the files.", [LS], "This lists the files."),
        (f"```json\n{ONE}", [LS], ""),
        (f"<tool_call>\n{ONE}\n</tool_call>\n<tool_call>{TWO}</tool_call>", [LS, WC], ""),
        (f"First this. <tool_call>{ONE}</tool_call>", [LS], "First this."),
        (f"<tool_call>{ONE}", [LS], ""),
        (f"<tools>\n{ONE}\n{TWO}\n</tools>", [LS, WC], ""),
        (f"[TOOL_CALLS][{ONE}]", [LS], ""),
        ("<tool_call><function=bash>\n<parameter=command>\nls\n</parameter>\n</function></tool_call>", [LS], ""),
        ('<function=bash>{"command": "ls"}</function>', [LS], ""),
        ('<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{"command": "ls"}<|call|>', [LS], ""),
        ('<|start|>assistant<|channel|>commentary to=functions.bash<|message|>{"command": "ls"}', [LS], ""),
        ('{"type": "function", "function": {"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}}', [LS], ""),
        (f'{{"tool_calls": [{ONE}]}}', [LS], ""),
        ('{"name": "bash", "parameters": {"command": "ls"}}', [LS], ""),
        ("```python\n{'name': 'bash', 'arguments': {'command': 'ls'}}\n```", [LS], ""),
        ('```json\n{"name": "bash", "arguments": {"command": "ls",},}\n```', [LS], ""),
        ('{"name": "bash", "arguments": {"command": """ls"""}}', [LS], ""),
        (f"```json {ONE}```", [LS], ""),
        (f"```xml\n<tool_call>\n{ONE}\n</tool_call>\n```", [LS], ""),
        (f"<tool_call>{ONE}</tool_call><|im_end|>", [LS], ""),
        (f"<|python_tag|>{ONE}", [LS], ""),
        (f"<|tool_call|>[{ONE}, {TWO}]<|/tool_call|>", [LS, WC], ""),
        (f"functools[{ONE}]", [LS], ""),
        ('[TOOL_CALLS]bash[ARGS]{"command": "ls"}', [LS], ""),
        ('[TOOL_CALLS]bash[ARGS]{"command": "ls"}[TOOL_CALLS]bash[ARGS]{"command": "wc a"}', [LS, WC], ""),
        (GLM, [LS], ""),
        (DEEPSEEK, [LS], ""),
        (f"I look.\n{DEEPSEEK_NEW}", [LS], "I look."),
        (INVOKES, [LS, WC], ""),
        ('{"action": "bash", "action_input": {"command": "ls"}}', [LS], ""),
        ('bash(command="ls")', [LS], ""),
        (f"{ONE}\n```", [LS], ""),
        ('<tools>\n  <function name="bash" command="ls"/>\n</tools>\nThis lists.', [LS], "This lists."),
        ('I look.\n```python\nbash(command="ls")\nbash(command=\'wc a\')\n```', [LS, WC], "I look."),
        ('bash({"command": "ls"})', [LS], ""),
        ('```tool_code\nprint(default_api.bash(command="ls"))\n```', [LS], ""),
        ('[bash(command="ls"), bash(command="wc a")]', [LS, WC], ""),
        ('<|python_tag|>bash(command="ls")', [LS], ""),
        ('<tool_call>\nbash(command="ls")\n</tool_call>', [LS], ""),
        ('edit(path="a", replace_all=True, old="""x\ny""")',
         [TextCall("edit", {"path": "a", "replace_all": True, "old": "x\ny"})], ""),
        ('{"tool": "bash", "command": "ls"}', [LS], ""),
        ('```json\n{"bash": {"command": "ls"}}\n```', [LS], ""),
        (KIMI, [LS], ""),
        (INVOKES.replace("<", "<｜DSML｜").replace("<｜DSML｜/", "</｜DSML｜"), [LS, WC], ""),
        (INVOKES.replace("function_calls", "minimax:tool_call"), [LS, WC], ""),
        ('Thought: I look.\nAction: bash\nAction Input: {"command": "ls"}', [LS], "Thought: I look."),
        ('{"name": "bash", "arguments": {"command": "a\nb"}}', [TextCall("bash", {"command": "a\nb"})], ""),
    ],
)  # fmt: skip
def test_a_reply_that_ends_in_calls_or_begins_with_them_makes_them(
    text: str, calls: list[TextCall], words: str
) -> None:
    assert find_calls(text) == FoundCalls(tuple(calls), words)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No call.",
        f"The file holds this:\n\n```json\n{ONE}\n```\n\nIt lists a folder.",
        f"A call such as {ONE} lists a folder.",
        f"In the file stands `{ONE}`",
        f"<tool_call>{ONE}</tool_call> is how Qwen calls.\n\n```\n{TWO}\n```",
        f"```json\n{{\"calls\": [{ONE}]}}\n```",
        f"```python\nCALL = {ONE}\n```",
        f"The log:\n```\nstarting\n{ONE}\n```",
        f"```\n{ONE}\nended\n```",
        '{"name": "bash", "version": "1.0", "arguments": {}}',
        '{"name": "app", "scripts": {"build": "make"}}',
        '{"name": 5, "arguments": {}}',
        '{"name": "bash", "arguments": "ls"}',
        '{"name": "bash", "arguments": {"command": "ls"',
        '{"name": "bash", "arguments": ' + '{"a": ' * 10_000,
        "[" * 100_000,
        "[1] a footnote\n[2] another one",
        "<tool_call>not an object</tool_call>",
        'Call\n```js\nbash({"command": "ls"})\n```',
        'x = bash(command="ls")',
        'bash(command=other)',
        'bash("ls")',
        'bash(command="ls"',
        'bash(command="ls").text',
        'def f():\n    return bash(command="ls")',
        "[bash(command='ls')",
    ],
    ids=lambda text: text[:40],
)  # fmt: skip
def test_a_text_that_only_shows_a_call_or_a_piece_of_one_makes_none(text: str) -> None:
    assert find_calls(text) is None


def taken(text: str, *seen: str) -> bool:
    reply = Assistant((Text(text),))
    offered = ("read", "bash")
    made = convert_text_calls(
        reply,
        lambda call: (matches_tool_exactly if call.is_ambiguous else is_callable_name)(
            call.name, call.arguments, TOOLS, offered
        ),
        lambda: seen,
        lambda: known_argument_names(TOOLS, ("read", "bash")),
    )
    return made is not reply


def test_a_call_of_a_tool_that_is_not_there_is_one_where_it_is_meant() -> None:
    assert taken(ONE)
    assert taken(ONE.replace("bash", "run_shell_command"))
    deploy, weather = ONE.replace("bash", "deploy"), '{"name": "get_weather", "arguments": {"city": "Bonn"}}'
    assert taken(deploy)
    assert taken(weather)
    assert taken(f"{ONE}\n{weather}")
    assert taken(f"I deploy it.\n```json\n{deploy}\n```")
    assert taken('I look.\n{"name": "show", "arguments": {"filePath": "a"}}')
    assert not taken(f"A call of a model looks like this:\n```json\n{weather}\n```")


def test_what_is_code_or_data_as_well_is_a_call_of_a_tool_with_its_arguments_alone() -> None:
    for form in ("{}(command='ls')", '{{"tool": "{}", "command": "ls"}}', '{{"{}": {{"command": "ls"}}}}'):
        assert taken(form.format("bash"))
        assert not taken(form.format("Bash"))
        assert not taken(form.format("run_shell_command"))
        assert not taken(form.format("bash").replace("command", "query"))
        assert not taken(form.format("bash"), f"1\t{form.format('bash')}")
        assert not taken(form.format("bash"), f"I run\n> {ONE}")


def test_after_two_refusals_what_calls_no_tool_is_the_answer() -> None:
    deploy, refusal = ONE.replace("bash", "deploy"), "there is no tool `deploy`; the tools are read, bash"
    assert [taken(deploy, *[refusal] * count) for count in range(4)] == [True, True, False, False]
    assert taken(deploy, *[refusal.replace("deploy", "other")] * 3)


QUOTED = [
    ONE,
    f"1\t# How to call\n2\t{ONE}\n(lines 1-2)",
    '4\t{\n5\t  "name": "bash",\n6\t  "arguments": {\n7\t    "command": "ls"\n8\t  }\n9\t}',
    f"calls.log:7:{ONE}",
    json.dumps({"message": ONE}),
    f"Please answer with {ONE}",
]


@pytest.mark.parametrize("seen", QUOTED)
def test_what_stands_in_a_file_or_in_what_the_user_said_is_a_quotation(seen: str) -> None:
    pretty = json.dumps(json.loads(ONE), indent=4)
    assert [taken(text, "other", seen) for text in (ONE, f"```json\n{pretty}\n```", f"It says\n{ONE}")] == [False] * 3
    assert taken(TWO, "other", seen)


FORMS = [XML, HARMONY, GLM, DEEPSEEK, DEEPSEEK_NEW, INVOKES, "{'name': 'bash', 'arguments': {'command': 'ls',},}"]


SEEN_AS = {
    "a file": "{}",
    "read": "{number}\t{}",
    "grep -n": "docs/calls.md:{number}:{}",
    "git diff": "+{}",
    "read of a diff": "{number}\t+{}",
    "grep in a diff": "a.diff:{number}:+{}",
    "a mail": "> {}",
    "a comment": "    # {}",
}


@pytest.mark.parametrize("line", SEEN_AS.values(), ids=SEEN_AS)
@pytest.mark.parametrize("quoted", FORMS)
def test_a_quotation_is_one_in_whatever_form_it_stands_and_is_given_back(quoted: str, line: str) -> None:
    rows = ["How to call", *quoted.split("\n"), "and on"]
    seen = "\n".join(line.format(row, number=number) for number, row in enumerate(rows, 1))
    for text in (f"It says:\n{quoted}", ONE, XML, f"So:\n{GLM}"):
        assert not taken(text, "other", seen)
    assert taken(ONE.replace("ls", "make"), "other", seen)


@pytest.mark.parametrize("quoted", FORMS)
def test_what_stands_in_a_page_or_in_a_string_is_a_quotation(quoted: str) -> None:
    assert not taken(f"It says:\n{quoted}", f"<pre>{html.escape(quoted)}</pre>")
    assert not taken(f"It says:\n{quoted}", json.dumps({"message": quoted}, ensure_ascii=False))


def test_what_was_told_with_more_marks_than_are_compared_is_a_quotation() -> None:
    assert not taken(ONE, "<tool_call>" * (MAX_COMPARED_CALLS + 1))
    assert taken(ONE, "<tool_call>" * MAX_COMPARED_CALLS)


def test_a_text_of_empty_lines_takes_no_longer_than_another() -> None:
    assert taken(ONE, "\n" * 200_000)


def test_a_call_that_cannot_be_read_is_one_with_a_problem() -> None:
    broken = ONE.replace("ls", 'echo "a"')
    for text, words in ((broken, ""), (f"I do.\n```json\n{broken}\n```", "I do."), (f"<tool_call>{broken}", "")):
        reply = convert_text_calls(Assistant((Text(text),)), lambda call: call.name == "bash", tuple)
        (call,) = reply.calls
        assert (reply.text, call.name, call.arguments, call.source) == (words, "bash", {}, text[len(words) :].strip())
        assert "it is not valid JSON (Expecting ',' delimiter) near" in call.problem
    reply = convert_text_calls(Assistant((Text(f"<tool_call>{ONE}}}</tool_call>"),)), lambda call: True, tuple)
    assert "it is not valid JSON (Extra data)" in reply.calls[0].problem


DEFINITION = (
    '<tools>\n{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {}}}\n</tools>'
)


def test_what_stands_between_the_tags_of_calls_and_is_none_is_answered_twice() -> None:
    invented = "<tool_response>\nThe file holds it.\n</tool_response>"
    for text, name in ((DEFINITION, "add"), ("<tool_call>I add it.</tool_call>", "tool"), (invented, "tool")):
        reply = convert_text_calls(Assistant((Text(text),)), lambda call: call.name == "bash", tuple)
        assert reply.calls == (ToolCall("call_text_1", name, {}, text, NOT_A_CALL_ADVICE),)
        assert [taken(text, *[f"the call was not run: {NOT_A_CALL_ADVICE}"] * count) for count in range(3)] == [
            True,
            True,
            False,
        ]
    assert not taken(DEFINITION, f"1\t{DEFINITION}")
    assert not taken(f"The template has this:\n{DEFINITION}")


def test_a_call_between_words_is_not_run_and_the_model_is_told_twice() -> None:
    text = f"Run this:\n\n```json\n{ONE}\n```\n\nIt lists the files."
    reply = convert_text_calls(Assistant((Text(text),)), lambda call: call.name == "bash", tuple)
    call = ToolCall("call_text_1", "bash", {"command": "ls"}, '{"command": "ls"}', EXAMPLE_CALL_ADVICE)
    assert reply.parts == (Text("Run this:\n\nIt lists the files."), call)
    assert [taken(text, *[f"the call was not run: {EXAMPLE_CALL_ADVICE}"] * count) for count in range(3)] == [
        True,
        True,
        False,
    ]
    assert not taken(text.replace("bash", "deploy"))
    assert not taken(text, f"1\t{ONE}")
    assert not taken(f"Run this:\n{ONE}\nIt lists the files.")
    assert not taken(f"Run this:\n```python\nx = {ONE}\n```\nIt lists the files.")


def test_the_first_call_between_words_of_a_small_model_is_made() -> None:
    text = f"First:\n\n```json\n{ONE}\n\n{TWO}\n```\n\nThen write down what it says."
    reply = convert_text_calls(Assistant((Text(text),)), lambda call: call.name == "bash", tuple, is_small_model=True)
    call = ToolCall("call_text_1", "bash", {"command": "ls"}, '{"command": "ls"}')
    assert reply.parts == (Text("First:\n\nThen write down what it says."), call)
    quoted = convert_text_calls(Assistant((Text(text),)), lambda call: True, lambda: [f"1\t{ONE}"], is_small_model=True)
    assert quoted.calls == ()
    unknown = convert_text_calls(Assistant((Text(text),)), lambda call: False, tuple, is_small_model=True)
    assert unknown.calls == ()


def test_an_output_that_is_said_again_in_its_tags_is_an_answer() -> None:
    echo = "<tool_response>\nedited `f.py`, lines 1-2\n</tool_response>"
    reply = convert_text_calls(Assistant((Text(echo),)), lambda call: True, lambda: ["edited `f.py`, lines 1-2"])
    assert reply.parts == (Text("edited `f.py`, lines 1-2"),)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "deploy", "arguments": {"command": "echo "a""}}',
        'So:\n{"name": "bash", "arguments": {"command": "echo "a""}}\nis how.',
        '```python\nx = {"name": "bash", "arguments": {"command": "echo "a""}}\n```',
        '{"name": "bash", "arguments": {"command": "ls',
        '{"name": "bash", "version": "1.0, "arguments": {}}',
    ],
)  # fmt: skip
def test_what_is_no_broken_call_stays_text(text: str) -> None:
    assert not taken(text)


def test_a_broken_call_that_stands_in_a_file_stays_text() -> None:
    broken = ONE.replace("ls", 'echo "a"')
    assert taken(broken)
    assert not taken(broken, "other", f"1\t{broken}")


def test_a_reply_keeps_its_thoughts_and_its_own_calls() -> None:
    thought, call = Reasoning("hm", {"reasoning": "hm"}), ToolCall("c1", "read", {"path": "a"})
    reply = Assistant((thought, Text(f"So:\n{ONE}")), "m")
    made = convert_text_calls(reply, lambda call: True, tuple)
    assert made == Assistant(
        (thought, Text("So:"), ToolCall("call_text_1", "bash", {"command": "ls"}, '{"command": "ls"}')), "m"
    )
    native = Assistant((Text(ONE), call))
    assert convert_text_calls(native, lambda call: True, tuple) is native


class Local(ScriptedProvider):
    """A scripted model of which calls in its text are taken."""

    @property
    def facts(self) -> ModelFacts:
        return replace(super().facts, writes_calls_as_text=True)


async def test_calls_in_text_run_and_are_native_ones_from_then_on(home: Home) -> None:
    (home.root / "a").write_text("hello\n")
    read = '{"name": "Read", "arguments": {"file_path": "a", "limit": "1"}}'
    model = Local.from_replies({"text": f"I look.\n```json\n{read}\n```"}, {"text": read}, {"text": "done"})
    session, events = await first_turn(home.session(model))
    assert [(name, status) for name, status, _ in finished(events)] == [("read", "done")] * 2
    assert [event for event in events if isinstance(event, CallsRead)] == [CallsRead("I look."), CallsRead("")]
    assert events[-1] == TurnFinished("answered", "done")
    written = '{"file_path": "a", "limit": "1"}'
    assert [message.calls for message in session.history.messages if isinstance(message, Assistant)] == [
        (ToolCall("call_text_1", "read", {"path": "a", "limit": 1}, written, called="Read"),),
        (ToolCall("call_text_1-2", "read", {"path": "a", "limit": 1}, written, called="Read"),),
        (),
    ]


async def test_half_of_a_character_in_a_call_is_answered(home: Home) -> None:
    model = Local.from_replies({"text": '{"name": "read", "arguments": {"path": "a\\ud800"}}'}, {"text": "done"})
    _, events = await first_turn(home.session(model))
    answer = "the call was not run: the arguments contain half of a surrogate pair: send the whole character"
    assert (finished(events), events[-1]) == ([("read", "failed", answer)], TurnFinished("answered", "done"))


async def test_the_call_that_a_refusal_names_is_no_quotation(home: Home) -> None:
    (home.root / "a").write_text("hello\n")
    write, read = '{"name": "write", "arguments": {"path": "a", "content": "x"}}', ONE.replace("bash", "read")
    model = Local.from_replies(
        {"text": write}, {"text": read.replace('"command": "ls"', '"path": "a"')}, {"text": "done"}
    )
    _, events = await first_turn(home.session(model))
    assert [(name, status) for name, status, _ in finished(events)] == [("write", "failed"), ("read", "done")]


async def test_a_call_in_text_that_cannot_be_read_is_answered_and_the_model_goes_on(home: Home) -> None:
    model = Local.from_replies(
        {"text": ONE.replace("ls", 'echo "a"')}, {"text": ONE.replace("ls", "echo a")}, {"text": "done"}
    )
    _, events = await first_turn(home.session(model))
    (_, status, answer), second = finished(events)
    assert (status, second) == ("failed", ("bash", "done", "a\nexit code 0"))
    assert answer == (
        'the call was not run: it is not valid JSON (Expecting \',\' delimiter) near `rguments": {"command": "echo '
        '"a""}}`: write a quote inside a string as \\", close each brace once, and send the whole call again'
    )
    assert events[-1] == TurnFinished("answered", "done")


async def test_a_reply_that_only_calls_a_tool_that_is_not_there_does_not_end_the_turn(home: Home) -> None:
    change = '{"name": "patch_text", "arguments": {"path": "a", "content": "b"}}'
    model = Local.from_replies({"text": f"I add a line.\n```json\n{change}\n```"}, {"text": "done"})
    _, events = await first_turn(home.session(model))
    ((name, status, answer),) = finished(events)
    assert (name, status) == ("patch_text", "failed")
    assert answer.startswith("the call was not run: there is no tool `patch_text`; did you mean `write`?")
    assert events[-1] == TurnFinished("answered", "done")


async def test_what_the_model_quotes_from_a_file_it_has_read_is_no_call(home: Home) -> None:
    (home.root / "a").write_text('[{"name": "bash",\n  "arguments": {"command": "rm -r ."}}]\n')
    quoted = '```json\n{"name": "bash", "arguments": {"command": "rm -r ."}}\n```'
    model = Local.from_replies(
        {"text": '{"name": "read", "arguments": {"path": "a"}}'}, {"text": f"It holds\n{quoted}"}
    )
    session, events = await first_turn(home.session(model))
    assert len(finished(events)) == 1
    assert events[-1] == TurnFinished("answered", f"It holds\n{quoted}")
    assert await events_of(session) != []


async def test_a_model_of_which_native_calls_are_taken_alone_has_said_a_text(home: Home) -> None:
    _, events = await first_turn(home.session(ScriptedProvider.from_replies({"text": ONE})))
    assert events[-1] == TurnFinished("answered", ONE)
