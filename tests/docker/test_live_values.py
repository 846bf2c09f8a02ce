"""Whatever stands in a profile arrives byte for byte in the argv and the environment of a real container."""

import json
import unicodedata

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from livesite import LiveSite

HOSTILE = (
    "'", '"', '\'\'""', "$", "$$", "$$$", "${X}", "$X", "${PATH:-x}", "$(id)", "`id`", "a\nb", "\n", "\ttab\t",
    "\r", "\r\n", "#", " # no comment", "a: b", ": ", "key: {a: b}", "[a, b]", "{{ x }}", "{% raw %}", "{# x #}",
    "%{x}", "\\", "\\n", "\\\\", 'C:\\"x"', "\x85", "\u2028", "\u2029", "\ufeff", "\u200b", "\u202e", "\x7f",
    "\x80", "\x9f", "\x01", "\x1b[31m", "\ue000", "\U000f0000", "\ufffe", "\uffff", "\U0001f600", "e\u0301",
    "\u00fc", "\u6f22\u5b57", "no", "yes", "on", "1e3", "0x10", "007", "~", "null", "true", "1_000", "12:30:45",
    "2001-01-01", ".inf", "=", "<<", "!tag", "&a", "*a", "|", ">", "@", "?", " leading", "trailing ", "   ",
    "a" * 9000, "--dash", "-", "-1", "--", "b'\\x00'", "a\\\nb", "%", "%s", "*", ";", "&&",
)  # fmt: skip
PRINTABLE = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
TEXTS = st.lists(st.text(PRINTABLE, min_size=1, max_size=60), min_size=110, max_size=130)


def written(texts: tuple[str, ...]) -> dict[str, object]:
    """A profile in which each text is a variable, a flag's value, a speculative option and, where it may, a name."""
    plain = [text for text in texts if not text.startswith("-")]
    return {
        "model": {"path": "tiny", "served_names": ["hostile", *dict.fromkeys(plain)]},
        "engine": {
            "max_model_len": 4096,
            "flags": {f"x-{number}": text for number, text in enumerate(texts)}
            | {"x-list": plain, "x-map": {f"k{number}": text for number, text in enumerate(texts)}},
        },
        "speculative": {
            "method": "ngram",
            "num_speculative_tokens": 2,
            "options": {f"o{number}": text for number, text in enumerate(texts)},
        },
    }


def arrives(site: LiveSite, texts: tuple[str, ...], *, intel: bool = False) -> None:
    """One boot with all of them, and every one is where it belongs, unchanged."""
    env = {f"H{number}": text for number, text in enumerate(texts)}
    site.quick("hostile", intel=intel, env=env, **written(texts))
    site.switch("hostile")
    status, process = site.get("/standin/process")
    assert status == 200, process
    argv, env = process["argv"], process["env"]
    assert [env.get(f"H{number}") for number in range(len(texts))] == list(texts)
    for number, text in enumerate(texts):
        if text.startswith("-"):
            assert f"--x-{number}={text}" in argv
        else:
            assert argv[argv.index(f"--x-{number}") + 1] == text
    plain = [text for text in texts if not text.startswith("-")]
    names = argv.index("--served-model-name") + 1
    wanted = ["hostile", *dict.fromkeys(plain)]
    assert argv[names : names + len(wanted)] == wanted
    after = argv.index("--x-list") + 1
    assert argv[after : after + len(plain)] == plain
    mapped = json.loads(argv[argv.index("--x-map") + 1])
    assert mapped == {f"k{number}": text for number, text in enumerate(texts)}
    options = json.loads(argv[argv.index("--speculative-config") + 1])
    assert [options[f"o{number}"] for number in range(len(texts))] == list(texts)
    assert argv == ["/opt/venv/bin/vllm", *site.releases()[site.serving()]["deployment"]["argv"][1:]]


@pytest.mark.parametrize("intel", [False, True], ids=["vllm-serve", "bash-c"])
def test_hostile_values_arrive_byte_for_byte(kept_site: LiveSite, intel: bool) -> None:
    arrives(kept_site, HOSTILE, intel=intel)


# shrinking would boot an engine for every try
@settings(max_examples=3, deadline=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
@given(texts=TEXTS)
def test_generated_values_arrive_byte_for_byte(kept_site: LiveSite, texts: list[str]) -> None:
    arrives(kept_site, tuple(dict.fromkeys(texts)))


@pytest.mark.parametrize("text", ["\0", "a\0b"])
def test_what_no_argument_can_carry_is_refused(kept_site: LiveSite, text: str) -> None:
    kept_site.quick("nul", env={"H": text})
    assert "NUL character" in kept_site.switch("nul", code=2).err


def test_the_list_of_hostile_values_has_what_it_should() -> None:
    kinds = {unicodedata.category(char) for text in HOSTILE for char in text}
    assert {"Cc", "Cf", "Co", "Cn", "Zl", "Zp", "So", "Mn", "Lo"} <= kinds
