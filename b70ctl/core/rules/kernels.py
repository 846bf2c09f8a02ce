"""Rules about our attention kernels, which a release carries to vLLM as a plugin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from b70ctl.core.image import parsed_version
from b70ctl.core.kernels import PACKAGE
from b70ctl.core.plugin import ACCEPT, SWITCH, is_ours
from b70ctl.core.rules.case import Case, Remark, Rule, error, warning

QUIET = frozenset({"WARNING", "ERROR", "CRITICAL"})
PLUGINS = "VLLM_PLUGINS"
OTHER_MAKER = "NVIDIA"


def kernels_unused(case: Case) -> Iterable[Remark]:
    """The kernels are carried for a cache that they read."""
    if case.ours and not case.turboquant:
        # the engine starts and answers rightly without them; comparing with fp8 must not need two more words
        yield warning(
            "kernels",
            f"our kernels serve TurboQuant's caches, and this one is {case.profile.engine.kv_cache_dtype or 'auto'}: "
            "vLLM will load the plugin and never call it",
            "kernels: image, or engine.kv_cache_dtype: turboquant_k8v4",
        )


def kernels_cardless(case: Case) -> Iterable[Remark]:
    """The kernels are for a card."""
    if case.ours and case.profile.cards == "none":
        yield warning("kernels", "our kernels run on a card, and `cards: none` gives the engine none", "kernels: image")


def kernels_tuned_elsewhere(case: Case) -> Iterable[Remark]:
    """The site's tile sizes are of a card of the same maker."""
    device = case.kernels.tuned_on if case.ours and case.kernels else None
    if device and device.startswith(OTHER_MAKER):
        yield warning(
            "kernels",
            f"{case.kernels.table if case.kernels else None} was measured on {device}, and on an Intel card the "
            "kernels refuse another maker's table",
            "b70ctl kernels tune, on this card; or remove the file, and the shipped tile sizes are used",
        )


def kernels_twice(case: Case) -> Iterable[Remark]:
    """There is one package of this name where Python looks."""
    if not case.ours:
        return
    for number, mount in enumerate(case.profile.mounts):
        target = mount.target
        if any(map(is_ours, target.split("/"))):
            yield error(f"mounts.{number}", f"{target} is the plugin once more: Python keeps one of two, silently",
                        "remove the mount, or kernels: image")  # fmt: skip
    for entry in case.kernels.rivals if case.kernels else ():
        yield error(
            "mounts",
            f"{PACKAGE} is mounted in {entry} too, where Python looks: it keeps one of two, silently",
            "remove the mount, or take the folder off env.PYTHONPATH, or kernels: image",
        )
    for entry in case.kernels.archives if case.kernels else ():
        yield error(
            "mounts",
            f"{entry} is a file where Python looks for packages, and may hold {PACKAGE} once more: nobody looks inside",
            "unpack it and mount the folder, or take it off env.PYTHONPATH, or kernels: image",
        )


def kernels_left_out(case: Case) -> Iterable[Remark]:
    """The plugin is not asked for and switched off at once."""
    if not case.ours:
        return
    if case.env.get(SWITCH, "").lower() == "off":
        yield error(f"env.{SWITCH}", f"`{SWITCH}: off` switches off what `kernels: b70` asks for",
                    f"kernels: image, or {SWITCH}: null")  # fmt: skip
    allowed = case.env.get(PLUGINS)
    if allowed is not None and PACKAGE not in allowed.split(","):
        others = [name for name in map(str.strip, allowed.split(",")) if name not in ("", PACKAGE)]
        yield error(f"env.{PLUGINS}",
                    f"vLLM loads the plugins {allowed or '(none)'} and no others, and so not {PACKAGE}",
                    f"{PLUGINS}: {','.join([*others, PACKAGE])}; or {PLUGINS}: null, for all of them")  # fmt: skip


def kernels_unheard(case: Case) -> Iterable[Remark]:
    """The engine says that it uses them, which is what a switch looks for."""
    if not case.ours:
        return
    level = case.env.get("VLLM_LOGGING_LEVEL", "").upper()
    if level in QUIET:
        yield error(
            "env.VLLM_LOGGING_LEVEL",
            f"at {level} vLLM's processes do not say that the plugin is in use, and a switch cannot prove it",
            "VLLM_LOGGING_LEVEL: INFO",
        )
    if "VLLM_LOGGING_CONFIG_PATH" in case.env:
        yield error(
            "env.VLLM_LOGGING_CONFIG_PATH",
            "a logging config of one's own may drop what the plugin says, and a switch could not prove it",
            "VLLM_LOGGING_CONFIG_PATH: null",
        )
    if case.env.get("VLLM_CONFIGURE_LOGGING") == "0":
        yield error(
            "env.VLLM_CONFIGURE_LOGGING",
            "without vLLM's logging its processes do not say that the plugin is in use, and a switch cannot prove it",
            "VLLM_CONFIGURE_LOGGING: null",
        )


def kernels_unproven(case: Case) -> Iterable[Remark]:
    """The plugin was proven with that vLLM, or somebody takes it upon themselves."""
    kernels, accepted = case.kernels, case.env.get(ACCEPT)
    if not case.ours or kernels is None or kernels.accepts(case.version, None):
        return
    if kernels.accepts(case.version, accepted):
        yield warning(f"env.{ACCEPT}", f"{kernels.name} is used with vLLM {case.version}, with which nobody proved it")
        return
    known = _span(kernels.proven)
    other = f"; `{ACCEPT}` accepts {accepted}" if accepted else ""
    yield error(
        "kernels",
        f"{kernels.name} was not proven with vLLM {case.version} and will refuse it (proven: {known}){other}",
        f"env.{ACCEPT}: {case.version}, to try it all the same; or kernels: image",
    )


def _span(proven: Sequence[str]) -> str:
    """Versions, given in order, in few words: from which to which, and the releases that are left out in between."""
    if len(proven) < 2:
        return ", ".join(proven) or "none"
    found = [parsed_version(each).release for each in proven]
    newest = {each[:2]: each[2] for each in found if len(each) == 3}
    left_out = [f"{major}.{minor}.{patch}" for (major, minor), last in newest.items() for patch in range(last)
                if (major, minor, patch) > found[0] and (major, minor, patch) not in found]  # fmt: skip
    return f"{proven[0]} to {proven[-1]}" + (f" without {' and '.join(left_out)}" if left_out else "")


RULES = (
    Rule("kernels-unused", "the plugin takes the place of the TURBOQUANT backend alone", kernels_unused),
    Rule("kernels-cardless", "they are compiled for a GPU", kernels_cardless),
    Rule("kernels-tuned-elsewhere", "its options are for another compiler", kernels_tuned_elsewhere),
    Rule("kernels-twice", "importlib keeps the first of two packages of one name", kernels_twice),
    Rule("kernels-left-out", "vLLM goes on with its own backend", kernels_left_out),
    Rule("kernels-unheard", "a process that says nothing is not proven", kernels_unheard),
    Rule("kernels-unproven", "another vLLM may call a backend in another way", kernels_unproven),
)
