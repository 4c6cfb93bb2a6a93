"""What stands for secrets in requests, and comes back out of calls."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.messages import Assistant, Note, Text, ToolCall, ToolOutput, User
from ebbtide.agent.prompt.secret_tokens import SecretTokens, UnknownTokenError, has_tokens
from tests.tools.secrets.test_key_formats import KEYS

TEXTS = st.lists(st.sampled_from([*KEYS.values(), "plain ", "ü\n", "MyPassw0rd!", "⟦secret:NAME#N⟧", "\ud800"]))


@given(TEXTS)
def test_every_byte_comes_back(pieces: list[str]) -> None:
    text = " ".join(pieces)
    tokens = SecretTokens({"MY_PASSWORD": "MyPassw0rd!"})
    hidden = tokens.hide(text)
    assert not any(value in hidden for value in (*KEYS.values(), "MyPassw0rd!"))
    assert tokens.reveal({"a": [hidden]}) == {"a": [text]}
    assert tokens.hide(hidden) == hidden
    assert SecretTokens({"MY_PASSWORD": "MyPassw0rd!"}).hide(text) == hidden


def test_nothing_hidden_is_the_same_object() -> None:
    tokens = SecretTokens({"MY_PASSWORD": "MyPassw0rd!"})
    messages = (User((Text("hi"), ToolOutput("1", "out"))), Assistant((Text("yes"), ToolCall("2", "bash", {"a": [1]}))))
    assert tokens.hide_in_messages(messages) is messages


def test_all_that_a_model_is_shown_is_hidden_in() -> None:
    key = KEYS["github-token"]
    tokens = SecretTokens()
    token = tokens.hide(key)
    call = ToolCall("1", "bash", {"command": f"use {key}", "n": 3}, source=f'{{"command": "use {key}"}}')
    messages = (User((Text(key), Note(f"a {key}"), ToolOutput("1", f"{key}\n"))), Assistant((Text(key), call)))
    expected = (
        User((Text(token), Note(f"a {token}"), ToolOutput("1", f"{token}\n"))),
        Assistant(
            (
                Text(token),
                ToolCall("1", "bash", {"command": f"use {token}", "n": 3}, source=f'{{"command": "use {token}"}}'),
            )
        ),
    )
    assert tokens.hide_in_messages(messages) == expected
    assert all(map(_same, tokens.hide_in_messages(messages), tokens.hide_in_messages(messages)))


def _same(one: object, other: object) -> bool:
    return one is other


@pytest.mark.parametrize("value", ["⟦secret:OPENAI_API_KEY#012345⟧", {"a": ["x ⟦secret:jwt#abcdef⟧"]}])
def test_a_token_that_was_never_shown_stands_for_nothing(value: str | Mapping[str, object]) -> None:
    assert has_tokens(value)
    with pytest.raises(UnknownTokenError):
        SecretTokens({"OPENAI_API_KEY": "sk-0123456789"}).reveal(value)


def test_what_is_learnt_later_is_hidden_in_what_was_looked_at_before() -> None:
    tokens = SecretTokens()
    messages = (User((Text("it is MyPassw0rd!"),)),)
    assert tokens.hide_in_messages(messages) is messages
    tokens.learn("anthropic", "MyPassw0rd!")
    assert tokens.hide_in_messages(messages)[0].text.startswith("it is ⟦secret:anthropic#")


@given(TEXTS, st.integers(1, 7))
def test_a_secret_that_comes_in_pieces_is_hidden_and_nothing_else_is_held_for_good(
    pieces: list[str], size: int
) -> None:
    text = " ".join(pieces) + " the end."
    tokens = SecretTokens({"MY_PASSWORD": "MyPassw0rd!"})
    take = tokens.stream_hider()
    hidden = "".join(take(text[at : at + size]) for at in range(0, len(text), size))
    assert tokens.hide(hidden) == hidden
    assert hidden.endswith(" the end.")
    assert all(piece in hidden for piece in pieces if tokens.hide(piece) == piece)


def test_a_token_of_a_variable_with_an_odd_name_is_taken_out_again() -> None:
    secrets = SecretTokens({"npm_config_//registry/:_authToken": "MyPassw0rd!"})
    hidden = secrets.hide("token=MyPassw0rd!")
    assert (has_tokens(hidden), secrets.reveal(hidden)) == (True, "token=MyPassw0rd!")


@pytest.mark.parametrize("token", ["⟦secret:x#9⟧", "⟦secret:X_KEY#ABCDEF⟧", "⟦secret:a/b#012345⟧"])
def test_what_was_meant_as_a_token_is_written_nowhere(token: str) -> None:
    assert has_tokens(token)
    with pytest.raises(UnknownTokenError):
        SecretTokens().reveal(token)
