"""Whether a file of Python that a patch changes is one still."""

from __future__ import annotations

import warnings

from b70ctl.errors import Refused


def refuse_unless_python(name: str, file: str, base: str, made: str, *, hint: str | None = None) -> None:
    """Raise where `base` is Python and what patch `name` puts in its place is none.

    The image's Python may be a newer one than this: of a base that this one cannot read nothing is said. The hint is
    for edits, where no other is given.
    """
    if not file.endswith(".py") or (wrong := _fault(made)) is None or _fault(base) is not None:
        return
    where = f", line {wrong.lineno}" if wrong.lineno else ""
    hint = hint or f"write every space of the file into `new`, by `|2`: b70ctl patches show {name}"
    raise Refused(f"patch `{name}` would leave {file} no Python{where}: {wrong.msg} (to the Python of b70ctl)",
                  hint=hint)  # fmt: skip


def _fault(text: str) -> SyntaxError | None:
    """What keeps a text from being Python; it is read and none of it is run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # parsing alone would take a `return` that stands in no function
            compile(text.encode("utf-8", errors="surrogateescape"), "<patched>", "exec", dont_inherit=True)
        except SyntaxError as error:
            return error
        except (ValueError, RecursionError, MemoryError) as error:
            return SyntaxError(str(error) or type(error).__name__)
    return None
