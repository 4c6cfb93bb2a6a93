"""The repository map: what each file defines and uses, ranked by use. It runs in a process of its own."""
