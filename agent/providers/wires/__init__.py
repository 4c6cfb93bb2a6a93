"""Adapters for the providers' APIs, one per API ("wire"), and what they share: HTTP, encoding, decoding, errors."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.providers.wires import adapter as adapter
    from ebbtide.agent.providers.wires import anthropic as anthropic
    from ebbtide.agent.providers.wires import certificates as certificates
    from ebbtide.agent.providers.wires import chatgpt as chatgpt
    from ebbtide.agent.providers.wires import clouds as clouds
    from ebbtide.agent.providers.wires import connection_errors as connection_errors
    from ebbtide.agent.providers.wires import copilot as copilot
    from ebbtide.agent.providers.wires import error_body_limit as error_body_limit
    from ebbtide.agent.providers.wires import httpx_bridge as httpx_bridge
    from ebbtide.agent.providers.wires import network_errors as network_errors
    from ebbtide.agent.providers.wires import ollama as ollama
    from ebbtide.agent.providers.wires import openai_chat as openai_chat
    from ebbtide.agent.providers.wires import openai_responses as openai_responses
    from ebbtide.agent.providers.wires import proxies as proxies
    from ebbtide.agent.providers.wires import reachability as reachability
    from ebbtide.agent.providers.wires import response_errors as response_errors
    from ebbtide.agent.providers.wires import scripted as scripted
    from ebbtide.agent.providers.wires import search_adapters as search_adapters
    from ebbtide.agent.providers.wires import server_facts as server_facts
else:
    __getattr__ = lazy_submodules(__name__)
