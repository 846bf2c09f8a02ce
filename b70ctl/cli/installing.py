"""watch --install: the unit that systemd runs the watch from."""

from __future__ import annotations

from pathlib import Path

from b70ctl.cli.here import Here, is_root
from b70ctl.core.unit import MARK, quoted, unit, unit_name
from b70ctl.edge.files import read_text, replace
from b70ctl.edge.places import own_program, owner, passed_on, unit_folder
from b70ctl.errors import MachineError, Refused, to_type


def install(here: Here, *, system: bool, dry_run: bool) -> None:
    """Write the unit, or show it; say what to type next."""
    root, name = here.site_root, here.catalog.site.name
    user = owner(root) if system else None
    text = unit(name, (*own_program(), "--site", str(root), "watch"), passed_on(), system=system, user=user)
    if dry_run:
        here.console.text(text)
        return
    path = unit_folder(system=system) / unit_name(name)
    _write(path, text, root)
    if here.console.json:
        here.console.data({"event": "installed", "path": str(path)})
    ctl = "systemctl" if system else "systemctl --user"
    ctl = ctl if is_root() or not system else f"sudo {ctl}"
    here.console.say(f"{path} is written; next:")
    here.console.say(f"  {ctl} daemon-reload")
    here.console.say(f"  {ctl} enable --now {path.name}")
    if not system:
        here.console.say("  loginctl enable-linger    # or it ends when you log out")


def _write(path: Path, text: str, root: Path) -> None:
    before = read_text(path)
    if before is None and path.is_symlink():
        raise Refused(f"{path} is a link to {path.readlink()}, which is not there, so it stays as it is",
                      hint=to_type("rm", path))  # fmt: skip
    if before is not None and not before.startswith(f"{MARK}\n"):
        raise Refused(f"{path} was not written by b70ctl, so it stays as it is",
                      hint=to_type("mv", path, f"{path}.mine"))  # fmt: skip
    if before is not None and f" {quoted(str(root))} " not in before:
        raise Refused(f"{path} watches another site of this name, so it stays as it is",
                      hint="give one of the two another `name` in its site.yaml")  # fmt: skip
    try:
        replace(path, text)
    except MachineError as error:
        hint = "b70ctl watch --install --user, or as root: sudo b70ctl watch --install --system"
        raise MachineError(error.what, hint=hint) from error
