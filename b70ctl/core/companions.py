"""The user's own services beside the engine: which cannot be meant, and which did not stay up."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from b70ctl.core.compose import SERVICE


def impostors(document: Mapping[str, Any], network: str) -> list[str]:
    """Services that answer to the engine's name on the network that it shares with them.

    Docker would give both addresses for the name, and every other request would go astray. `document` is the Compose
    file of the companions as Compose reads it.
    """
    networks = document.get("networks") or {}
    shared = {key for key, about in networks.items() if ((about or {}).get("name") or key) == network}
    services = document.get("services") or {}
    return [name for name, service in services.items() if SERVICE in _names(name, service, shared)]


def _names(service: str, about: Mapping[str, Any], shared: set[str]) -> set[str]:
    attached = about.get("networks") or {}
    found: set[str] = set()
    for key in shared & attached.keys():
        aliases = (attached[key] or {}).get("aliases") or []
        found |= {service, about.get("container_name") or service, *aliases}
    return found


def ended_at_once(containers: Iterable[Mapping[str, Any]], before: Collection[str]) -> list[str]:
    """What to tell of containers that were just started and ended; those in `before` ran already."""
    found = []
    for about in containers:
        state = about["State"]
        again = state["Status"] == "restarting" or about.get("RestartCount", 0) > 0
        failed = state["Status"] in ("exited", "dead") and state.get("ExitCode")
        if about["Id"] not in before and (again or failed):
            name = about["Name"].lstrip("/")
            how = f"ended at once with exit {state.get('ExitCode')}"
            found.append(f"companion {name} {how}{', again and again' if again else ''}; docker logs {name}")
    return found
