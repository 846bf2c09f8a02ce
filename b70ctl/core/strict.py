"""The kinds of text that a person may write into YAML, and mappings that take no key which they do not know."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from b70ctl.core.sizes import nameable

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")

Text = Annotated[str, StringConstraints(min_length=1)]
Name = Annotated[str, StringConstraints(pattern=rf"^{NAME.pattern}$")]
EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
EnvValue = Annotated[str | int, Field(union_mode="left_to_right")]
FlagName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
PathText = Annotated[Text, AfterValidator(nameable)]
AbsolutePath = Annotated[str, StringConstraints(pattern=r"^/[^\x00]*$"), AfterValidator(nameable)]
Scalar = bool | int | float | str
FlagValue = Scalar | list[Scalar] | dict[str, Scalar | list[Scalar] | dict[str, Scalar]] | None
Seconds = Annotated[int, Field(ge=1, le=7200)]


def dotted(given: object) -> object:
    """A nested mapping with its leaves under dotted keys; a key that is given in both forms is refused."""
    if not isinstance(given, Mapping):
        return given
    found: dict[object, object] = {}
    for key, value in _leaves(given, ""):
        if key in found:
            # which of the two was meant is not known any more: parents and `--set` merge either form by itself
            raise ValueError(f"`{key}` is given twice, dotted and nested: write it in one of the two forms")
        found[key] = value
    return found


def _leaves(given: Mapping[Any, Any], before: str) -> Iterator[tuple[object, object]]:
    for key, value in given.items():
        name = f"{before}{key}" if isinstance(key, str) else key
        if isinstance(value, Mapping) and value and isinstance(key, str):
            yield from _leaves(value, f"{name}.")
        else:
            yield name, value


Dotted = Annotated[
    dict[Text, Scalar], BeforeValidator(dotted, json_schema_input_type=dict[Text, Scalar | dict[str, Any]])
]
"""Scalars by their dotted path; whoever writes them may nest mappings."""


class Strict(BaseModel):
    """A mapping in which an unknown key is an error, not a silent wish."""

    # JSON, in which releases are kept, has no word for a number that is not finite
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


def refuse_two_places(path: str | None, hub: str | None) -> None:
    """Raise unless there is one of them; a child that names the other has both, as mappings are merged."""
    if path is None and hub is None:
        raise ValueError("give either `path` (below the site's models) or `hub` (a Hugging Face id)")
    if path is not None and hub is not None:
        raise ValueError(
            f"`path` ({path}) and `hub` ({hub}) are both given, and one is meant: what is inherited is merged in, and "
            "is taken away with `path: null` or `hub: null`"
        )
