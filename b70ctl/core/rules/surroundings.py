"""Rules about the image, the environment, and more than one card."""

from __future__ import annotations

from collections.abc import Iterable

from b70ctl.core.collectives import OWNED, Collective, collective
from b70ctl.core.image import is_moving, parsed_version, same_version
from b70ctl.core.plugin import ACCEPT, SWITCH
from b70ctl.core.rules.case import Case, Remark, Rule, error, note, warning
from b70ctl.core.secrecy import VARIABLE

OF_THE_PLUGIN = frozenset({SWITCH, ACCEPT})

NO_TENSOR_PARALLEL = {
    "sha256:52218ad85513ab6686d4c090c83c2bd8c5b02423c63aa4dabd41837fe641fe3b": "llm-scaler issue 723",
}


def moving_image(case: Case) -> Iterable[Remark]:
    """The image is the same one tomorrow."""
    ref = case.profile.image.ref
    pinned = case.facts is not None and case.facts.identity != case.facts.ref
    if is_moving(ref) and not pinned:
        yield warning("image.ref", f"{ref} may be another image tomorrow", f"b70ctl images pin {ref}")


def image_version(case: Case) -> Iterable[Remark]:
    """The image has the vLLM that the profile was written for."""
    wanted = case.profile.image.vllm
    if case.facts and not same_version(wanted, case.facts.vllm):
        yield error(
            "image.vllm",
            f"the profile was written for vLLM {wanted}, {case.facts.ref} has {case.facts.vllm}",
            f"in the profile's image: vllm: {case.facts.vllm}, once you have read what changed",
        )


def moving_model(case: Case) -> Iterable[Remark]:
    """A hub model is the same one tomorrow, above all when its own code runs."""
    model = case.profile.model
    if model.hub is None or model.revision is not None:
        return
    if case.profile.engine.trust_remote_code:
        yield warning("model.revision", f"{model.hub} may change, and its code runs in the engine", "model.revision: …")
    else:
        yield note("model.revision", f"{model.hub} may change without a revision")


def secrets(case: Case) -> Iterable[Remark]:
    """No secret stands in a profile."""
    for name in case.env:
        if VARIABLE.search(name):
            yield error(f"env.{name}", f"`{name}` looks like a secret, and a profile is read by everybody",
                        f"in site.yaml: secrets: {{{name}: {{file: …}}}}")  # fmt: skip


def empty_values(case: Case) -> Iterable[Remark]:
    """No variable is empty."""
    for name, value in case.env.items():
        if value == "":
            yield error(f"env.{name}", f"`{name}` is empty, and empty is not unset: oneCCL, for one, dies of it",
                        f"{name}: null")  # fmt: skip


def variables(case: Case) -> Iterable[Remark]:
    """vLLM reads every variable that carries its name, unless a patch brings it and its reader with it."""
    for name in case.own:
        if not name.startswith("VLLM_") or name == "VLLM_XPU_ENABLE_XPU_GRAPH":
            continue
        verdict = case.flags.variable(name, case.version)
        if verdict.answer != "yes":
            yield warning(f"env.{name}", verdict.because)


def graph_variable(case: Case) -> Iterable[Remark]:
    """The variable for graphs is not set where nothing reads it."""
    if "VLLM_XPU_ENABLE_XPU_GRAPH" in case.env and case.vllm(">=0.31"):
        yield warning(
            "env.VLLM_XPU_ENABLE_XPU_GRAPH",
            f"vLLM {case.version} does not read it: graphs are on unless refused",
            "engine.enforce_eager: true, or engine.flags.compilation-config: {cudagraph_mode: NONE}",
        )


def fork(case: Case) -> Iterable[Remark]:
    """Workers are spawned."""
    if case.env.get("VLLM_WORKER_MULTIPROC_METHOD", "spawn") != "spawn":
        yield error("env.VLLM_WORKER_MULTIPROC_METHOD", "only `spawn` works on XPU",
                    "VLLM_WORKER_MULTIPROC_METHOD: spawn")  # fmt: skip


def device_masks(case: Case) -> Iterable[Remark]:
    """Only b70ctl says which cards are seen."""
    if case.profile.cards == "none":
        return
    if "ZE_AFFINITY_MASK" in case.env:
        yield error("env.ZE_AFFINITY_MASK", "b70ctl sets it from the cards that it leases", "in site.yaml: cards: […]")
    if "ONEAPI_DEVICE_SELECTOR" in case.env:
        yield warning(
            "env.ONEAPI_DEVICE_SELECTOR",
            "it counts the cards that the affinity mask leaves, and the two together have aborted starts",
            "ONEAPI_DEVICE_SELECTOR: null",
        )


def python_path(case: Case) -> Iterable[Remark]:
    """A PYTHONPATH of one's own does not lose the image's."""
    if "PYTHONPATH" in case.env:
        yield note("env.PYTHONPATH", "it goes before the image's own PYTHONPATH, which is kept behind it")


def gates(case: Case) -> Iterable[Remark]:
    """A variable that switches a patch on comes with the patch."""
    overlaid = any("turboquant" in mount.target for mount in case.profile.mounts)
    for name in case.own:
        whose = case.gates.get(name, ())
        if whose and not set(whose) & set(case.profile.patches):
            # vLLM, or a library, may read it as well
            ours = name.startswith("B70_")
            what = f"does nothing without the patch `{whose[0]}`" if ours else f"comes with the patch `{whose[0]}`"
            yield (error if ours else note)(
                f"env.{name}", f"`{name}` {what}", f"+patches: [{whose[0]}], and drop the variable: the patch brings it"
            )
        elif name.startswith("B70_") and not whose and name not in OF_THE_PLUGIN:
            yield warning(f"env.{name}", f"`{name}` does nothing unless a patch reads it, and would then be its own")
        elif name.startswith("TQ_") and not overlaid:
            yield warning(f"env.{name}", f"`{name}` is read by the TurboQuant overlay alone", f"{name}: null")


def card_count(case: Case) -> Iterable[Remark]:
    """As many cards as the engine is split over."""
    cards, engine = case.profile.cards, case.profile.engine
    world = engine.tensor_parallel_size
    for name in ("pipeline-parallel-size", "data-parallel-size"):
        size = case.flag(name)
        world *= size if isinstance(size, int) and not isinstance(size, bool) else 1
    if cards == "none" and world > 1:
        yield error("cards", f"an engine of {world} workers needs cards, and the profile says `none`", None)
    elif isinstance(cards, int) and cards < world:
        yield error("cards", f"{cards} cards are fewer than {world} workers", f"cards: {world}")
    elif isinstance(cards, int) and cards > world:
        yield warning("cards", f"{cards} cards are leased, {world} are used", f"cards: {world}")
    elif cards is None and world > engine.tensor_parallel_size:
        yield error("cards", f"{world} workers need {world} cards, and tensor_parallel_size stands for fewer",
                    f"cards: {world}")  # fmt: skip


def forbidden_allreduce(case: Case) -> Iterable[Remark]:
    """Two all-reduce algorithms are never asked for."""
    algorithm = case.env.get("CCL_ALLREDUCE", "").lower()
    if algorithm in ("ring", "direct"):
        what = "copies through the host: 0.5 tok/s" if algorithm == "ring" else "faults the cards"
        yield error("env.CCL_ALLREDUCE", f"`{algorithm}` {what}", "CCL_ALLREDUCE: null, and collectives: host-staged")


def mixed_collectives(case: Case) -> Iterable[Remark]:
    """A set of collectives is used as it stands."""
    preset = _preset(case)
    for name in case.env if preset else ():
        if preset and (name.startswith(OWNED) or name in preset.env):
            yield error(f"env.{name}", f"`{name}` would change the set `{preset.name}`, which was proven as a whole",
                        "drop it, or `collectives: null` and all of your own")  # fmt: skip


def chosen_collectives(case: Case) -> Iterable[Remark]:
    """A set of collectives fits the number of cards and the driver inside the image."""
    preset, world = _preset(case), case.profile.engine.tensor_parallel_size
    runtime = case.facts.compute_runtime if case.facts else None
    if preset is None:
        if world > 1 and not any(name.startswith("CCL_") for name in case.env):
            yield warning("collectives", f"{world} cards with oneCCL's defaults hang on some drivers",
                          "collectives: host-staged")  # fmt: skip
        return
    if world == 1:
        yield warning("collectives", f"`{preset.name}` is for more than one card", "collectives: null")
    if preset.cards and preset.cards != world:
        yield warning("collectives", f"`{preset.name}` was used with {preset.cards} cards, not with {world}")
    if preset.compute_runtime and runtime and parsed_version(runtime) < parsed_version(preset.compute_runtime):
        yield error("collectives", f"`{preset.name}` hangs with compute runtime {runtime}; it needs "
                    f"{preset.compute_runtime} inside the image", "collectives: host-staged")  # fmt: skip


def peer_access(case: Case) -> Iterable[Remark]:
    """Cards read each other's memory only after a test."""
    preset = _preset(case)
    if case.env.get("CCL_TOPO_P2P_ACCESS") == "1" or (preset and preset.peer_access):
        yield warning("collectives", "peer access has corrupted data in silence on a four-card board: test each pair "
                      "of cards with a checksum first")  # fmt: skip


def broken_tensor_parallel(case: Case) -> Iterable[Remark]:
    """An image that is known to hang with two cards is not used with two."""
    identity = f"{case.facts.identity if case.facts else ''} {case.profile.image.ref}"
    for digest, source in NO_TENSOR_PARALLEL.items():
        if digest in identity and case.profile.engine.tensor_parallel_size > 1:
            yield error("engine.tensor_parallel_size", f"more than one card hangs with this image ({source})",
                        "engine.tensor_parallel_size: 1")  # fmt: skip


def _preset(case: Case) -> Collective | None:
    return collective(case.profile.collectives) if case.profile.collectives else None


RULES = (
    Rule("moving-image", "a tag is moved by whoever owns it", moving_image),
    Rule("image-version", "flags, patches and log lines differ by version", image_version),
    Rule("moving-model", "a hub repository changes under its name", moving_model),
    Rule("secret", "profiles and rendered files are shared", secrets),
    Rule("empty-value", "an empty variable is set", empty_values),
    Rule("variable", "vLLM only logs a variable that it does not know", variables),
    Rule("graph-variable", "gone with 0.31", graph_variable),
    Rule("fork", "a forked worker inherits a dead device context", fork),
    Rule("device-mask", "one place decides which cards are seen", device_masks),
    Rule("python-path", "replacing it loses the image's own modules", python_path),
    Rule("gate", "a patch and its variable come together", gates),
    Rule("card-count", "workers without cards fail late", card_count),
    Rule("forbidden-allreduce", "vllm issue 41663", forbidden_allreduce),
    Rule("mixed-collectives", "each set is internally consistent, mixtures are not", mixed_collectives),
    Rule("chosen-collectives", "SYCL kernels hang on compute runtime 26.27", chosen_collectives),
    Rule("peer-access", "compute-runtime issue 942", peer_access),
    Rule("broken-tensor-parallel", "known by digest", broken_tensor_parallel),
)
