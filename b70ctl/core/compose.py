"""A deployment as Compose text: the template gives the shape, this file every value and its quoting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, StrictUndefined, TemplateError

from b70ctl.core.deployment import CONTAINER_PORT, Deployment
from b70ctl.core.serving import CACHE
from b70ctl.errors import UsageError

SERVICE = "engine"
COMPOSE_FILE = "compose.yaml"
SECRETS_FILE = "secrets.env"
OLDEST_COMPOSE = (2, 30)
"""The first Compose that reads an env file with `format: raw`."""

LABEL = "b70ctl"
SHORT = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "$": "$$"}

# what is written as it stands, beyond printable ASCII: letters, not marks that turn or hide text
READABLE = ((0xA1, 0xAC), (0xAE, 0x2FF), (0x370, 0x58F), (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3))


def quoted(value: object) -> str:
    """A scalar as YAML that Compose gives on unchanged: text in double quotes, `$` doubled, the rest escaped.

    Raises UsageError for NUL and lone surrogates, which no argument or variable can carry.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        raise UsageError(f"a template may quote text, whole numbers and true or false, not {value!r}")
    return f'"{"".join(map(_escaped, value))}"'


def _escaped(char: str) -> str:
    if char in SHORT:
        return SHORT[char]
    code = ord(char)
    if 0x20 <= code <= 0x7E or any(low <= code <= high for low, high in READABLE):
        return char
    if code == 0 or 0xD800 <= code <= 0xDFFF:
        raise UsageError(f"character U+{code:04X} cannot be part of an argument or a variable")
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def project(site: str, release: str) -> str:
    """The Compose project of one release: its own, so that starting it cannot touch the one before."""
    return f"{site}-{release.replace('.', '_')}"


def document(deployment: Deployment, release: str, key: str, root: str = "") -> dict[str, Any]:
    """What the Compose file must say, as a mapping; `key` marks containers as made from this very release.

    `root` is the directory of the site that they are to run for; a file that is only looked at has none.
    """
    engine: dict[str, Any] = {
        "image": deployment.image,
        "pull_policy": "never",
        "entrypoint": list(deployment.entrypoint),
        "command": list(deployment.argv),
        "working_dir": deployment.working_dir,
        "environment": deployment.env,
        "env_file": [{"path": SECRETS_FILE, "format": "raw", "required": True}] if deployment.secrets else [],
        "devices": [f"{source}:{target}" for source, target in deployment.devices],
        "group_add": [str(gid) for gid in deployment.groups],
        "volumes": _volumes(deployment),
        "ports": [
            {
                "target": CONTAINER_PORT,
                "published": str(deployment.address.port),
                "host_ip": deployment.address.bind,
                "protocol": "tcp",
            }
        ],
        "shm_size": deployment.shm_size,
        "ipc": deployment.ipc,
        "ulimits": deployment.ulimits,
        "cap_add": list(deployment.cap_add),
        "security_opt": ["no-new-privileges:true"],
        "restart": "no",
        "stop_grace_period": f"{deployment.stop_grace}s",
        "healthcheck": _healthcheck(deployment),
        "logging": {"driver": "json-file", "options": {"max-size": "50m", "max-file": "3"}},
        "labels": labels(deployment, release, key, root),
    }
    return {
        "name": project(deployment.site, release),
        "services": {SERVICE: engine},
        "networks": {"default": {"name": deployment.network, "external": True}},
        "volumes": {"cache": {"name": deployment.cache_volume, "external": True}},
    }


def labels(deployment: Deployment, release: str, key: str, root: str = "") -> dict[str, str]:
    """What a container says of itself: from any of them one can walk back to its release."""
    whose = {f"{LABEL}.root": root} if root else {}
    return whose | {
        f"{LABEL}.site": deployment.site,
        f"{LABEL}.profile": deployment.profile,
        f"{LABEL}.release": release,
        f"{LABEL}.key": key,
        f"{LABEL}.digest": deployment.digest,
        f"{LABEL}.cards": ",".join(deployment.cards),
    }


def _volumes(deployment: Deployment) -> list[dict[str, Any]]:
    binds = [(mount.source, mount.target, mount.read_only) for mount in deployment.mounts]
    binds += [(f"./{order.to}", order.target, True) for order in deployment.files]
    if deployment.devices:
        # oneCCL opens by-path even for one card; the devices alone do not bring it
        binds.append((f"{deployment.devices[0][0]}/by-path", "/dev/dri/by-path", True))
    found: list[dict[str, Any]] = [
        {
            "type": "bind",
            "source": source,
            "target": target,
            "read_only": read_only,
            "bind": {"create_host_path": False},
        }
        for source, target, read_only in binds
    ]
    return [*found, {"type": "volume", "source": "cache", "target": CACHE}]


def _healthcheck(deployment: Deployment) -> dict[str, Any]:
    # python, since not every image has curl; no start_interval, which engine 20.10 refuses
    check = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{CONTAINER_PORT}/health', timeout=5)"
    return {
        "test": ["CMD", "python3", "-c", check],
        "interval": "30s",
        "timeout": "10s",
        "retries": 3,
        "start_period": f"{deployment.boot.budget}s",
    }


def render(template: str, document: Mapping[str, Any]) -> str:
    """The template filled in; equal inputs give equal bytes."""
    environment = Environment(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - the text is YAML, and `q` quotes every scalar
    )
    environment.filters = {"q": quoted, "items": lambda mapping: mapping.items()}
    try:
        return environment.from_string(template).render(document)
    except TemplateError as error:
        raise UsageError(f"the template cannot be rendered: {error}") from error


def missing(wanted: Mapping[str, Any], found: object, where: str = "") -> list[str]:
    """Each place where the parsed text does not say what it must; empty values may be left out by the template.

    A template of one's own may add keys; it may not change or drop a decision.
    """
    if not isinstance(found, Mapping):
        return [f"{where or 'the file'} is not a mapping"]
    if found.get("privileged"):
        return [f"{where} is privileged, which no engine needs"]
    faults: list[str] = []
    for key, value in wanted.items():
        path = f"{where}.{key}" if where else key
        if key not in found:
            faults += [] if value in ({}, []) and key != "entrypoint" else [f"{path} is missing"]
        elif isinstance(value, Mapping):
            faults += missing(value, found[key], path)
        elif found[key] != value:
            faults.append(f"{path} is {found[key]!r}, not {value!r}")
    return faults


def literal(value: Any) -> Any:
    """A value of the rendered text as Compose gives it on: `$$` is one `$`.

    A `$` on its own would be read as a variable, which is never meant; it comes back as `${…}`, equal to nothing.
    """
    if isinstance(value, str):
        return "${…}" if "$" in value.replace("$$", "") else value.replace("$$", "$")
    if isinstance(value, list):
        return [literal(item) for item in value]
    if isinstance(value, Mapping):
        return {key: literal(item) for key, item in value.items()}
    return value
