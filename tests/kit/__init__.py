"""What tests are made of: a helper that two test files need is here.

Sessions: `session` (real parts, without a configuration), `project` (configured as users do it, with a scripted model),
`extension_project` and `mcp_project` (with extensions, hooks, servers), `archived_sessions`. The fixtures `home`,
`priced` and `project` give them, and close what was opened.

Commands: `commands` (`ebb` in a process), `user` (somebody who runs it in a home), `driver` (a program that drives it),
`editor` (one that has `ebb acp`), `installation`, `polling` (until something happens). Fixtures: `user`, `worker`.

Terminals: `app_pilot` (the app, with keys), `fake_sessions` (that say what a test tells them to), `pictures`,
`plain_lines` (drawing without an app), `user_settings`, `every_screen`, `pty_terminal` (a real one), `terminal_bytes`,
`hostile_text`, `hostile_session`.

Providers: `fake_provider` (a server) with `fake_frames`, `strict_api` (what real servers refuse), `adapters` (all of
them, for contract tests), `model_replies`, `request_outputs`, `token_counts`, `server_tools`.

Strategies of Hypothesis: `conversations`, `stored_sessions`, `fuzzed_sessions`, `fuzzed_tools`.

Files: `files`, `git`, `checkpoints` (folders as values), `hostile_repository`, `claude_projects`, `transcripts`,
`tool_logs`, `edit_slips`, `recorded_bash`, `word_vectors`, `read_result_text`, `damages`, `full_disk`. Networks:
`web_server`, `proxies`, `mcp_program`.
"""
