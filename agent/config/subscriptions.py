"""Providers whose models are paid for by a subscription: the user signs in, or for some also sets a key."""

from collections.abc import Mapping
from typing import NamedTuple


class Subscription(NamedTuple):
    """Address of a provider's API, and how users get access to it."""

    title: str
    """The subscription's name, as its owner writes it."""
    base_url: str
    key_variable: str
    """The environment variable with a key; empty if there are no keys."""
    sign_in_url: str
    """Default address of the server that signs users in."""
    client_id: str
    """Id that the provider has published for other programs to sign in with; empty if a program needs its own."""


SUBSCRIPTIONS: Mapping[str, Subscription] = {
    "copilot": Subscription(
        "GitHub Copilot", "https://api.githubcopilot.com", "COPILOT_GITHUB_TOKEN", "https://github.com", ""
    ),
    "chatgpt": Subscription(
        "ChatGPT", "https://api.openai.com/v1", "", "https://auth.openai.com", "dynamic_agent_client"
    ),
}
"""GitHub's variable is that of its own command line (docs.github.com, "Authenticating Copilot CLI"). OpenAI's id is the
entry point for registering a program (developers.openai.com/siwc/token-sharing-open-source/sign-in)."""
