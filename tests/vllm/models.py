"""Tiny models for a real vLLM: a target that answers the probes by heart, and an EAGLE-3 head taught on its states.

python -m tests.vllm.models OUT     with the Python of a vLLM environment; about three minutes on two cores
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from tests.vllm.draft_model import Eagle3
from tests.vllm.lesson import DRAFT_LIMIT, LENGTH, Lesson, lessons

TEMPLATE = (
    "{% if tools %}<|im_start|>system\nTools:{% for tool in tools %} {{ tool.function.name }}{% endfor %}<|im_end|>\n"
    "{% endif %}{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
PAD, END = 0, 2
LAYERS, HIDDEN = 7, 128
AUX = (2, LAYERS // 2, LAYERS - 3)
"""The states that vLLM takes by default; with seven layers they are three."""
SHAPE = {"hidden_size": HIDDEN, "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 64}  # fmt: skip

MOST_STEPS, FAST, KNOWN = 1200, 2e-3, 0.05
"""Of each, a step being one lesson; how fast; and the loss below which an answer is known by heart."""

Example = tuple[Tensor, int]
"""Tokens, and where the answer begins."""


def tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Byte pairs of the lessons' own texts, in which every other text can be said too."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=960, special_tokens=list(MARKS), initial_alphabet=alphabet, show_progress=False),
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token=MARKS[END], pad_token=MARKS[PAD], model_max_length=32_768
    )
    fast.chat_template = TEMPLATE
    return fast


def examples(tokens: PreTrainedTokenizerFast, taught: list[Lesson]) -> list[Example]:
    """Every lesson as the engine will see it."""
    found = []
    for lesson in taught:
        asked = tokens.apply_chat_template(
            [{"role": "user", "content": lesson.question}], tools=lesson.tools or None, add_generation_prompt=True,
            tokenize=False,
        )  # fmt: skip
        head = tokens.encode(asked, add_special_tokens=False)
        tail = [*tokens.encode(lesson.answer, add_special_tokens=False), END]
        found.append((torch.tensor(head + tail), len(head)))
    return found


def teach_target(model: Qwen3ForCausalLM, taught: list[Example]) -> float:
    """Learn every answer by heart; the worst loss of any lesson at the end."""
    best = torch.optim.AdamW(model.parameters(), lr=FAST, weight_decay=0.0)
    worst = dict.fromkeys(range(len(taught)), 9.0)
    for step in range(1, MOST_STEPS + 1):
        for group in best.param_groups:
            group["lr"] = FAST * min(1.0, step / 40) * max(0.05, min(1.0, 2 - 2 * step / MOST_STEPS))
        # mostly what is not known yet
        number = max(random.sample(sorted(worst), 3), key=worst.__getitem__)
        row, begin = taught[number]
        # a lesson is the same wherever it stands
        shift = random.randrange(max(1, LENGTH - len(row)))
        logits = model(row[None], position_ids=torch.arange(len(row))[None] + shift).logits[0, begin - 1 : -1]
        loss = functional.cross_entropy(logits.float(), row[begin:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        best.step()
        best.zero_grad()
        worst[number] = loss.item()
        if step % 50 == 0:
            say(f"target step {step}: worst {max(worst.values()):.4f}")
        if max(worst.values()) < 0.004:
            break
    return max(worst.values())


def teach_draft(model: Qwen3ForCausalLM, head: Eagle3, taught: list[Example]) -> float:
    """Learn to guess what the target will say, two tokens deep; the last losses' mean."""
    states = [_states(model, row) for row, _ in taught]
    embed = model.get_input_embeddings().weight.detach().float()
    best = torch.optim.AdamW(head.parameters(), lr=FAST, weight_decay=0.0)
    seen: list[float] = []
    for step in range(1, MOST_STEPS + 1):
        number = random.randrange(len(taught))
        row, begin = taught[number]
        shift = random.randrange(max(1, LENGTH - len(row)))
        loss = _draft_loss(head, embed, states[number], row, begin, shift)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        best.step()
        best.zero_grad()
        seen.append(loss.item())
        if step % 50 == 0:
            say(f"draft step {step}: mean {sum(seen[-50:]) / 50:.4f}")
        if step >= 200 and sum(seen[-60:]) < 60 * 0.02:
            break
    return sum(seen[-60:]) / 60


def _states(model: Qwen3ForCausalLM, row: Tensor) -> Tensor:
    with torch.no_grad():
        every = model(row[None], output_hidden_states=True).hidden_states
    return torch.cat([every[layer] for layer in AUX], dim=-1).float()


def _draft_loss(head: Eagle3, embed: Tensor, states: Tensor, row: Tensor, begin: int, shift: int) -> Tensor:
    """At a position stand the target's state and the next token; guessed is the one after, then one more."""
    state = head.fc(states)[:, :-1]
    known, loss = row[1:], torch.zeros(())
    for depth in range(2):
        positions = torch.arange(len(known))[None] + shift + depth
        logits, state = head(embed[known][None], state, positions)
        first = begin - 2 - depth
        loss = loss + functional.cross_entropy(logits[0, max(0, first) : -1].float(), known[max(0, first) + 1 :])
        state, known = state[:, :-1], known[1:]
    return loss / 2


def save(out: Path, model: Qwen3ForCausalLM, head: Eagle3, tokens: PreTrainedTokenizerFast) -> None:
    """Both models as directories that vLLM loads."""
    target, draft = out / "tiny-target", out / "tiny-draft"
    model.to(torch.bfloat16).save_pretrained(target)
    (target / "generation_config.json").write_text(json.dumps({"eos_token_id": END, "pad_token_id": PAD}))
    draft.mkdir(exist_ok=True)
    for folder in (target, draft):
        tokens.save_pretrained(folder)
    (draft / "config.json").write_text(json.dumps(draft_config(model.config.vocab_size), indent=1))
    weights = {name: value.to(torch.bfloat16).contiguous() for name, value in head.state_dict().items()}
    save_file(weights, draft / "model.safetensors", metadata={"format": "pt"})


def draft_config(vocabulary: int) -> dict[str, object]:
    """The head's config, with a position limit below what the target serves."""
    return {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": 1, **SHAPE,
        "vocab_size": vocabulary, "draft_vocab_size": vocabulary, "max_position_embeddings": DRAFT_LIMIT,
        "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 10_000.0, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": END,
    }  # fmt: skip


def make(out: Path) -> None:
    """Teach and save both models."""
    torch.manual_seed(0)
    random.seed(0)
    # more threads wait for one another, and what is learnt would depend on how many there are
    torch.set_num_threads(1)
    taught = lessons()
    tokens = tokenizer([text for lesson in taught for text in (lesson.question, lesson.answer)])
    rows = examples(tokens, taught)
    vocabulary = (len(tokens) + 63) // 64 * 64
    say(f"{len(rows)} lessons, {sum(len(row) for row, _ in rows)} tokens, {len(tokens)} words")
    config = Qwen3Config(
        vocab_size=vocabulary, num_hidden_layers=LAYERS, max_position_embeddings=8192, tie_word_embeddings=False,
        eos_token_id=END, pad_token_id=PAD, torch_dtype="bfloat16", rope_theta=10_000.0, **SHAPE,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config).float()
    worst = teach_target(model, rows)
    if worst > KNOWN:
        raise SystemExit(f"the target has not learnt its lessons: worst loss {worst:.4f}")
    # the draft sees what the engine will serve: weights rounded to bfloat16
    model.to(torch.bfloat16).float()
    head = Eagle3({**SHAPE, "vocab_size": vocabulary})
    teach_draft(model, head, rows)
    save(out, model, head, tokens)


def say(text: str) -> None:
    """One line of progress."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    make(place)
