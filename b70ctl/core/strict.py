"""The kinds of text that a person may write into YAML, and mappings that take no key which they do not know."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

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
FlagValue = Scalar | list[Scalar] | dict[str, "Scalar | list[Scalar] | dict[str, Scalar]"] | None
Seconds = Annotated[int, Field(ge=1, le=7200)]


class Strict(BaseModel):
    """A mapping in which an unknown key is an error, not a silent wish."""

    # JSON, in which releases are kept, has no word for a number that is not finite
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )
