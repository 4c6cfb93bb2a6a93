"""What each released version has left in its user's folders: a store with one session, and a configuration. They are
never changed; `python -m tests.releases.keep` adds that of the version that is about to be released, and
`0.1-2026-11-21` is from the first code that could be used."""
