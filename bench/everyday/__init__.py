"""Compares everyday commands run by the bash tool and by `bash -c`: exit code, output, and files left behind.

    python -m bench.everyday FOLDER [ROW…]                 with and without the sandbox
    python -m bench.everyday FOLDER --as NAME[,NAME…]      in other users' setups; `--as all`: all of them

`FOLDER` contains `*.jsonl`, one row per line with `id`, `place`, `command` and `compare`, and `places.sh`, which
creates the folders that rows name as their place: in `w` of a base folder (`--places`, default /home/everyday), with a
home folder `home` next to it. The base folder must not be in /tmp, which is a different folder in the sandbox. It is
created once, manually, since that may need network access. Each command starts from the same files at the same path.

A difference is expected if `bench.everyday.expected_differences` lists it and the output says what was blocked and how
to allow it. Any other difference is a fault."""
