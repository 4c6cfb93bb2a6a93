"""Companies whose models are reached through OpenAI's chat API. Users only need to set a key."""

from collections.abc import Mapping
from typing import NamedTuple


class ChatHost(NamedTuple):
    """Address of a provider's API, and the environment variable with its key, as in the provider's documentation."""

    base_url: str
    key_variable: str


CHAT_HOSTS: Mapping[str, ChatHost] = {
    "cerebras": ChatHost("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "deepseek": ChatHost("https://api.deepseek.com", "DEEPSEEK_API_KEY"),
    "fireworks": ChatHost("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "gemini": ChatHost("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "github": ChatHost("https://models.github.ai/inference", "GITHUB_TOKEN"),
    "groq": ChatHost("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "huggingface": ChatHost("https://router.huggingface.co/v1", "HF_TOKEN"),
    "mistral": ChatHost("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "openrouter": ChatHost("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "together": ChatHost("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "xai": ChatHost("https://api.x.ai/v1", "XAI_API_KEY"),
}
