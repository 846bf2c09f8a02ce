"""The room that is left: disks, cache volumes, the port."""

from __future__ import annotations

from collections.abc import Iterator

from b70ctl.core.checkup.case import AS_ROOT, Answer, Case, gib

GIB = 2**30
ROOM_FOR_IMAGES, ROOM_FOR_ONE = 90 * GIB, 20 * GIB
ROOM_FOR_RELEASES = GIB
NAME_ONE = "b70ctl --site DIR doctor"


def disk_docker(case: Case) -> Iterator[Answer]:
    """Whether images and caches have room."""
    found = [disk for disk in case.facts.asked.disks if disk.role == "docker"]
    if not found:
        yield Answer("unknown", "Docker did not say where it keeps images")
    for disk in found:
        said = f"{disk.free // GIB} of {disk.size // GIB} GiB are free where Docker keeps images"
        if disk.free < ROOM_FOR_ONE:
            yield Answer("problem", f"{said}: not enough for one more image", severity="warn")
        else:
            short = disk.free < ROOM_FOR_IMAGES
            yield Answer(
                "problem" if short else "ok",
                f"{said}: {ROOM_FOR_IMAGES // GIB} GiB hold a few images" if short else said,
            )


def disk_site(case: Case) -> Iterator[Answer]:
    """Whether releases and models have room."""
    found = [disk for disk in case.facts.asked.disks if disk.role != "docker"]
    if not found:
        yield Answer("unknown", "there is no site here", do=NAME_ONE)
    for disk in found:
        said = f"{disk.free // GIB} of {disk.size // GIB} GiB are free"
        short = disk.role == "site" and disk.free < ROOM_FOR_RELEASES
        yield Answer("problem" if short else "ok", said, disk.role)


def caches(case: Case) -> Iterator[Answer]:
    """How large the cache volumes of this site are."""
    asked = case.facts.asked
    if asked.site is None:
        yield Answer("unknown", "there is no site here, so no cache volume", do=NAME_ONE)
        return
    if asked.caches is None:
        yield Answer("unknown", "Docker did not list the site's volumes")
        return
    if not asked.caches:
        yield Answer("ok", "this site has no cache volume yet")
    for cache in asked.caches:
        if cache.size is None:
            yield Answer("unknown", "its size is seen by root only, or takes long to count", cache.name, do=AS_ROOT)
        else:
            yield Answer("ok", gib(cache.size), cache.name)


def port(case: Case) -> Iterator[Answer]:
    """Whether the site's port is free, or its own engine's."""
    use, asked = case.facts.asked.port, case.facts.asked
    if use is None:
        yield Answer("unknown", "there is no site here, so no port", do=NAME_ONE)
    elif use.by is None:
        yield Answer("ok", f"port {use.port} on {use.bind} is free")
    elif use.site and use.site == asked.site:
        yield Answer("ok", f"port {use.port} on {use.bind} is this site's engine's")
    elif use.container:
        yield Answer("problem", f"port {use.port} on {use.bind} is taken by {use.by}", severity="warn",
                     do=f"b70ctl switch PROFILE --adopt {use.container}, or another `port` in site.yaml")  # fmt: skip
    else:
        yield Answer("problem", f"port {use.port} on {use.bind} is taken by {use.by}")
