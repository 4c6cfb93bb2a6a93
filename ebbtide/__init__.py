"""Ebbtide, the one name that this project puts in site-packages.

The wheel keeps agent, tui, tools and store in `ebbtide/_app` and imports them from there (`hatch_build.py`), so that
they meet no package of those names that a caller has. In a checkout they are found at the repository root."""
