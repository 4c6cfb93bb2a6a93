"""Whether other processes may look into this one."""

import subprocess
import sys

import pytest

from tests.running import ROOT

LOOKS = """
import ctypes
from tools.process.own_memory import close_own_memory
before = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
close_own_memory()
print(before, ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this switch")
@pytest.mark.parametrize(("environment", "told"), [({}, "1 0"), ({"EBB_DEBUGGABLE": "1"}, "1 1")])
def test_nobody_looks_into_the_process_unless_its_user_says_so(environment: dict[str, str], told: str) -> None:
    ran = subprocess.run([sys.executable, "-c", LOOKS], env=environment, cwd=ROOT, capture_output=True, check=True)
    assert ran.stdout.decode().strip() == told
