"""Providers that users pay by subscription. The user signs in; some providers also accept a key."""

from collections.abc import Mapping
from typing import NamedTuple


class Subscription(NamedTuple):
    """A provider's API address, and how users get access to the API."""

    title: str
    """The subscription's name, as the provider writes it."""
    base_url: str
    key_variable: str
    """The environment variable that contains a key; empty if the provider has no keys."""
    sign_in_url: str
    """Default address of the sign-in server."""
    client_id: str
    """The client id that the provider has published for other programs' sign-in; empty if each program needs its
    own."""


SUBSCRIPTIONS: Mapping[str, Subscription] = {
    "copilot": Subscription(
        "GitHub Copilot", "https://api.githubcopilot.com", "COPILOT_GITHUB_TOKEN", "https://github.com", ""
    ),
    "chatgpt": Subscription(
        "ChatGPT", "https://api.openai.com/v1", "", "https://auth.openai.com", "dynamic_agent_client"
    ),
}
"""The variable for GitHub is the one that Copilot CLI reads (docs.github.com, "Authenticating Copilot CLI"). The client
id for OpenAI is used to register a program (developers.openai.com/siwc/token-sharing-open-source/sign-in)."""
