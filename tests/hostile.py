"""Text that has broken somebody's quoting before."""

from hypothesis import strategies as st

PIECES = (
    "$", "$$", "${X}", "$X", "${X:-y}", "$(id)", "`id`", "{{ x }}", "{% x %}", "'", '"', "\\", "\\n", "\\x41", "\n",
    "\r", "\r\n", "\t", ": ", " #", "- ", "-", "--", "no", "yes", "on", "null", "~", "1e3", "0o17", "0x1f", "017",
    "1_000", "2026-01-01", "12:30:45", "<<", "*a", "&a", "!x", "|", ">", "%", "@", "[", "]", "{", "}", ",", "?", "=",
    " ", "  ", "\u0085", "\u2028", "\u2029", "\ufeff", "\u202e", "\u200b", "\u00ad", "\u007f", "\u0080", "\u0001",
    "\u001b[31m", "\u0301", "\ue000", "\ufffe", "\uffff", "\U0001f600", "\U000e0001", "\U0010ffff", "\u00e9",
    "\u4e2d", "\u05d0",
)  # fmt: skip

possible = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
hostile = st.lists(st.sampled_from(PIECES) | st.text(alphabet=possible, max_size=4), max_size=8).map("".join)
"""What an argument or a variable can carry at all: anything but NUL and lone surrogates."""
