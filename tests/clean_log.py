"""Takes out of an engine's log what is nobody's business, so that it can lie here: when it was, and where.

    python -m tests.clean_log LOG [OLD=NEW ...] > tests/core/bootlogs/vllm-VERSION-WHAT.log

Times keep their distances and begin at midnight of 1 January. Nothing else of a line is changed.
"""

import re
import sys
from datetime import datetime, timedelta
from pathlib import Path

BEGINNING = datetime(2000, 1, 1)
# vLLM's own, and that of torch: `07-04 12:00:00`, `W0704 12:00:00.123`
STAMP = re.compile(
    r"(?<![\w-])(?P<level>[IWEF]?)(?P<month>\d\d)(?P<dash>-?)(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d)(?!\d)"
)


def cleaned(text: str, replaced: dict[str, str]) -> str:
    """The log with its times moved, and with every OLD in it a NEW."""
    for old, new in replaced.items():
        text = text.replace(old, new)
    first = min((_read(found) for found in STAMP.finditer(text)), default=BEGINNING)
    return STAMP.sub(lambda found: _moved(found, BEGINNING - first), text)


def _read(found: re.Match[str]) -> datetime:
    return datetime.strptime(f"2000-{found['month']}-{found['day']} {found['time']}", "%Y-%m-%d %H:%M:%S")


def _moved(found: re.Match[str], by: timedelta) -> str:
    return f"{found['level']}{_read(found) + by:%m{found['dash']}%d %H:%M:%S}"


if __name__ == "__main__":
    raw = Path(sys.argv[1]).read_bytes().decode()
    sys.stdout.buffer.write(cleaned(raw, dict(pair.split("=", 1) for pair in sys.argv[2:])).encode())
