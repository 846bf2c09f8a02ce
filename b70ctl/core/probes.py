"""What a new engine is asked before it may stay, in the order in which it is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from b70ctl.core import judges, questions
from b70ctl.core.answer import Answer, Finding, passed
from b70ctl.core.judges import Judge

__all__ = ["NAMES", "Answer", "Finding", "Probe", "ProbeTarget", "passed", "probes_for", "recorded", "unasked"]

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_FIRST = ("warm-up", "capital", "arithmetic", "counting", "prose")
_THEN = ("json", "tool-call", "long-prompt", "expect", "agreement")
NAMES = _FIRST + _THEN
# a thought comes before the answer and is paid from the same budget
_THINKING = 1024
_MARGIN = 32
_LEAST_ANSWER = 16
# what a draft was trained with most often, so the limit to go past when none is known
_USUAL_DRAFT_LIMIT = 2048
_BEYOND = 1.3
_LONGEST_PROMPT = 65_536
_SHORTEST_LONG_PROMPT = 512
_ROOM = 512
_WARM_UP_TOKENS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTarget:
    """What the probes must know of an engine: what it is called, what it can do, what was asked of it before.

    `draft_limit` is the draft's own position limit, `expect` maps a profile's questions to what their answers must
    contain, `agree_with` maps questions to the greedy answers of a proven release.
    """

    model: str
    max_model_len: int
    chat: bool = True
    tools: bool = False
    reasoning: bool = False
    speculative: bool = False
    draft_limit: int | None = None
    skip: frozenset[str] = frozenset()
    expect: Mapping[str, str] = field(default_factory=dict)
    agree_with: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One question, where it is posted, and how its answer is judged."""

    name: str
    why: str
    question: str
    body: Mapping[str, Any]
    judge: Judge
    path: str = CHAT
    english: bool = True
    prose: bool = False
    keep: bool = False

    def find(self, answer: Answer) -> Finding:
        """What this answer shows: a broken engine fails whatever the judge would say."""
        if mark := judges.broken(answer, english=self.english, prose=self.prose):
            return Finding(probe=self.name, passed=False, detail=mark)
        ruling = self.judge(answer)
        return Finding(probe=self.name, passed=ruling.passed, detail=ruling.detail)

    def failed(self, error: str) -> Finding:
        """What it shows when no answer came."""
        return Finding(probe=self.name, passed=False, detail=error)


def probes_for(target: ProbeTarget) -> tuple[Probe, ...]:
    """Everything to ask, in order: a long first prompt, known answers, the rest, the slow ones last."""
    asked = (
        _warm_up(target),
        _capital(target),
        _arithmetic(target),
        _counting(target),
        _prose(target),
        _json(target),
        _tool_call(target),
        _long_prompt(target),
        *_expectations(target),
        *_agreements(target),
    )
    return tuple(probe for probe in asked if probe and probe.name not in target.skip)


def unasked(target: ProbeTarget) -> tuple[Finding, ...]:
    """The probes that are left out, each with its reason."""
    asked = {probe.name for probe in probes_for(target)}
    reasons = {name: "skipped by the profile" for name in target.skip if name in NAMES}
    reasons |= _reasons(target)
    return tuple(
        Finding(probe=name, passed=None, detail=reasons[name])
        for name in NAMES
        if name in reasons and name not in asked
    )


def recorded(answers: Iterable[tuple[Probe, Answer]]) -> dict[str, str]:
    """The greedy answers worth keeping for a later `agree_with`, by their question."""
    return {probe.question: answer.visible for probe, answer in answers if probe.keep and answer.visible}


def _reasons(target: ProbeTarget) -> dict[str, str]:
    reasons = {}
    if not target.tools:
        reasons["tool-call"] = "the profile names no tool parser"
    elif not target.chat:
        reasons["tool-call"] = "the model has no chat template"
    if _long_prompt_tokens(target) is None:
        reasons["long-prompt"] = f"max_model_len {target.max_model_len:,} leaves no room for a long prompt"
    return {name: why for name, why in reasons.items() if name not in target.skip}


def _ask(target: ProbeTarget, question: str, tokens: int, prompt_tokens: int = 128, **more: Any) -> dict[str, Any]:
    """A greedy request; no seed, which a greedy answer does not need and some samplers pay for."""
    wanted = tokens + (_THINKING if target.reasoning else 0)
    room = target.max_model_len - prompt_tokens - _MARGIN
    said = {"messages": [{"role": "user", "content": question}]} if target.chat else {"prompt": question}
    return {
        "model": target.model,
        **said,
        "max_tokens": max(_LEAST_ANSWER, min(wanted, room)),
        "temperature": 0,
        **more,
    }


def _probe(
    target: ProbeTarget, name: str, why: str, question: str, body: dict[str, Any], judge: Judge, **more: Any
) -> Probe:
    path = CHAT if target.chat else COMPLETIONS
    return Probe(name=name, why=why, question=question, body=body, judge=judge, path=path, **more)


def _warm_up(target: ProbeTarget) -> Probe:
    room = max(16, target.max_model_len - 128)
    question = questions.report(questions.words_in(min(_WARM_UP_TOKENS, room)))
    why = "the first prompt pays for kernels compiled on first use, and a short first prompt has killed workers"
    body = _ask(target, question, 32, _WARM_UP_TOKENS)
    return _probe(target, "warm-up", why, question, body, judges.anything)


def _capital(target: ProbeTarget) -> Probe:
    question = "What is the capital of France? Answer in one word." if target.chat else "The capital of France is"
    why = "a model that loaded its weights rightly knows this"
    return _probe(target, "capital", why, question, _ask(target, question, 24), judges.says("Paris"), keep=True)


def _arithmetic(target: ProbeTarget) -> Probe:
    asked = "What does the Python expression sum(i*i for i in range(4)) evaluate to? Answer with the number only."
    question = asked if target.chat else ">>> sum(i for i in range(4))\n6\n>>> sum(i*i for i in range(4))\n"
    why = "quantized weights that were damaged still know capitals, and fail at this"
    return _probe(target, "arithmetic", why, question, _ask(target, question, 24), judges.equals_number(14))


def _counting(target: ProbeTarget) -> Probe:
    asked = "Count from one to thirty in English words, separated by commas. Write nothing else."
    question = asked if target.chat else "Counting from one to forty in words: one, two, three,"
    why = "a broken speculative path cannot count: one wrongly accepted token breaks the sequence"
    body = _ask(target, question, 200, stream=True, stream_options={"include_usage": True})
    return _probe(target, "counting", why, question, body, judges.counts_from(1 if target.chat else 4), keep=True)


def _prose(target: ProbeTarget) -> Probe:
    asked = "Describe in one paragraph how a lighthouse keeper spends an evening in autumn."
    question = asked if target.chat else "On an evening in autumn the lighthouse keeper climbed the stairs, and"
    why = "damage shows in longer free text that short answers get away with"
    return _probe(target, "prose", why, question, _ask(target, question, 120), judges.anything, prose=True, keep=True)


def _json(target: ProbeTarget) -> Probe:
    question = 'Describe the city of Paris as one JSON object with exactly the keys "city", "country" and "river".'
    question += "" if target.chat else "\n"
    why = "constrained output takes a path of its own through sampler and drafts"
    body = _ask(target, question, 160, response_format={"type": "json_object"})
    judge = judges.json_object(("city", "country", "river") if target.chat else ())
    return _probe(target, "json", why, question, body, judge)


def _tool_call(target: ProbeTarget) -> Probe | None:
    if not (target.tools and target.chat):
        return None
    question = "What is the weather in Paris right now? Use the tool."
    why = "clients rely on the tool parser, which a wrong template or parser breaks without an error"
    body = _ask(target, question, 160, 384, tools=[questions.WEATHER_TOOL], tool_choice="auto")
    return _probe(target, "tool-call", why, question, body, judges.calls_tool("get_weather", "city", "paris"))


def _long_prompt(target: ProbeTarget) -> Probe | None:
    tokens = _long_prompt_tokens(target)
    if tokens is None:
        return None
    question = questions.haystack(questions.words_in(tokens))
    why = "past the draft's position limit drafts are wrong or dropped, and the answer must still be right"
    past = (target.draft_limit or _USUAL_DRAFT_LIMIT) if target.speculative else None
    body = _ask(target, question, 24, tokens + tokens // 4)
    return _probe(target, "long-prompt", why, question, body, judges.finds(questions.NEEDLE, past=past))


def _long_prompt_tokens(target: ProbeTarget) -> int | None:
    """As long as takes it past the draft's limit, as the engine's length allows; None when nothing long fits."""
    limit = target.draft_limit or _USUAL_DRAFT_LIMIT
    # a limit lifted to the whole length cannot be passed; then the usual one is
    reachable = limit if limit < target.max_model_len - _ROOM else _USUAL_DRAFT_LIMIT
    # words are counted here, tokens there: a fifth is kept back for a tokenizer that splits more
    room = int((target.max_model_len - _ROOM) / 1.2)
    tokens = min(int(reachable * _BEYOND), room, _LONGEST_PROMPT)
    return tokens if tokens >= _SHORTEST_LONG_PROMPT else None


def _expectations(target: ProbeTarget) -> list[Probe]:
    why = "the profile asks it"
    return [
        _probe(target, "expect", why, question, _ask(target, question, 256), judges.says(expected), english=False)
        for question, expected in target.expect.items()
    ]


def _agreements(target: ProbeTarget) -> list[Probe]:
    why = "greedy answers of the same weights begin alike, with drafts or without"
    return [
        _probe(
            target, "agreement", why, question, _ask(target, question, 64), judges.agrees_with(before), english=False
        )
        for question, before in (target.agree_with or {}).items()
        if before.strip()
    ]
