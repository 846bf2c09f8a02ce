"""What is different between two deployments, for whoever reads a plan or the history."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from pydantic import BaseModel

from b70ctl.core import secrecy
from b70ctl.core.deployment import BY_HAND, Change, Deployment, Mount
from b70ctl.core.draft import LIMIT
from b70ctl.core.serving import before_the_command

SHA256 = re.compile(r"sha256:[0-9a-f]{64}")
SHOWN = {
    "image_ref": "image",
    "image": "image identity",
    "vllm": "vLLM",
    "argv": "command",
    "env": "environment",
    "secrets": "secrets",
    "patches": "patches",
    "kernels": "kernels",
    "contents": "carried",
    "mounts": "mounts",
    "address": "address",
    "cards": "cards",
    "devices": "devices",
    "groups": "groups",
    "shm_size": "shared memory",
    "ipc": "ipc",
    "ulimits": "limits",
    "cap_add": "capabilities",
    "entrypoint": "entrypoint",
    "probes": "probes",
    "boot": "boot limits",
}
AT_FIRST = {"image_ref": "image", "vllm": "vLLM", "kernels": "kernels", "served_names": "models", "cards": "cards"}
"""What is told of the first deployment, which is different in everything."""
HIDDEN = {"vllm", "env", "secrets", "patches", "kernels", "contents", "cards", "groups", "probes", "boot"}
"""What is not known of such a container, so that it is no difference."""


def changes(before: Deployment | None, after: Deployment) -> tuple[Change, ...]:
    """What is different, in the order that a reader asks for it; where nothing was before, what there will be."""
    if before is None:
        first = [Change(what=label, after=_text(value)) for field, label in AT_FIRST.items()
                 if (value := getattr(after, field))]  # fmt: skip
        return (*first, Change(what="address", after=f"{after.address.url}/v1"))
    hidden = HIDDEN if BY_HAND in (before.template, after.template) else set()
    found: list[Change] = []
    for field, label in SHOWN.items():
        old, new = getattr(before, field), getattr(after, field)
        if old == new or field in hidden or (field == "mounts" and set(old) == set(new)):
            continue
        if field == "argv":
            found += _discreet(_pairs("command", _flags(old), _flags(new)))
        elif field == "env":
            found += _discreet(_pairs(label, old, new))
        elif field == "contents":
            told = _told_otherwise(before, after)
            found += [each for each in _pairs(label, old, new) if each.what.removeprefix(f"{label} ") not in told]
        elif isinstance(old, dict):
            found += _pairs(label, old, new)
        elif field == "entrypoint":
            short = [before_the_command(words) or _text(words) for words in (old, new)]
            found.append(Change(what=label, before=short[0], after=short[1]))
        else:
            found.append(Change(what=label, before=_text(old), after=_text(new)))
    return (*found, *([] if hidden else _overrides(before, after)))


def _told_otherwise(before: Deployment, after: Deployment) -> set[str]:
    """Files whose other content is told in better words: those of a patch that changed, and a draft's overrides."""
    orders = [order for each in (before, after) for order in each.files]
    drafts = [order for order in orders if order.kind == "draft-config"]
    same_draft = len(drafts) == 2 and drafts[0].overrides == drafts[1].overrides
    patched = {order.to for order in orders if before.patches.get(order.name) != after.patches.get(order.name)}
    return patched | (set() if same_draft else {order.to for order in drafts})


def _overrides(before: Deployment, after: Deployment) -> list[Change]:
    """What is changed in the draft's config, each key beside what stands there without; of another draft the whole."""
    if _draft(before) != _draft(after):
        return [Change(what="draft", before=_whole_draft(before), after=_whole_draft(after))]
    old, new = ({name: _text(value) for order in each.files for name, value in order.overrides.items()}
                for each in (before, after))  # fmt: skip
    limit = before.draft_limit or after.draft_limit
    own = {name: _text(limit) if limit and name.endswith(LIMIT) else "its own" for name in (*old, *new)}
    return _pairs("draft", own | old, own | new)


def _draft(deployment: Deployment) -> str | None:
    """The draft that the engine is told to load."""
    try:
        told = json.loads(_flags(deployment.argv).get("--speculative-config", "{}"))
    except ValueError:
        return None
    return str(told["model"]) if isinstance(told, dict) and "model" in told else None


def _whole_draft(deployment: Deployment) -> str | None:
    changed = [f"{name} {_text(value)}" for order in deployment.files for name, value in order.overrides.items()]
    return " with ".join(filter(None, [_draft(deployment), ", ".join(changed)])) or None


def _pairs(label: str, old: Mapping[str, str | None], new: Mapping[str, str | None]) -> list[Change]:
    names = [*old, *(name for name in new if name not in old)]
    return [
        Change(what=f"{label} {name}", before=_text(old.get(name)), after=_text(new.get(name)))
        for name in names
        if old.get(name) != new.get(name)
    ]


def _discreet(found: Iterable[Change]) -> Iterator[Change]:
    """What changed, and of what may be secret only that it did; of an address all but who asks."""
    for each in found:
        name = each.what.split(" ", 1)[-1]
        values = {"before": each.before and secrecy.HIDDEN, "after": each.after and secrecy.HIDDEN}
        if not secrecy.is_secret(name):
            values = {side: told and secrecy.without_credentials(told) for side, told in
                      (("before", each.before), ("after", each.after))}  # fmt: skip
        yield each.model_copy(update=values)


def _flags(argv: tuple[str, ...]) -> dict[str, str]:
    """argv as flag → values, the words before the first flag under their own name."""
    flags: dict[str, str] = {}
    name = "program"
    for word in argv:
        if word.startswith("--"):
            name, _, value = word.partition("=")
            flags[name] = value or "set"
        else:
            before = flags.get(name, "").removeprefix("set")
            flags[name] = f"{before} {word}".strip()
    return flags


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, Mount):
        return f"{value.source}:{value.target}{':ro' if value.read_only else ''}"
    if isinstance(value, BaseModel):
        return ", ".join(f"{key}={item}" for key, item in value.model_dump(exclude_defaults=True).items()) or "defaults"
    if isinstance(value, tuple):
        return " ".join(":".join(item) if isinstance(item, tuple) else str(_text(item)) for item in value) or "none"
    return SHA256.sub(lambda found: found[0][:19] + "…", str(value)).replace("\n", "; ")
