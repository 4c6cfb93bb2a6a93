"""A map of a project's code: what each file defines and uses, ranked by use. It runs as a program of its own."""
