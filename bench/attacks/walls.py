"""Walls around attacks: an unprivileged user in namespaces of its own, where every address is this machine's, every
place for temporary files is memory, and nothing else can be written."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

INSIDE = "EBB_ATTACKS_INSIDE"
NAMES = {"public.test": "93.184.216.34", "any.test": "93.184.216.34", "private.test": "10.0.0.1"}
"""What names stand for in there; no other one can be asked about."""

_BUILD = """
set -e
mount --make-rprivate /
if [ "$(id -u)" = 0 ] && [ -n "$PYTHON_PREFIX" ]; then  # root's home is closed to others, and Python may lie in it
  case "$PYTHON_PREFIX" in /root/*)
    mount -t tmpfs tmpfs /mnt; mkdir /mnt/p; mount --bind "$PYTHON_PREFIX" /mnt/p
    mount -t tmpfs -o mode=755 tmpfs /root; mkdir -p "$PYTHON_PREFIX"; mount --move /mnt/p "$PYTHON_PREFIX";;
  esac
fi
for place in /tmp /var/tmp /dev/shm /run; do mount -t tmpfs -o mode=1777,size=1g tmpfs $place; done
printf '%b' "$HOSTS" > /run/hosts; mount --bind /run/hosts /etc/hosts
echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start
ip link set lo up
ip route add local 0.0.0.0/0 dev lo; ip -6 route add local ::/0 dev lo
if [ "$AS_ROOT" = 1 ]; then
  exec setpriv --reuid=nobody --regid=nogroup --clear-groups --inh-caps=-all --no-new-privs "$@"
fi
exec unshare --user --map-user=1000 --map-group=1000 "$@"
"""


def is_inside() -> bool:
    return bool(os.environ.get(INSIDE))


def again_inside(arguments: Sequence[str]) -> int:
    """Runs this program once more, behind the walls; its exit code."""
    is_root = os.geteuid() == 0
    hosts = "127.0.0.1 localhost\\n" + "".join(f"{address} {name}\\n" for name, address in NAMES.items())
    environment = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin",
        "LANG": "C.UTF-8",
        "HOME": "/tmp/nobody",
        "HOSTS": hosts,
        "AS_ROOT": str(int(is_root)),
        "PYTHON_PREFIX": str(Path(sys.base_prefix).resolve()),
        "PYTHONDONTWRITEBYTECODE": "1",
        INSIDE: "1",
    }
    user = () if is_root else ("--user", "--map-root-user")
    line = ("unshare", *user, "--net", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", _BUILD, "sh")
    program = (sys.executable, "-m", "bench.attacks", *arguments)
    return subprocess.run([*line, *program], env=environment, stdin=subprocess.DEVNULL, check=False).returncode
