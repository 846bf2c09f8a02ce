"""The stand-in images on a real daemon: they start as the real ones do, and have their quirks."""

import dataclasses
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import docker.errors
import httpx
import pytest
from docker.models.containers import Container

from tests.rig import images
from tests.rig.dri import make_dri
from tests.rig.engine_process import eventually
from tests.rig.image_files import FAMILIES, INTEL, MARLIN, MARLIN_UTILS, OPENAI, SITE, Family

pytestmark = pytest.mark.docker
Run = Callable[..., Container]


@pytest.fixture
def run(client: docker.DockerClient) -> Iterator[Run]:
    """Start a container that publishes port 8000 on loopback; removed afterwards, even when it cannot start."""
    mark = {"b70ctl.rig-check": uuid.uuid4().hex}

    def begin(family: Family, *command: str, environment: dict[str, str] | None = None, **settings: Any) -> Container:
        env = {"STANDIN_BOOT_SECONDS": "0.01", **(environment or {})}
        settings |= {"detach": True, "labels": mark, "ports": {"8000/tcp": ("127.0.0.1", None)}}
        container = client.containers.create(family.ref, list(command), environment=env, **settings)
        container.start()
        return container

    yield begin
    for container in client.containers.list(all=True, filters={"label": [f"{k}={v}" for k, v in mark.items()]}):
        container.remove(force=True, v=True)


def output(run: Run, family: Family, *command: str, **settings: Any) -> str:
    container = run(family, *command, **settings)
    container.wait(timeout=30)
    return container.logs().decode()


def url(container: Container, path: str) -> str:
    container.reload()
    return f"http://127.0.0.1:{container.ports['8000/tcp'][0]['HostPort']}{path}"


def serving(container: Container) -> Container:
    def healthy() -> bool:
        try:
            return httpx.get(url(container, "/health"), timeout=5).status_code == 200
        except (httpx.TransportError, KeyError, TypeError, IndexError):
            container.reload()
            return container.status == "exited"

    eventually(healthy, "a healthy container")
    assert container.status == "running", container.logs().decode()
    return container


def command_of(family: Family, *flags: str) -> tuple[str, ...]:
    return (*(() if family is OPENAI else ("vllm", "serve")), "stand-in", *flags)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_each_image_serves_through_its_own_entrypoint_and_a_loopback_port(run: Run, family: Family) -> None:
    container = serving(run(family, *command_of(family)))
    body = {"messages": [{"role": "user", "content": "What is the capital of France?"}]}
    reply = httpx.post(url(container, "/v1/chat/completions"), json=body).json()
    assert reply["choices"][0]["message"]["content"] == "Paris"
    assert httpx.get(url(container, "/version")).json() == {"version": family.vllm}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_engine_is_the_first_process_and_leaves_with_0_when_stopped(run: Run, family: Family) -> None:
    container = serving(run(family, *command_of(family)))
    container.stop(timeout=20)
    assert container.wait()["StatusCode"] == 0


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_versions_can_be_read_from_package_metadata(run: Run, family: Family) -> None:
    code = "import importlib.metadata as m; print(*map(m.version, ('vllm', 'torch', 'triton', 'vllm-xpu-kernels')))"
    said = output(run, family, "-c", code, entrypoint="python")
    assert said.split() == [family.vllm, family.torch, family.triton, family.kernels]


def test_intels_entrypoint_eats_a_command_without_its_program(run: Run) -> None:
    container = run(INTEL, "--port", "8000")
    assert container.wait()["StatusCode"] != 0


def test_intels_image_has_oneapi_and_openais_has_not(run: Run) -> None:
    env = [httpx.get(url(serving(run(f, *command_of(f))), "/standin/process")).json()["env"] for f in (INTEL, OPENAI)]
    assert [e.get("ONEAPI_ROOT") for e in env] == ["/opt/intel/oneapi", None]


def test_a_group_called_render_cannot_be_resolved_and_video_can(run: Run) -> None:
    with pytest.raises(docker.errors.APIError, match="render"):
        run(INTEL, *command_of(INTEL), group_add=["render"])
    assert "44" in output(run, INTEL, "-G", entrypoint="id", group_add=["video"])


def test_the_source_checkout_shadows_the_package_for_python_but_not_for_the_program(run: Run) -> None:
    code = "import vllm; print(vllm.__file__)"
    assert output(run, OPENAI, "-c", code, entrypoint="python").startswith("/workspace/vllm/vllm/")
    assert output(run, OPENAI, "-c", code, entrypoint="python", working_dir="/").startswith(f"/{SITE}/vllm/")


def test_a_replaced_pythonpath_stops_the_image(run: Run) -> None:
    said = output(run, INTEL, *command_of(INTEL), environment={"PYTHONPATH": "/mnt"})
    assert "No module named 'image_marker'" in said


def test_a_patched_file_can_be_mounted_over_the_images_own(run: Run, tmp_path: Path) -> None:
    before, after = (
        "    if current_platform.is_rocm():\n",
        "    if current_platform.is_rocm() or current_platform.is_xpu():\n",
    )
    assert MARLIN_UTILS.count(before + "        return False\n") == 1
    patched = tmp_path / "marlin_utils.py"
    patched.write_text(MARLIN_UTILS.replace(before, after))
    mount = {str(patched): {"bind": f"/{SITE}/{MARLIN}", "mode": "ro"}}
    flags = ("--quantization", "compressed-tensors")
    plain, mounted = (serving(run(INTEL, *command_of(INTEL, *flags), volumes=v)).logs().decode() for v in ({}, mount))
    assert "Using CompressedTensorsWNA16MarlinMoEMethod" in plain
    assert "Using CompressedTensorsWNA16MoEMethod" in mounted


def test_argv_and_environment_arrive_byte_for_byte(run: Run) -> None:
    hostile = "a'b\"c $X ${Y} #d: e\n\tf -no"
    container = serving(run(INTEL, *command_of(INTEL, "--extra", hostile), environment={"HOSTILE": hostile}))
    process = httpx.get(url(container, "/standin/process")).json()
    assert process["argv"][-1] == process["env"]["HOSTILE"] == hostile


@pytest.mark.skipif(os.geteuid() != 0, reason="device nodes need root")
def test_a_fake_dri_directory_appears_in_the_container(run: Run, tmp_path: Path) -> None:
    make_dri(tmp_path / "dri", cards=2, gid=992)
    code = "import os; s = os.stat('/dev/dri/renderD129'); print(os.major(s.st_rdev), os.minor(s.st_rdev), s.st_gid)"
    said = output(run, INTEL, "-c", code, entrypoint="python", devices=[f"{tmp_path / 'dri'}:/dev/dri"])
    assert said.split() == ["1", "7", "992"]


def test_images_that_are_there_are_kept(client: docker.DockerClient) -> None:
    ids = {family.ref: client.images.get(family.ref).id for family in FAMILIES.values()}
    assert images.ensure_images() == ids


def test_an_image_that_lost_its_name_is_named_again_and_not_imported(client: docker.DockerClient) -> None:
    renamed = dataclasses.replace(OPENAI, ref="b70ctl-standin/again:now")
    try:
        assert images._ensure(client, renamed) == client.images.get(OPENAI.ref).id
        assert client.images.get(renamed.ref).id == client.images.get(OPENAI.ref).id
    finally:
        client.images.remove(renamed.ref)
