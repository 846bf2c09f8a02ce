"""A command that is shown or written down never holds a secret, and stays readable beside it."""

import json
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import b70ctl
from b70ctl.core.secrecy import HIDDEN, as_address, is_secret, masked, without_credentials

FLAGS = ["--api-key", "--hf-token", "--api_key", "--hub.token", "--ssl-keyfile-password", "--secret", "--API-KEY"]
VARIABLES = ["HF_TOKEN", "VLLM_API_KEY", "OPENAI_API_KEY", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET", "ROUTER_KEY",
             "env.VLLM_API_KEY", "DB_PASSWORD", "OPENAI_APIKEY"]  # fmt: skip
# long enough, and of letters that no other word here has, so that finding a part of it means something
secrets = st.text(alphabet=st.sampled_from("QZ09§_-+/=.:'\" ;$\\{}"), min_size=1, max_size=20).map(lambda s: f"QQ{s}ZZ")
words = st.lists(st.sampled_from(["vllm", "serve", "m", "--port", "8000", "--flag", "-x", "a b"]), max_size=4)


def is_hidden(secret, found):
    text = "\n".join(found)
    assert secret not in text
    assert "QQ" not in text
    assert "ZZ" not in text
    assert HIDDEN in text


@given(words, st.sampled_from(FLAGS), secrets, words)
def test_the_word_after_a_secret_flag_is_hidden(before, flag, secret, after):
    found = masked([*before, flag, secret, *after])
    is_hidden(secret, found)
    assert found[: len(before) + 1] == (*before, flag)


@given(words, st.sampled_from([*FLAGS, *VARIABLES]), secrets, words)
def test_what_follows_a_secret_name_in_its_own_word_is_hidden(before, name, secret, after):
    found = masked([*before, f"{name}={secret}", *after])
    is_hidden(secret, found)
    assert found == (*before, f"{name}={HIDDEN}", *after)


@given(st.sampled_from([*FLAGS, *VARIABLES]), st.sampled_from(["=", " "]), secrets)
def test_a_secret_inside_a_shells_line_is_hidden(name, between, secret):
    line = f"exec env {name}{between}{shlex.quote(secret)} vllm serve m"
    found = masked(["sh", "-c", line])
    is_hidden(secret, found)
    assert found[-1].endswith(" vllm serve m")


@given(st.sampled_from(FLAGS), st.lists(secrets, min_size=2, max_size=4))
def test_every_key_of_a_flag_that_takes_several_is_hidden(flag, keys):
    found = masked(["vllm", "serve", "m", flag, *keys, "--port", "8000"])
    is_hidden(keys[-1], found)
    assert found[-2:] == ("--port", "8000")


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve m --max-num-batched-tokens 8192 --max-model-len 4096",
        "vllm serve m --tokenizer x --tokenizer-mode auto --skip-tokenizer-init",
        "vllm serve m --max-num-batched-tokens=8192 --enable-prefix-caching",
        "vllm serve m --tool-call-parser hermes --ssl-keyfile /k --kv-cache-dtype fp8",
        "sh -c 'vllm serve m --max-num-batched-tokens 8192 --tokenizer x'",
        "env PYTORCH_TOKENIZERS=1 MONKEY=banana KEYS=3 COMPASS=n vllm bypass passage",
    ],
)
def test_words_that_only_look_like_secrets_stay_readable(line):
    assert masked(shlex.split(line)) == tuple(shlex.split(line))


def test_a_flag_after_a_secret_one_is_a_flag_and_not_its_value():
    assert masked(["--api-key", "--port", "8000"]) == ("--api-key", "--port", "8000")


@given(st.lists(st.text()))
def test_words_are_neither_lost_nor_added(given_words):
    assert len(masked(given_words)) == len(given_words)


@given(st.lists(st.text(), max_size=6))
def test_what_is_masked_stays_as_it_is(given_words):
    once = masked(given_words)
    assert masked(once) == once


@given(st.text(min_size=8).filter(lambda text: "…" not in text), st.text(), st.text())
def test_a_value_that_is_known_to_be_secret_is_hidden_wherever_it_stands(secret, before, after):
    for word in masked([f"{before}{secret}{after}", "--headers", secret], [secret]):
        assert secret not in word


def test_a_secret_inside_a_mapping_is_hidden():
    assert masked(["--set", "env={HF_TOKEN: hf_x}"]) == ("--set", "env={HF_TOKEN: …")


# --- addresses -------------------------------------------------------------------------------------------------------

# what a password in an address may be made of, where it was typed as it is
passwords = st.text(alphabet=st.sampled_from("QZ09-_.:@/%+"), max_size=12).map(lambda s: f"QQ{s}ZZ")
SCHEMES = ["ssh://", "tcp://", "https://", "unix://", "garbage://"]


@given(st.sampled_from(SCHEMES), passwords, st.sampled_from(["said: ", "", "(", "'"]))
def test_no_address_in_a_text_shows_a_password_and_its_host_stays_readable(scheme, password, before):
    found = without_credentials(f"{before}{scheme}user:{password}@host:1 is no address")
    assert found == f"{before}{scheme}{HIDDEN}@host:1 is no address"


@pytest.mark.parametrize("text", ["vllm@sha256:1 of mail@example", "http://127.0.0.1:8000/v1", "unix:///run/x.sock"])
def test_what_holds_no_password_is_told_as_it_is(text):
    assert without_credentials(text) == text


@given(st.sampled_from([*SCHEMES, ""]), passwords | st.just("QQ a b ZZ"), st.sampled_from(["", "?token=QQZZ"]))
def test_an_address_that_is_none_shows_no_password_either(scheme, password, after):
    found = as_address(f"{scheme}user:{password}@host:1{after}")
    assert "QQ" not in found
    assert "host:1" in found


def test_a_password_before_the_scheme_is_hidden_too():
    assert as_address("user:QQ@tcp://host:1") == f"{HIDDEN}@tcp://host:1"


@pytest.mark.parametrize("name", [*FLAGS, *VARIABLES, "KEY", "CREDENTIALS"])
def test_a_name_of_a_secret_is_one_alone_too(name):
    assert is_secret(name)


@pytest.mark.parametrize("name", [
    "--max-num-batched-tokens", "TOKENIZERS_PARALLELISM", "--tokenizer", "CCL_KEYS", "--long-prefill-token-threshold",
    "--return-tokens-as-token-ids", "--stop-token-ids", "--pass-config", "VLLM_XPU_PASS_CONFIG", "--ssl-keyfile",
])  # fmt: skip
def test_a_name_that_only_looks_like_one_is_none(name):
    assert not is_secret(name)


def test_of_all_that_vllm_knows_its_keys_and_tokens_alone_are_secret():
    table = json.loads((Path(b70ctl.__file__).parent / "data" / "vllm-flags.json").read_text(encoding="utf-8"))
    assert {name for name in table["flags"] if is_secret(f"--{name}")} == {"api-key", "hf-token"}
    assert {name for name in table["env"] if is_secret(name)} == {"VLLM_API_KEY"}
