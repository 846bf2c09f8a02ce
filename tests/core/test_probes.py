"""What is asked of a new engine, and which answers it must not get away with."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.answer import Answer, Finding, ToolCall
from b70ctl.core.degenerate import degenerate
from b70ctl.core.probes import NAMES, Probe, ProbeTarget, passed, probes_for, recorded, unasked

QWEN = ProbeTarget(model="qwen", max_model_len=131_072, tools=True, speculative=True, draft_limit=2048)
SMALL = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
TEENS = [*SMALL.split(), "eighteen", "nineteen"]
COUNT = [*TEENS, "twenty", *(f"twenty-{unit}" for unit in TEENS[:9]), "thirty"]
PROSE = (
    "As the sun slips behind the grey water, the keeper climbs the spiral stairs with a can of oil and a soft cloth."
    " He trims the wick, polishes the great lens until it shines, and lights the lamp just before the first stars"
    " appear. Then he writes the hour and the weather in his log, pours a cup of strong tea, and listens to the wind"
    " that rattles the panes while the beam sweeps across the bay."
)


def said(text: str = "", **more: Any) -> Answer:
    return Answer(text=text, **{"finish_reason": "stop", "completion_tokens": 40, **more})


def probe(name: str, target: ProbeTarget = QWEN) -> Probe:
    return next(probe for probe in probes_for(target) if probe.name == name)


def names(target: ProbeTarget) -> list[str]:
    return [probe.name for probe in probes_for(target)]


# --- what is asked


def test_the_first_prompt_is_long_and_the_known_answers_follow() -> None:
    assert names(QWEN) == ["warm-up", "capital", "arithmetic", "counting", "prose", "json", "tool-call", "long-prompt"]
    assert len(probes_for(QWEN)[0].question.split()) > 300


def test_every_request_is_greedy_names_the_model_and_says_why() -> None:
    for asked in probes_for(QWEN):
        assert asked.body["temperature"] == 0
        assert asked.body["model"] == "qwen"
        assert asked.why
        json.dumps(dict(asked.body))


def test_counting_is_streamed_with_its_usage() -> None:
    body = probe("counting").body
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


def test_what_is_skipped_or_impossible_is_not_asked_and_says_why() -> None:
    target = ProbeTarget(model="m", max_model_len=512, skip=frozenset({"prose", "json", "no-such-probe"}))
    assert names(target) == ["warm-up", "capital", "arithmetic", "counting"]
    assert {finding.probe: finding.passed for finding in unasked(target)} == dict.fromkeys(
        ("prose", "json", "tool-call", "long-prompt")
    )
    told = {finding.probe: finding.detail for finding in unasked(target)}
    assert told["prose"] == "skipped by the profile"
    assert "no tool parser" in told["tool-call"]
    assert "512" in told["long-prompt"]


@given(
    st.builds(
        ProbeTarget,
        model=st.just("m"),
        max_model_len=st.integers(256, 300_000),
        chat=st.booleans(),
        tools=st.booleans(),
        reasoning=st.booleans(),
        speculative=st.booleans(),
        draft_limit=st.none() | st.integers(1, 300_000),
        skip=st.frozensets(st.sampled_from(NAMES)),
    )
)
def test_every_probe_is_asked_or_accounted_for_and_fits_the_engine(target: ProbeTarget) -> None:
    asked, left_out = probes_for(target), unasked(target)
    told = [probe.name for probe in asked] + [finding.probe for finding in left_out]
    optional = {"expect", "agreement"}
    assert len(told) == len(set(told))
    assert set(told) | optional == set(NAMES)
    for each in asked:
        prompt = len(each.question.split())
        assert prompt + each.body["max_tokens"] <= target.max_model_len
        assert each.path.endswith("chat/completions" if target.chat else "/completions")


@pytest.mark.parametrize(
    ("limit", "length", "least", "most"),
    [
        (2048, 131_072, 2048, 2700),
        (2048, 4096, 2048, 2700),
        # no limit is known: past the usual one all the same
        (None, 131_072, 2048, 2700),
        # a limit lifted to the whole length cannot be passed
        (262_144, 262_144, 2048, 2700),
        (40_960, 262_144, 40_960, 54_000),
        # as long as fits
        (2048, 2048, 900, 1280),
    ],
)
def test_a_long_prompt_goes_past_the_drafts_limit_where_the_engine_lets_it(
    limit: int | None, length: int, least: int, most: int
) -> None:
    # no tokenizer makes less than one token of a word
    words = len(probe("long-prompt", replace(QWEN, draft_limit=limit, max_model_len=length)).question.split())
    assert least <= words <= most


def test_a_reasoning_model_gets_room_to_think() -> None:
    plain, thinking = probe("capital"), probe("capital", replace(QWEN, reasoning=True))
    assert thinking.body["max_tokens"] >= plain.body["max_tokens"] + 1000


def test_a_model_without_a_chat_template_is_asked_to_continue() -> None:
    base = replace(QWEN, chat=False)
    assert "tool-call" not in names(base)
    assert probe("capital", base).body["prompt"] == "The capital of France is"
    assert probe("counting", base).find(said(" " + ", ".join(COUNT[3:]))).passed
    assert not probe("counting", base).find(said(" four, five,!!!!")).passed
    assert probe("arithmetic", base).find(said("14\n>>> ")).passed


# --- known answers


@pytest.mark.parametrize(
    "text", ["Paris", "paris.", "**Paris**", "<think>France, so…</think>\n\nParis", "It is Paris!"]
)
def test_the_capital_is_recognised(text: str) -> None:
    assert probe("capital").find(said(text)).passed


@pytest.mark.parametrize("text", ["Lyon", "!!!!", "", "The the the the the the the the", "<think>Paris</think>\nLyon"])
def test_a_wrong_capital_is_not(text: str) -> None:
    finding = probe("capital").find(said(text))
    assert finding.passed is False
    assert finding.detail


def test_a_thought_that_the_limit_cut_is_evidence_and_one_that_ended_is_not() -> None:
    thought = "The user asks for the capital of France. That is Paris."
    assert probe("capital").find(said(reasoning=thought, finish_reason="length")).passed
    assert not probe("capital").find(said(reasoning=thought, finish_reason="stop")).passed


@pytest.mark.parametrize("text", ["14", "14.", "The answer is **14**", "0 + 1 + 4 + 9 = 14", "`14`\n"])
def test_the_canary_is_recognised(text: str) -> None:
    assert probe("arithmetic").find(said(text)).passed


@pytest.mark.parametrize("text", ["30", "140", "114", "1.14", "14.5", "14,000", "-14", "fourteen or so", "1 4"])
def test_a_wrong_sum_is_not(text: str) -> None:
    assert not probe("arithmetic").find(said(text)).passed


# --- counting


@pytest.mark.parametrize(
    "text",
    [
        ", ".join(COUNT),
        "\n".join(COUNT),
        " ".join(COUNT).replace("-", " "),
        "Here are the numbers from one to thirty: " + ", ".join(COUNT) + ".",
        ", ".join(COUNT[:-1]) + ", and thirty.",
        "\n".join(f"{place}. **{word.title()}**" for place, word in enumerate(COUNT, start=1)),
        ", ".join(COUNT).title().replace("-", "\u2011"),
        ", ".join(COUNT) + ", thirty-one, thirty-two",
        ", ".join(str(number) for number in range(1, 31)),
    ],
)
def test_a_whole_count_passes_in_any_dress(text: str) -> None:
    finding = probe("counting").find(said(text))
    assert finding.passed, finding.detail
    assert finding.detail.startswith("counted to 3")


@pytest.mark.parametrize(
    "text",
    [
        "one, two, three, four, five,!!!!",
        "one, two, three, four, five,!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!",
        ", ".join(COUNT[:9] + COUNT[10:]),
        ", ".join([*COUNT[:9], *COUNT[8:]]),
        ", ".join(COUNT[:14]) + ", om garò prezi domesticeder, " + ", ".join(COUNT[14:]),
        ", ".join(COUNT[:14]) + ",!!!! " + ", ".join(COUNT[14:]),
        ", ".join(COUNT[:14]) + " \ufffd " + ", ".join(COUNT[14:]),
        ", ".join(COUNT[:28]),
        ", ".join(reversed(COUNT)),
        "I would be glad to count from one to thirty for you.",
        "1, 2, 3, 5, 6",
    ],
)
def test_a_count_that_skips_stops_or_breaks_fails(text: str) -> None:
    assert probe("counting").find(said(text)).passed is False


def test_the_break_is_shown() -> None:
    detail = probe("counting").find(said("one, two, three, four, five,!!!!")).detail
    assert detail == "counted to 5, then ',!!!!'"


def test_a_count_that_the_limit_cut_passes_only_when_far_and_clean() -> None:
    def cut(*words: str) -> bool | None:
        return probe("counting").find(said(", ".join(words), finish_reason="length")).passed

    assert cut(*COUNT[:25])
    assert not cut(*COUNT[:12])
    assert not cut(*COUNT[:25], "seven", "seven")


@given(st.integers(0, 29), st.text(min_size=1, max_size=30))
def test_nothing_put_into_a_count_gets_past_unless_it_is_punctuation(at: int, junk: str) -> None:
    text = ", ".join(COUNT[:at]) + junk + ", ".join(COUNT[at:])
    if any(character.isalpha() for character in junk) and 0 < at < 30:
        assert probe("counting").find(said(text)).passed is False
    else:
        probe("counting").find(said(text))


# --- structure


@pytest.mark.parametrize("text", ['{"city": "Paris", "country": "France", "river": "Seine", "x": [1, null]}'])
def test_a_json_object_with_its_keys_passes(text: str) -> None:
    assert probe("json").find(said(f" {text}\n")).passed


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"city": "Paris", "country": "France"}', "lacks river"),
        ('{"city": "Paris", "country": "Fra', "not a JSON object"),
        ('["city", "country", "river"]', "not a JSON object"),
        ("Sure! Paris is a city", "not a JSON object"),
        ('{"city": "Paris",' + "\n" * 40, "line breaks"),
        ("[" * 50_000, "repeated"),
    ],
)
def test_anything_else_is_not_json_mode(text: str, told: str) -> None:
    finding = probe("json").find(said(text, finish_reason="length"))
    assert finding.passed is False
    assert told in finding.detail


def call(name: str, arguments: str) -> Answer:
    return said(finish_reason="tool_calls", tool_calls=(ToolCall(name=name, arguments=arguments),))


def test_a_tool_call_without_words_passes() -> None:
    assert probe("tool-call").find(call("get_weather", '{"city": "Paris, France"}')).passed


@pytest.mark.parametrize(
    "answer",
    [
        said("It is sunny in Paris."),
        said('<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>'),
        call("get_weather", '{"city": "Par'),
        call("get_weather", "[]"),
        call("get_weather", '{"city": 75}'),
        call("get_weather", '{"town": "Paris"}'),
        call("get_wether", '{"city": "Paris"}'),
        call("get_weather", '{"city": "!!!!"}'),
    ],
)
def test_a_call_in_words_or_with_broken_arguments_fails(answer: Answer) -> None:
    assert probe("tool-call").find(answer).passed is False


def test_a_long_prompt_tells_whether_it_went_past_the_draft() -> None:
    found = probe("long-prompt").find(said("Marigold.", prompt_tokens=2711))
    assert found.passed
    assert "2,711 tokens, past the draft's limit of 2,048" in found.detail
    short = probe("long-prompt").find(said("Marigold", prompt_tokens=1900))
    assert "within the draft's limit" in short.detail
    assert not probe("long-prompt").find(said("baker", prompt_tokens=2711)).passed
    assert "limit" not in probe("long-prompt", replace(QWEN, speculative=False)).find(said("marigold")).detail


def test_a_profiles_own_question_may_be_answered_in_its_own_script() -> None:
    target = replace(QWEN, expect={"Wie heißt Japan auf Japanisch?": "日本", "Say hello to the team in Greek": "Γεια"})
    japan, greek = (each for each in probes_for(target) if each.name == "expect")
    assert japan.find(said("日本は東アジアの島国です。")).passed
    assert greek.find(said("Γεια σας, αγαπητή ομάδα!")).passed
    assert not japan.find(said("Nippon")).passed
    assert not greek.find(said("Γεια" + "!" * 60)).passed


# --- agreement


def test_answers_are_kept_and_asked_again_of_the_next_release() -> None:
    answers = [(each, said(PROSE)) for each in probes_for(QWEN)]
    kept = recorded(answers)
    assert probe("prose").question in kept
    assert probe("warm-up").question not in kept
    again = [each for each in probes_for(replace(QWEN, agree_with=kept)) if each.name == "agreement"]
    assert [each.question for each in again] == list(kept)
    assert all(each.find(said(PROSE[:200], finish_reason="length")).passed for each in again)


@pytest.mark.parametrize("text", [PROSE.replace("sun", "moon"), PROSE[:30], "x" + PROSE])
def test_another_beginning_disagrees(text: str) -> None:
    (asked,) = (each for each in probes_for(replace(QWEN, agree_with={"q": PROSE})) if each.name == "agreement")
    finding = asked.find(said(text))
    assert finding.passed is False
    assert "As the sun slips" in finding.detail


def test_only_the_beginning_must_agree() -> None:
    (asked,) = (each for each in probes_for(replace(QWEN, agree_with={"q": PROSE})) if each.name == "agreement")
    assert asked.find(said(PROSE[:64] + " and then something else entirely.")).passed


def test_an_empty_answer_is_neither_kept_nor_asked_again() -> None:
    assert recorded([(probe("prose"), said(" "))]) == {}
    assert "agreement" not in names(replace(QWEN, agree_with={"q": " "}))


# --- the marks of a broken engine

CODE = """def total(items):
    result = 0
    for item in items:
        if item is not None:
            result += item
    return result

print(total([0, 0, 0, 1]))
"""
TABLE = "| card | clock | power | temperature | state |\n|------|-------|-------|-------------|-------|\n" + "".join(
    f"| {n} | 2800 | {180 + n} | {60 + n} | serving |\n" for n in range(4)
)
HAIKU = "Grey waves break and fold,\nthe lamp turns its patient eye —\nships remember home."
RULED = f"Summary\n{'=' * 70}\n\nAll {'four cards answered. ' * 1}The pool is full.\n\n{'-' * 90}\nEnd of the report."

GOOD = {
    "prose": PROSE,
    "prose cut in the middle": PROSE[:170],
    "haiku": HAIKU,
    "counting": ", ".join(COUNT),
    "counting in a column": "\n".join(COUNT),
    "digits": ", ".join(str(number) for number in range(1, 61)),
    "code": CODE,
    "table": TABLE,
    "table cut after its rule": "| a | b | c | d |\n|---|---|---|---|",
    "rules": RULED,
    "json": json.dumps({"cards": [{"name": f"card {n}", "free": True, "gib": 31.5} for n in range(6)]}, indent=2),
    "accents": "The café near the château in Orléans serves crème brûlée and a fine rosé to every visitor who asks.",
    "emoji": "Great question! 🎉🚀 Paris is the capital of France. 👩‍👩‍👧‍👦",
    "emoji cut by the limit": "Paris is lovely \ufffd",
    "laughter": "Ha ha ha, that is a good one, and I will tell you another about two captains and a lighthouse.",
    "deep indentation": "def f():\n" + " " * 40 + "return 1\n",
    "one word": "Paris",
    "a number": "14",
    "zeros": "1000000",
    "dots": "Well... it depends on the weather, of course.",
    "enthusiasm": "Paris!!!",
    "maths": "0² + 1² + 2² + 3² = 0 + 1 + 4 + 9 = 14, so Σi² = 14 for i ∈ {0, 1, 2, 3}.",
}
BAD = {
    "token 0": "!!!!!!",
    "token 0 after words": "The capital of France is" + "!" * 80,
    "token 0 with blanks": "! ! ! ! ! ! ! ! ! ! ! !",
    "token 0 in lines": "!\n!\n!\n!\n!\n",
    "one digit": "0" * 40,
    "one letter": "aaaaaaaaaaaaaaaaaaaaaaa",
    "a syllable": "The lamp is litlitlitlitlitlitlitlitlitlitlitlitlitlitlitlitlit",
    "a mark in the middle": PROSE[:100] + "?" * 150 + PROSE[100:],
    "newlines": "Paris is the capital." + "\n" * 30,
    "blanks": "{" + " " * 400,
    "newlines with blanks": "Paris" + " \n" * 12 + "more",
    "replacement characters": "The cap\ufffd\ufffd\ufffdital of\ufffd\ufffd Fr\ufffdance",
    "nothing but replacement": "\ufffd\ufffd",
    "control characters": "P\x00a\x01r\x02i\x03s",
    "private characters": "P\ue000\ue001\ue002aris",
    "one word again": "the " * 30,
    "a phrase again": "The lamp turns slowly. " + "I am a lighthouse keeper and I like it. " * 9,
    "a sentence again, cut": ("He climbs the stairs with a can of oil and looks at the dark sea again. " * 6)[:-20],
    "few words": " ".join(["lamp", "sea", "oil", "sea", "lamp", "oil", "oil", "lamp", "sea", "sea"] * 8),
    "ruling only": "-=" * 100,
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_a_sound_answer_has_no_mark(text: str) -> None:
    assert degenerate(text, english=True) is None


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_broken_answer_is_marked_with_evidence(text: str) -> None:
    mark = degenerate(text, english=True)
    assert mark
    assert len(mark) < 300
    assert "\n" not in mark


@pytest.mark.parametrize(
    "text",
    [
        "Столица 首都 capitale är città の Paris ответ",
        "日本は東アジアの島国です。",
        "prëzî dömêstîcèdér gàrò ômnïbùs ëtwàs fümê",
    ],
)
def test_a_salad_of_scripts_is_a_mark_only_where_english_was_due(text: str) -> None:
    assert degenerate(text, english=True)
    assert degenerate(text) is None


def test_words_of_no_language_are_marked_in_prose() -> None:
    salad = "om prezi domesticeder ola vertex garo Sammlung pluie niente kode arbol fuente wasser stelle " * 3
    varied = " ".join(f"{word}{place}" for place, word in enumerate(salad.split()))
    assert degenerate(varied, english=True, prose=True)
    assert degenerate(PROSE, english=True, prose=True) is None
    assert probe("prose").find(said(varied)).passed is False
    assert probe("prose").find(said(PROSE)).passed is True


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("expect", "agreement")])
@pytest.mark.parametrize("text", ["!" * 40, "\n" * 40, "The answer Paris 14 marigold " + "!" * 60])
def test_a_broken_engine_fails_every_probe(name: str, text: str) -> None:
    assert probe(name).find(said(text)).passed is False


@pytest.mark.parametrize("name", ["warm-up", "prose"])
def test_tokens_without_text_are_a_failure(name: str) -> None:
    finding = probe(name).find(said("", completion_tokens=120, finish_reason="length"))
    assert finding.passed is False
    assert "120 tokens" in finding.detail


def test_a_thought_that_loops_is_a_failure_though_the_answer_is_right() -> None:
    finding = probe("capital").find(said("Paris", reasoning="wait, " * 60))
    assert finding.passed is False
    assert finding.detail.startswith("reasoning: ")


@given(st.text())
def test_no_answer_is_too_strange_to_judge(text: str) -> None:
    for each in probes_for(replace(QWEN, expect={"q": "a"}, agree_with={"q": "a"})):
        finding = each.find(Answer(text=text, reasoning=text[::-1], tool_calls=(ToolCall(name=text, arguments=text),)))
        assert finding.passed is not None


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8), st.integers(60, 400))
def test_any_unit_repeated_long_enough_is_marked(unit: str, times: int) -> None:
    assert degenerate(unit * times)


# --- the whole


def test_all_that_was_asked_must_pass_and_something_must_be_asked() -> None:
    good, bad = Finding(probe="a", passed=True, detail=""), Finding(probe="b", passed=False, detail="")
    left_out = Finding(probe="c", passed=None, detail="")
    assert passed([good, left_out])
    assert not passed([good, bad])
    assert not passed([left_out])
    assert not passed([])


def test_no_answer_at_all_is_a_failure_in_the_engines_words() -> None:
    finding = probe("prose").failed("silent for 30.0 s after 1 chunks")
    assert finding == Finding(probe="prose", passed=False, detail="silent for 30.0 s after 1 chunks")
