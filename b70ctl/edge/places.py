"""Where things are: what is shipped, in a checkout or a wheel, the site that a command means, this program itself."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import stat
import sys
from pathlib import Path

from b70ctl.errors import UsageError, to_type

SITE_FILE = "site.yaml"
STATE = ".b70ctl"
PASSED_ON = (
    "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "B70CTL_COMPOSE",
    "B70CTL_LEASES",
)  # fmt: skip
"""Variables that say where Docker, Compose and the leases are: a unit does not get them from anybody's shell."""
_PASSWORD = re.compile(r"://[^/@]*:[^/]*@")


def shipped(kind: str) -> Path:
    """The directory of shipped `profiles`, `templates` or `patches`."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "_share" / kind
    return installed if installed.is_dir() else package.parent / kind


def kernels(name: str) -> Path:
    """The folder of the kernels' package: beside ours where it was installed, below `kernels` in a checkout."""
    root = Path(__file__).resolve().parent.parent.parent
    checkout = root / "kernels" / name
    return checkout if checkout.is_dir() else root / name


def data(name: str) -> Path:
    """A data file of the package."""
    return Path(__file__).resolve().parent.parent / "data" / name


def site_root(given: Path | None) -> Path | None:
    """The site's directory: as given, else `B70CTL_SITE`, else upwards from here, else the XDG default.

    None when there is no site at all; UsageError when the one that was named is none.
    """
    named = given or (Path(os.environ["B70CTL_SITE"]) if os.environ.get("B70CTL_SITE") else None)
    if named is not None:
        root = absolute(named)
        if not is_site(root):
            raise UsageError(f"{root} has no {SITE_FILE}, so it is not a site", hint=to_type("b70ctl", "init", root))
        return root
    here = absolute(Path())
    for directory in (here, *here.parents):
        with contextlib.suppress(UsageError):  # a directory above that may not be looked into is nobody's site
            if is_site(directory):
                return directory
    fallback = default_site()
    return fallback if is_site(fallback) else None


def is_site(root: Path) -> bool:
    """Whether a directory is a site; UsageError where that cannot be told."""
    file = root / SITE_FILE
    try:
        return stat.S_ISREG(file.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UsageError(f"{file} cannot be looked at: {error.strerror}", hint="b70ctl --site DIR status") from error


def another_site(root: str, ours: Path) -> bool:
    """Whether a path names a site that is there and is not ours; a site that was moved is the same one."""
    try:
        return bool(root) and is_site(Path(root)) and not Path(root).samefile(ours)
    except (OSError, UsageError):
        return True  # it may be somebody's, in a home that we may not look into


def absolute(path: Path | str) -> Path:
    """A path that a person named, from here and with their home in it; UsageError for one that cannot be written."""
    try:
        found = expanded(path).absolute()
        str(found).encode()
    except FileNotFoundError:
        raise UsageError(
            "the current directory does not exist any more", hint="cd, or: b70ctl --site DIR status"
        ) from None
    except UnicodeEncodeError:
        raise UsageError(f"{found} is not UTF-8, which Compose files, journals and JSON are written in") from None
    return found


def expanded(path: Path | str) -> Path:
    """A path with the home that `~` stands for; UsageError for the home of nobody."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(f"{path}: whose home that is, is not known", hint="write the whole path") from None


def default_site() -> Path:
    """The site of those who have only one."""
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return absolute(base) / "b70ctl"


def leases() -> Path:
    """The machine-wide directory in which cards are leased, whoever runs b70ctl."""
    return Path(os.environ.get("B70CTL_LEASES") or "/run/lock/b70ctl")


# --- what a unit of systemd must know ---------------------------------------------------------------------------------


def unit_folder(*, system: bool) -> Path:
    """Where the machine's units lie, or those of the user who asks."""
    if system:
        return Path("/etc/systemd/system")
    base = Path(os.environ.get("XDG_CONFIG_HOME") or "")
    # the XDG specification: a relative path is invalid, and is to be ignored
    return (base if base.is_absolute() else expanded("~/.config")) / "systemd" / "user"


def owner(root: Path) -> str:
    """Who owns a site's directory: whoever else wrote into it would lock its owner out."""
    uid = root.stat().st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def own_program() -> tuple[str, ...]:
    """The words that call this b70ctl from anywhere."""
    python = Path(sys.executable)
    script = python.parent / "b70ctl"
    # without -P a directory called b70ctl, where the unit starts, would be taken for the program
    return (str(script),) if os.access(script, os.X_OK) else (str(python), "-P", "-m", "b70ctl")


def passed_on() -> dict[str, str]:
    """Those variables as they are set here; UsageError for a password, which has no place in a unit."""
    found = {name: os.environ[name] for name in PASSED_ON if os.environ.get(name)}
    for name, value in found.items():
        if _PASSWORD.search(value):
            raise UsageError(f"{name} holds a password, and a unit is readable by everybody",
                             hint="a key, by ssh://USER@HOST, or a context: docker context create; DOCKER_CONTEXT=NAME"
                             )  # fmt: skip
    return found
