"""Where a file cannot be written: the command that shows why, by what the system said."""

from __future__ import annotations

from b70ctl.errors import to_type

LIMITS = {"EFBIG": "ulimit -f", "EMFILE": "ulimit -n", "EDQUOT": "quota -s"}


def look_at(code: str | None, path: str, above: str) -> str:
    """What to type; `code` is as C calls it, and `above` the nearest folder of `path` that is there."""
    if code == "ENOSPC":
        # a disk may be out of names as well as of bytes
        return f"{to_type('df', '-h', above)}; {to_type('df', '-i', above)}"
    if code in ("EROFS", "ESTALE"):
        return to_type("findmnt", "-T", above)
    if code == "EIO":
        return f"{to_type('findmnt', '-T', above)}; sudo dmesg | tail"
    if code == "ENAMETOOLONG":
        return "a shorter name"
    # who may pass where, which of them is a link and which is no folder
    return LIMITS.get(code or "") or to_type("namei", "-l", path)
