"""Rows of a file of attacks, decided by the permission policy and carried out against the program itself.

    python -m bench.attacks FILE          what the policy decides; nothing is run
    python -m bench.attacks FILE run      each row, behind walls; `run ROW…` only those

Each row is a JSON object with `id`, `area`, `setup` (`policy`: a name in `attacks_policies.json` beside the file;
`mode`, `files`, `symlinks`, `git_repo`, …), `action` (`tool` and `args`, or what else is done) and `expected`.
`tests/bench/attacks` has some of each area. A row that nobody here knows how to carry out is counted with the reason.
"""
