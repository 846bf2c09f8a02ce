"""What Docker and the kernel refuse to take, known before they are asked."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping

from b70ctl.errors import BadValue, UsageError

UNITS = {"k": 10, "m": 20, "g": 30}
LEAST_SHARED, MOST_SHARED = 2**20, 2**40
LONGEST_WORD = 2**17 - 1
"""Bytes of one argument or variable, its name included, that Linux gives to a program."""


LONGEST_NAME, LONGEST_PATH = 255, 4095
"""Bytes of one part of a path, and of all of it."""


def nameable(path: str) -> str:
    """A path as it stands; ValueError for one that no file system has."""
    if "\0" in path:
        raise ValueError("a path has no NUL character in it")
    size = len(path.encode(errors="surrogatepass"))
    longest = max(len(part.encode(errors="surrogatepass")) for part in path.split("/"))
    if size > LONGEST_PATH or longest > LONGEST_NAME:
        which = f"a path of {size:,} bytes" if size > LONGEST_PATH else f"a name of {longest:,} bytes in a path"
        raise ValueError(f"{path[:40]}… is {which}; no file system has more than {LONGEST_NAME} in a name, and "
                         f"{LONGEST_PATH:,} in all")  # fmt: skip
    return path


LONGEST_BELOW = 1000
"""Bytes of a path below a folder, which has a path of its own."""


def below(path: str) -> str:
    """A path of a file below some folder, as it stands; ValueError for one that leaves it, or is not its plain self.

    Two spellings of one file would pass for two files.
    """
    if ".." in path.split("/") or path == ".":
        raise ValueError("it is no file below its folder")
    if path != (plain := posixpath.normpath(path)):
        raise ValueError(f"write it as {plain[:100]}")
    if (size := len(path.encode(errors="surrogatepass"))) > LONGEST_BELOW:
        raise ValueError(f"{path[:40]}… is a path of {size:,} bytes; {LONGEST_BELOW:,} at most lie below a folder")
    return nameable(path)


LONGEST_NUMBERED = LONGEST_NAME - len("00000-")
"""Bytes of a name that is given a number in front."""


def numberable(source: str) -> str:
    """A path as it stands; ValueError where a release, which numbers what it carries, has no name for it."""
    if (size := len(posixpath.basename(source).encode(errors="surrogatepass"))) > LONGEST_NUMBERED:
        raise BadValue(f"the last name of {source[:40]}… has {size:,} bytes; {LONGEST_NUMBERED} at most are carried "
                       "into a release, where there is a number before it",
                       hint="a shorter name, or an absolute path, which is mounted as it is")  # fmt: skip
    return source


LONGEST_SCRIPT = LONGEST_NAME - len(f"{'0' * 64}-00000-00000-")
"""Bytes of a start script's name: a container names the mark that it was run by its sha256 and two numbers as well."""


def markable(script: str) -> str:
    """A path of a start script as it stands; ValueError where no container could keep that it was run."""
    if (size := len(posixpath.basename(script).encode(errors="surrogatepass"))) > LONGEST_SCRIPT:
        raise BadValue(f"{posixpath.basename(script)[:40]}… is a name of {size:,} bytes; a start script has "
                       f"{LONGEST_SCRIPT} at most, since the mark that it was run has its sha256 before the name, and "
                       f"no file system has more than {LONGEST_NAME} in a name", hint="a shorter name")  # fmt: skip
    return script


def plain(path: str) -> str:
    """A path of the container as Docker reads it, however it was spelled; a relative one starts at `/`.

    That is where an engine stands, and what is looked for where it stands is looked for there.
    """
    return "/" + posixpath.normpath(f"/{path}").lstrip("/")


def mountable(target: str) -> str:
    """A path of the container in its plain spelling; ValueError for one that no container starts with."""
    place = plain(target)
    if place == "/" or f"{place}/".startswith("/proc/"):
        raise BadValue(f"nothing can be mounted on {target}: the container would not start",
                       hint="another target, for example /srv/NAME")  # fmt: skip
    return place


def model_folder(path: str) -> str:
    """A model's directory below the site's `models`, in its plain spelling; ValueError for one that leaves it."""
    found = posixpath.normpath(path)
    if found.split("/")[0] in ("", ".", ".."):
        raise BadValue(f"model path `{path[:100]}` must be a directory below the site's `models`",
                       hint="in site.yaml: models: a folder that holds it, and here the path below that")  # fmt: skip
    return found


def in_reason(size: str) -> str:
    """A size of shared memory, as it stands; ValueError for one that is none."""
    if not LEAST_SHARED <= bytes_of(size) <= MOST_SHARED:
        raise ValueError(f"{size[:20]} of shared memory is not between 1m and 1024g")
    return size


def bytes_of(size: str) -> int:
    """A size with its unit as a number of bytes."""
    return int(size[:-1]) << UNITS[size[-1]]


def size_of(count: int) -> str:
    """A number of bytes in the largest unit that says it whole."""
    for unit, shift in reversed(UNITS.items()):
        if count and count % (1 << shift) == 0:
            return f"{count >> shift}{unit}"
    return str(count)


def refuse_endless(argv: Iterable[str], env: Mapping[str, str]) -> None:
    """Raise for an argument or a variable that is longer than Linux gives to a program."""
    named = [*((f"argument `{word[:40]}…`", word) for word in argv),
             *((f"variable `{name}`", f"{name}={value}") for name, value in env.items())]  # fmt: skip
    for what, text in named:
        if (size := len(text.encode(errors="surrogatepass"))) > LONGEST_WORD:
            raise UsageError(f"{what} has {size:,} bytes; more than {LONGEST_WORD:,} are given to no program")
