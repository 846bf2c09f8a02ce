"""The vLLM releases that the plugin was proven with; the one table that says so.

Nothing is imported here, so that whoever wants to know may read it without torch and without vLLM.
"""

VERSIONS = (
    "0.19.0", "0.19.1", "0.20.0", "0.20.1", "0.20.2", "0.21.0", "0.22.0", "0.22.1", "0.23.0", "0.24.0",
    "0.25.1", "0.26.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0",
)  # fmt: skip
"""Those that passed every tier that runs one: source, config and backend (docs/vllm.md). In order; a build of one of
them with a local part (`0.30.0+xpu`) counts as that release."""

ACCEPT = "B70_KERNELS_UNPROVEN"
"""The variable by which a person takes another version upon themselves: its value is that version, to the letter."""


def is_proven(version: str) -> bool:
    """Whether a version, as vLLM prints it, is one of the table; development builds and candidates never are."""
    return version.partition("+")[0] in VERSIONS


def is_accepted(version: str, unproven: str | None) -> bool:
    """Whether the plugin may be used with a version, given the value of the variable that accepts one more."""
    return is_proven(version) or version == unproven


def is_legacy(version: str) -> bool:
    """Whether a version comes before vLLM's own TurboQuant, development builds of 0.19 included."""
    return version.split(".")[:2] == ["0", "19"]
