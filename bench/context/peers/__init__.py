"""The context policies of other programs, each as its source has it, played without any of Ebbtide's engine."""

from collections.abc import Mapping

from bench.context.peers.claude_code import ClaudeCode
from bench.context.peers.codex import Codex
from bench.context.peers.crush import Crush
from bench.context.peers.driver import Peer
from bench.context.peers.gemini_cli import GeminiCli
from bench.context.peers.kimi_cli import KimiCli
from bench.context.peers.kimi_code import KimiCode
from bench.context.peers.opencode import OpenCode
from bench.context.peers.pi import Pi
from bench.context.peers.references import ContextEditing, SummaryAtShare

NEVER = "never"
"""The policy without a limit of the window."""
PEERS: Mapping[str, Peer] = {
    NEVER: Peer(),
    "summary at 80 %": SummaryAtShare(),
    "Anthropic's context editing": ContextEditing(),
    "Claude Code": ClaudeCode(),
    "Codex": Codex(),
    "opencode": OpenCode(),
    "crush": Crush(),
    "pi": Pi(),
    "Gemini CLI": GeminiCli(),
    "Kimi Code": KimiCode(),
    "Kimi CLI": KimiCli(),
}
