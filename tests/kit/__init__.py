"""What tests are made of. A helper that two test files need is here, or at one of the places named below.

`session`: sessions of real parts, without a configuration. `project`: the program configured as users do it, with a
scripted model. `user`: somebody who runs `ebb` as a process. The fixtures `home`, `priced`, `project`, `user` and
`worker` give them, and close what was opened.

For the terminal: in `tests/tui`, `piloting` (keys and waiting), `doubles` (sessions that say what they are told),
`ptys` (a real terminal) and `picturing`. For servers: `tests/fake_provider` (models), `tests/agent/mcp/serving`.
`tests/running` starts `ebb`, `tests/waiting` waits.
"""
