"""A base image made of this machine's own Python, for where none can be pulled."""

import io
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import docker

NOT_NEEDED = shutil.ignore_patterns(
    "site-packages", "test", "tests", "idlelib", "tkinter", "config-*", "__pycache__", "*.a"
)
PROGRAMS = ("/bin/sh",)
MORE_LIBRARIES = ("libgcc_s.so.1", "libstdc++.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1")


def import_base(engine: docker.DockerClient, tag: str) -> None:
    """Make the image; the Python is /usr/local/bin/python, as in the official images."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        lay_out(root)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(root, arcname="/", filter=_owned_by_root)
    repository, _, version = tag.partition(":")
    engine.api.import_image_from_data(packed.getvalue(), repository=repository, tag=version)


def lay_out(root: Path) -> None:
    """Lay out the file system of the image in an empty folder."""
    for name in ("tmp", "proc", "sys", "dev", "etc", "usr/bin", "usr/lib", "usr/local/bin", "usr/local/lib"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for link, place in {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib"}.items():
        (root / link).symlink_to(place)
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    source, python = Path(sys.base_prefix), root / "usr/local/bin" / version
    shutil.copy2((source / "bin" / version).resolve(), python)
    (python.parent / "python").symlink_to(version)
    (python.parent / "python3").symlink_to(version)
    shutil.copytree(source / "lib" / version, root / "usr/local/lib" / version, ignore=NOT_NEEDED, symlinks=True)
    for program in PROGRAMS:
        shutil.copy2(Path(program).resolve(), root / "usr/bin" / Path(program).name)
    compiled = (root / "usr/local/lib" / version / "lib-dynload").glob("*.so")
    for library in _libraries([source / "bin" / version, *map(Path, PROGRAMS), *compiled]):
        shutil.copy2(library.resolve(), root / "usr/lib" / library.name)


def _libraries(programs: list[Path]) -> Iterator[Path]:
    told = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    found = set(re.findall(r"(/\S+\.so[.\d]*) \(0x", told))
    cache = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    for name in MORE_LIBRARIES:
        found |= set(re.findall(rf"^\s+{re.escape(name)} \(libc6,{_abi()}.* => (\S+)$", cache, re.MULTILINE)[:1])
    yield from sorted(map(Path, found))


def _abi() -> str:
    return {"x86_64": "x86-64", "aarch64": "AArch64"}.get(platform.machine(), "")


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member
