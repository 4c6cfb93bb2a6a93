"""Test rows from an attack file: checks the permission policy's decisions, and carries attacks out against the program.

    python -m bench.attacks FILE          what the policy decides; nothing is run
    python -m bench.attacks FILE run      carry out each row in isolation; `run ROW…` only those

Each row is a JSON object with `id`, `area`, `setup` (`policy`: a name in `attacks_policies.json` next to the file;
`mode`, `files`, `symlinks`, `git_repo`, …), `action` (`tool` and `args`, or another action) and `expected`.
`tests/bench/attacks` contains some rows of each area. Unsupported rows are counted with the reason."""
