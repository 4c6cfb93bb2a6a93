"""Isolation for attacks: an unprivileged user in private namespaces, in which every address is local, temporary folders
are in memory, and nothing else can be written."""

import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

INSIDE_VARIABLE = "EBB_ATTACKS_INSIDE"
HOST_ADDRESSES = {"public.test": "93.184.216.34", "any.test": "93.184.216.34", "private.test": "10.0.0.1"}
"""The only host names that resolve inside the isolation."""

_SETUP_SCRIPT = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$ASIDE"
number=0
printf %s "$NEEDED" | while read -r place; do
  number=$((number + 1)); mkdir "$ASIDE/$number"; mount --bind "$place" "$ASIDE/$number"
done
printf %s "$CLOSED" | while read -r place; do mount -t tmpfs -o mode=755 tmpfs "$place"; done
for place in /tmp /var/tmp /dev/shm /run; do mount -t tmpfs -o mode=1777,size=1g tmpfs $place; done
number=0
printf %s "$NEEDED" | while read -r place; do  # where it is in none of them, this shows it in the same place again
  number=$((number + 1)); mkdir -p "$place"; mount --move "$ASIDE/$number" "$place"
done
printf '%b' "$HOSTS" > /run/hosts; mount --bind /run/hosts /etc/hosts
echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start
ip link set lo up
ip route add local 0.0.0.0/0 dev lo; ip -6 route add local ::/0 dev lo
if [ "$AS_ROOT" = 1 ]; then
  exec setpriv --reuid=nobody --regid=nogroup --clear-groups --inh-caps=-all --no-new-privs "$@"
fi
exec unshare --user --map-user=1000 --map-group=1000 "$@"
"""


def is_isolated() -> bool:
    return bool(os.environ.get(INSIDE_VARIABLE))


def run_isolated(arguments: Sequence[str]) -> int:
    """Run this program again in isolation, and return its exit code."""
    is_root = os.geteuid() == 0
    needed = _program_folders()
    hosts = "127.0.0.1 localhost\\n" + "".join(f"{address} {name}\\n" for name, address in HOST_ADDRESSES.items())
    environment = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin",
        "LANG": "C.UTF-8",
        "HOME": "/tmp/nobody",
        "HOSTS": hosts,
        "AS_ROOT": str(int(is_root)),
        "ASIDE": _staging_folder(needed),
        "NEEDED": "".join(f"{place}\n" for place in needed),
        "CLOSED": "".join(f"{place}\n" for place in (_root_only_folders(needed) if is_root else ())),
        "PYTHONDONTWRITEBYTECODE": "1",
        INSIDE_VARIABLE: "1",
    }
    user = () if is_root else ("--user", "--map-root-user")
    line = ("unshare", *user, "--net", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", _SETUP_SCRIPT, "sh")
    program = (sys.executable, "-m", "bench.attacks", *arguments)
    return subprocess.run([*line, *program], env=environment, stdin=subprocess.DEVNULL, check=False).returncode


def _program_folders() -> list[Path]:
    """Return the folders needed to run the program in the isolation, including hidden ones, without nested
    duplicates."""
    wanted = {Path(place).resolve() for place in (sys.base_prefix, sys.prefix, Path(__file__).parents[2])}
    return sorted(place for place in wanted if not wanted & {*place.parents})


def _staging_folder(needed: Sequence[Path]) -> str:
    """Return a visible folder outside all of these. The needed folders are mounted there while the isolation is set
    up."""
    above = {str(folder) for place in needed for folder in (place, *place.parents)}
    return next(
        folder for folder in ("/mnt", "/media", "/srv", "/opt") if Path(folder).is_dir() and folder not in above
    )


def _root_only_folders(needed: Sequence[Path]) -> list[str]:
    """Return the parent folders of these that only root may enter, such as root's home."""
    above = {parent for place in needed for parent in place.parents}
    closed = {parent for parent in above if not parent.stat().st_mode & stat.S_IXOTH}
    return sorted(str(place) for place in closed if not closed & {*place.parents})
