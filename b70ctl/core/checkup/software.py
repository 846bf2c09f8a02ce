"""The programs: driver stack on the host and in images, Docker, Compose."""

from __future__ import annotations

from collections.abc import Iterator

from b70ctl.core.checkup.case import Answer, Case, dotted
from b70ctl.core.compose import OLDEST_COMPOSE
from b70ctl.core.hostfacts import Runtime, version_in
from b70ctl.core.packages import COMPUTE_RUNTIME, IGC, installed

OLDEST_ENGINE = (20, 10)
KNOWS_G31 = (26, 5)
FOR_KERNELS = ((0, 1, 10), (26, 18))
"""From this vllm-xpu-kernels on, vLLM asks for this compute-runtime."""
HANGS_PAIRS = (26, 27)
GOOD_PAIRS = "26.35.39758.10 with IGC 2.41.5"


def runtime_host(case: Case) -> Iterator[Answer]:
    """Which driver stack the host itself has; containers bring their own."""
    packages = installed(case.facts)
    if packages is None:
        yield Answer("unknown", "no list of packages that b70ctl can read")
        return
    runtime, igc = (next((packages[name] for name in names if name in packages), None)
                    for names in (COMPUTE_RUNTIME, IGC))  # fmt: skip
    version = version_in(runtime)
    if version is None:
        yield Answer("ok", "no compute-runtime on the host; images bring their own")
        return
    said = f"compute-runtime {runtime}, IGC {igc or 'not found'}"
    yield Answer("problem" if version < KNOWS_G31 and _has_b70(case) else "ok", said)


def runtime_image(case: Case) -> Iterator[Answer]:
    """Which driver stack the images of this site have."""
    if not case.facts.asked.images and case.facts.asked.site is None:
        yield Answer("unknown", "there is no site here, so no image")
    elif not case.facts.asked.images:
        yield Answer("unknown", "no image of this site was asked yet", do="b70ctl images probe IMAGE")
    for image in case.facts.asked.images:
        yield _image(case, image)


def _image(case: Case, image: Runtime) -> Answer:
    version, kernels = version_in(image.compute_runtime), version_in(image.kernels)
    said = f"compute-runtime {image.compute_runtime} (vLLM {image.vllm}, {image.source})"
    if version is None:
        if image.source == "probe":
            return Answer("unknown", f"vLLM {image.vllm}; the image does not say which compute-runtime it has",
                          image.ref)  # fmt: skip
        return Answer("unknown", f"vLLM {image.vllm}; compute-runtime is not known", image.ref,
                      do=f"b70ctl images probe {image.ref}")  # fmt: skip
    if version < KNOWS_G31 and _has_b70(case):
        return Answer("problem", f"{said} does not know the B70", image.ref, severity="block")
    if kernels and kernels >= FOR_KERNELS[0] and version < FOR_KERNELS[1]:
        return Answer("problem", f"{said}; kernels {image.kernels} want {dotted(FOR_KERNELS[1])}", image.ref)
    if version[:2] == HANGS_PAIRS and len(case.cards) > 1:
        return Answer("problem", f"{said} hangs when cards reduce together", image.ref,
                      do=f"add a layer with {GOOD_PAIRS}, or keep to the `host-staged` collectives")  # fmt: skip
    return Answer("ok", said, image.ref)


def _has_b70(case: Case) -> bool:
    return any(card.id == "8086:e223" for card in case.cards)


def docker(case: Case) -> Iterator[Answer]:
    """Whether a Docker Engine answers this user, and is new enough."""
    asked = case.facts.asked
    version = version_in(asked.docker)
    if asked.docker is None:
        denied = "permission denied" in (asked.docker_trouble or "")
        yield Answer("problem", asked.docker_trouble or "no Docker Engine answers",
                     do="sudo usermod -aG docker $USER, then log in again" if denied else None)  # fmt: skip
    elif version is None:
        yield Answer("unknown", f"Docker says version {asked.docker}")
    else:
        yield Answer("ok" if version >= OLDEST_ENGINE else "problem", f"Docker Engine {asked.docker}")


def compose(case: Case) -> Iterator[Answer]:
    """Whether there is a Compose that reads what b70ctl writes."""
    asked = case.facts.asked
    version = version_in(asked.compose)
    if asked.compose is None or version is None:
        yield Answer("problem", asked.compose_trouble or "no Docker Compose was found")
    else:
        yield Answer("ok" if version >= OLDEST_COMPOSE else "problem", f"Docker Compose {asked.compose}")
