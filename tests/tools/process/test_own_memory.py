"""Whether other processes may look into this one."""

import subprocess
import sys

import pytest

from tests.kit.commands import ROOT

LOOKS = """
import ctypes
from ebbtide.tools.process.own_memory import protect_own_memory
before = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
protect_own_memory()
print(before, ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this switch")
@pytest.mark.parametrize(("environment", "message"), [({}, "1 0"), ({"EBB_DEBUGGABLE": "1"}, "1 1")])
def test_nobody_looks_into_the_process_unless_its_user_says_so(environment: dict[str, str], message: str) -> None:
    ran = subprocess.run([sys.executable, "-c", LOOKS], env=environment, cwd=ROOT, capture_output=True, check=True)
    assert ran.stdout.decode().strip() == message


SHOWS = """
import os
from ebbtide.tools.process.own_memory import protect_own_memory
protect_own_memory()
block = open("/proc/self/environ", "rb").read()
print(b"CANARY" in block, block.count(b"A_PATH=/here"), os.environ["OPENAI_API_KEY"], os.environ["A_PATH"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the block")
def test_no_key_is_left_in_the_block_that_the_process_was_started_with() -> None:
    environment = {"OPENAI_API_KEY": "sk-CANARY1", "A_PATH": "/here", "MY_ANTHROPIC_API_KEY": "CANARY2", "APIKEY": ""}
    ran = subprocess.run([sys.executable, "-c", SHOWS], env=environment, cwd=ROOT, capture_output=True, check=True)
    assert ran.stdout.decode().split() == ["False", "1", "sk-CANARY1", "/here"]
