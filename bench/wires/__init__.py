"""Replays recorded provider answers through the real HTTP path and compares what the adapters make of them.

    python -m bench.wires FOLDER [ROW ...] [--wire NAME]

FOLDER holds `*.jsonl` files with one recorded answer a line: `id`, `source`, `wire`, `provider`, `model`, `status`,
`headers`, `body` and `expected` (text, tool calls, reasoning, usage and stop reason as the provider's own SDK reads
them, and what the next request has to return). The exit code is 1 if an answer is read differently."""
