"""The manifests in deploy/kubernetes: rendered, against the schemas of Kubernetes, and what they promise."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # comes without types
import pytest
import yaml

from todo_projection.settings import Settings
from todo_write.settings import variable

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "deploy" / "kubernetes"
VERSIONS = ("1.31", "1.37")
Manifest = dict[str, Any]

if shutil.which("kubectl") is None:
    if os.environ.get("TODO_REQUIRE_KUBECTL") == "1":
        raise RuntimeError("TODO_REQUIRE_KUBECTL=1, but kubectl is not on PATH")
    pytest.skip("kubectl is not installed: it renders what is checked here", allow_module_level=True)


def render(folder: Path) -> list[Manifest]:
    ran = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return list(yaml.safe_load_all(ran.stdout))


@pytest.fixture(scope="module")
def example() -> list[Manifest]:
    return render(FOLDER / "overlays" / "example")


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """The example with its components."""
    copy = tmp_path_factory.mktemp("deploy") / "kubernetes"
    shutil.copytree(FOLDER, copy)
    file = copy / "overlays" / "example" / "kustomization.yaml"
    text = file.read_text()
    assert "\n# components: [../../scaling]" in text
    file.write_text(text.replace("\n# components:", "\ncomponents:"))
    return render(file.parent)


def of(manifests: list[Manifest], kind: str) -> Iterator[Manifest]:
    return (one for one in manifests if one["kind"] == kind)


def containers(manifests: list[Manifest]) -> Iterator[tuple[Manifest, Manifest]]:
    for one in of(manifests, "Deployment"):
        pod = one["spec"]["template"]["spec"]
        yield from ((pod, container) for container in pod["containers"])


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_what_the_schema_of_kubernetes_allows(example: list[Manifest], version: str) -> None:
    for one in example:
        kubernetes_validate.validate(one, version, strict=True)


def test_the_schema_would_tell() -> None:
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(
            {"apiVersion": "v1", "kind": "Service", "spec": {"prots": []}}, "1.31", strict=True
        )


def test_a_roll_out_never_has_fewer_than_wanted_and_time_to_end(example: list[Manifest]) -> None:
    for one in of(example, "Deployment"):
        # A second canary would tell nothing that one does not; without it for a minute, an alert says so.
        assert one["spec"]["replicas"] >= (1 if one["metadata"]["name"] == "todo-canary" else 2)
        assert one["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
        grace_s = one["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        assert grace_s > Settings().grace_ms / 1000 + 5  # and what preStop takes


def test_pods_keep_to_the_restricted_standard(example: list[Manifest]) -> None:
    (namespace,) = of(example, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for pod, container in containers(example):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        own = container["securityContext"]
        assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"]) == (False, True)
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]


def test_every_selector_finds_pods(example: list[Manifest]) -> None:
    pods = [one["spec"]["template"]["metadata"]["labels"] for one in of(example, "Deployment")]
    for kind, path in {
        "Service": "selector",
        "PodDisruptionBudget": "selector",
        "NetworkPolicy": "podSelector",
    }.items():
        for one in of(example, kind):
            wanted = one["spec"][path]
            wanted = wanted.get("matchLabels", wanted)
            assert any(wanted.items() <= labels.items() for labels in pods), one["metadata"]["name"]


def test_variables_are_settings_and_redis_comes_from_a_secret(example: list[Manifest]) -> None:
    known = {variable(name) for name in Settings.model_fields}
    for _, container in containers(example):
        found = {one["name"]: one for one in container["env"]}
        assert found.keys() <= known
        assert found["TODO_REDIS_URL"]["valueFrom"]["secretKeyRef"] == {"name": "todo-redis", "key": "url"}
    for one in of(example, "ConfigMap"):
        assert one["data"].keys() <= known
        Settings.from_env(one["data"])


def test_a_workers_life_does_not_hang_on_redis_or_the_backlog(example: list[Manifest]) -> None:
    for _, container in containers(example):
        if container["name"] == "canary":  # it serves nobody and is watched by those that hear it
            continue
        paths = {
            name: container[name]["httpGet"]["path"] for name in ("livenessProbe", "startupProbe", "readinessProbe")
        }
        assert paths == {"livenessProbe": "/livez", "startupProbe": "/livez", "readinessProbe": "/readyz"}


def test_with_scaling_the_number_of_workers_is_left_to_it(scaled: list[Manifest]) -> None:
    (scaler,) = of(scaled, "ScaledObject")
    name = scaler["spec"]["scaleTargetRef"]["name"]
    (worker,) = (one for one in of(scaled, "Deployment") if one["metadata"]["name"] == name)
    assert "replicas" not in worker["spec"]
    (trigger,) = scaler["spec"]["triggers"]
    (figure,) = re.findall(r"todo_projection_\w+", trigger["metadata"]["query"])
    assert f'"{figure}"' in (ROOT / "worker" / "todo_projection" / "metrics.py").read_text()
    assert scaler["metadata"]["namespace"] == worker["metadata"]["namespace"]
