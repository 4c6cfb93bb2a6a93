"""Rows of a file of attacks, decided by the permission policy and carried out against the program itself.

    EBB_ATTACKS=attacks.jsonl python -m bench.attacks          what the policy decides; nothing is run
    EBB_ATTACKS=attacks.jsonl python -m bench.attacks run      each row, behind walls; `run ID…` only those

Each row is a JSON object with `id`, `area`, `setup` (`policy`: a name in `attacks_policies.json` beside the file;
`mode`, `files`, `symlinks`, `git_repo`, …), `action` (`tool` and `args`, or what else is done) and `expected`.
The file is no part of the project. A row that nobody here knows how to carry out is counted with the reason.
"""
