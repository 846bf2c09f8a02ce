"""Where a release's source distribution lies in the package index that pip uses."""

from __future__ import annotations

from typing import Any

from b70ctl.errors import MachineError


def find(version: str) -> tuple[Any, Any]:
    """pip's session and the link to the file; `pip download` itself would build metadata, which needs a compiler."""
    from pip._internal.commands import create_command

    command = create_command("download")
    options, _ = command.parse_args(["--quiet", "--no-deps", "--no-binary", "vllm", "vllm"])
    with command.main_context():
        session = command.get_default_session(options)  # type: ignore[attr-defined]
        finder = command._build_package_finder(options=options, session=session, ignore_requires_python=True)  # type: ignore[attr-defined]
        for found in finder.find_all_candidates("vllm"):
            if str(found.version) == version and not found.link.is_wheel:
                return session, found.link
    raise MachineError(f"pip finds no source distribution of vLLM {version}", hint="pip index versions vllm")
