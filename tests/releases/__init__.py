"""What each released version has left in its user's folders: a store with one session, and a configuration. They are
never changed. `0.1-2026-11-21` is from the first code that could be used.

For a release: its number in `ebbtide/version.py`, a heading in CHANGELOG.md, `python -m tests.releases.keep`, which
adds what it leaves, and `make installs`."""
