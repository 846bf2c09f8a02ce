"""A site's own files and folders: there, not there, or something else in their place, which is never passed over."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from b70ctl.errors import UsageError, to_type


def is_file(path: Path) -> bool:
    """Whether a file is there; UsageError where that cannot be told, and where something else is in its place.

    A link to nowhere is something else, and so is what has the place of a folder on the way: what is shipped would step
    in for the site's own, and nobody would notice.
    """
    return _is(stat.S_IFREG, "a file", path)


def is_folder(path: Path) -> bool:
    """The same of a folder."""
    return _is(stat.S_IFDIR, "a folder", path)


def _is(kind: int, word: str, path: Path) -> bool:
    asked = path
    try:
        if stat.S_IFMT(path.stat().st_mode) == kind:
            return True
        why = f"it is not {word}"
    except (FileNotFoundError, NotADirectoryError):
        if not path.is_symlink():
            asked = next(above for above in path.absolute().parents if os.path.lexists(above))
            if asked.is_dir():
                return False
        why = "it is a link to what is not there" if asked.is_symlink() else "it is not a folder"
    except OSError as error:
        why = str(error.strerror)
    raise UsageError(f"{asked} cannot be read: {why}", hint=to_type("ls", "-ld", asked.parent, asked))


def lies_in(folder: Path, name: str) -> bool:
    """Whether a folder has something of that name, a link to nowhere too; one that nobody may look into has it."""
    try:
        (folder / name).lstat()
    except NotADirectoryError:
        return False
    except FileNotFoundError:
        return folder.is_symlink() and not folder.exists()
    except OSError:
        return True
    return True
