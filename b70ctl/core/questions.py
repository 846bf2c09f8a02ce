"""The long texts that probes ask about, made rather than stored."""

from __future__ import annotations

from typing import Any

NEEDLE = "marigold"
# English of common words runs at about this many tokens per word, and never below one
_TOKENS_PER_WORD = 1.25

WEATHER_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The current weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "Name of the city, such as Oslo"}},
            "required": ["city"],
        },
    },
}

_WHO = ("The baker", "A young pilot", "The old captain", "My neighbour", "The teacher", "A tired doctor", "The painter")
_DID = (
    "carried",
    "found",
    "repaired",
    "painted",
    "sold",
    "remembered",
    "counted",
    "forgot",
    "borrowed",
    "cleaned",
    "hid",
)
_WHAT = ("a wooden boat", "the green lamp", "three letters", "an empty jar", "the long table")
_WHERE = (
    "near the harbour",
    "behind the school",
    "under the bridge",
    "beside the river",
    "in the market",
    "at the station",
    "above the garden",
    "on the hill",
    "before the storm",
    "after the party",
    "inside the museum",
    "across the square",
    "during the night",
)


def words_in(tokens: int) -> int:
    """How many words make a prompt of about this many tokens."""
    return max(1, int(tokens / _TOKENS_PER_WORD))


def report(words: int) -> str:
    """A text of about so many words with a request to sum it up."""
    return f"{' '.join(_sentences(words))}\n\nSum up the notes above in one short sentence."


def haystack(words: int) -> str:
    """A text of about so many words that hides one word, and the question for it."""
    lines = _sentences(words)
    # a third of the way in, so that it is far from both ends of the context
    lines.insert(len(lines) // 3, f"The secret word is {NEEDLE}.")
    return f"{' '.join(lines)}\n\nOne of the sentences above names a secret word. Which word is it? Answer in one word."


def _sentences(words: int) -> list[str]:
    # the lists have lengths without a common divisor, so five thousand sentences go by before one returns
    lines: list[str] = []
    length = 0
    while length < words:
        n = len(lines)
        line = f"{_WHO[n % len(_WHO)]} {_DID[n % len(_DID)]} {_WHAT[n % len(_WHAT)]} {_WHERE[n % len(_WHERE)]}."
        lines.append(line)
        length += line.count(" ") + 1
    return lines
