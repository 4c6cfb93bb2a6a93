"""Everyday commands, run by the bash tool and by `bash -c`, and compared: exit code, output, files left behind.

    python -m bench.everyday FOLDER [ROW…]                 with the sandbox and without
    python -m bench.everyday FOLDER --as NAME[,NAME…]      as other users have it set up; `--as all`: all of them

`FOLDER` holds `*.jsonl`, a row a line with `id`, `place`, `command` and `compare`, and `places.sh`, which builds the
folders that rows name as their place: in `w` of a folder (`--places`, /home/everyday unless named), with a home folder
in `home` beside. They must not lie in /tmp, which is another folder in the sandbox. They are built once, by hand, since
that may need a network. Each command starts from the same files at the same path.

A difference counts as meant where `bench.everyday.expected_differences` lists it and the output says what was held back
and how to open it. Any other one is a fault.
"""
