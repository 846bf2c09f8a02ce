"""The command line, which takes any disk for one with room enough: what comes of it is what a test looks at."""

from b70ctl.__main__ import main
from b70ctl.core import preflight

preflight.ROOM_FOR_RELEASE = preflight.ROOM_FOR_RECORDS = 0
main()
