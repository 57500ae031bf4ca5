"""The image of deploy/Dockerfile, built on this machine's engine without a registry."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import docker
import docker.errors

from own_python import import_base

ROOT = Path(__file__).parents[1]
TAG = "todo-projection:tests"
BASE = f"todo-projection-base:{hashlib.sha256(sys.version.encode()).hexdigest()[:12]}"
LOCKS = (ROOT / "deploy" / "requirements.lock", ROOT / "deploy" / "build.lock")
CONTEXT = ("deploy", "tool", "worker", ".dockerignore", "pyproject.toml", "README.md", "LICENSE")


def build(engine: docker.DockerClient, folder: Path, wheels: Path) -> str:
    """Build it in a context of its own, from this machine's Python and these wheels; its tag."""
    try:
        engine.images.get(BASE)
    except docker.errors.ImageNotFound:
        import_base(engine, BASE)
    for name in CONTEXT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / name)
    shutil.copytree(wheels, folder / "wheels")
    engine.images.build(
        path=str(folder),
        dockerfile="deploy/Dockerfile",
        tag=TAG,
        rm=True,
        buildargs={"PYTHON": BASE, "PIP_NO_INDEX": "1"},
    )
    return TAG


def wheels(cache: Path) -> Path:
    """A folder with the locked wheels for this Python, filled when it is new."""
    state = hashlib.sha256(b"".join(path.read_bytes() for path in LOCKS) + sys.version.encode()).hexdigest()[:16]
    folder, filled = cache / state, cache / state / ".filled"
    if not filled.exists():
        python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        locks = [word for path in LOCKS for word in ("-r", str(path))]
        subprocess.run(
            [
                python,
                "-m",
                "pip",
                "download",
                "-qq",
                "--require-hashes",
                "--only-binary",
                ":all:",
                *locks,
                "-d",
                folder,
            ],
            check=True,
        )
        filled.touch()
    return folder
