"""`kernels: b70` in a profile: what is rendered, and what is refused by lint, render and plan alike, before a start."""

import shutil

import pytest
import yaml

from b70ctl.edge import places

SHIPPED = places.shipped("kernels") / "b70_kernels"

MINE = """\
summary: mine
status: production
image: {ref: "a/b:1", vllm: 0.30.0}
model: {path: some-model, served_names: [m]}
kernels: b70
engine: {kv_cache_dtype: turboquant_k8v4, max_model_len: 4096}
"""


@pytest.fixture(autouse=True)
def mine(site):
    """The site's own profile with our kernels."""
    write(site, "")


def write(site, text):
    (site / "profiles" / "mine.yaml").write_text(MINE + text)


def engine_of(said):
    return yaml.safe_load(said.out)["services"]["engine"]


def test_the_engine_sees_the_plugin_and_nothing_else_changes(b70ctl, site):
    ours = engine_of(b70ctl("--site", site, "render", "mine"))
    theirs = engine_of(b70ctl("--site", site, "render", "mine", "--set", "kernels=image"))
    assert {key for key in ours if ours[key] != theirs[key]} == {"environment", "volumes", "labels"}
    assert ours["environment"] == theirs["environment"] | {"PYTHONPATH": "/opt/b70ctl/plugin"}
    (added,) = [volume for volume in ours["volumes"][:-1] if volume not in theirs["volumes"]]
    assert (added["source"], added["target"]) == ("./files/plugin", "/opt/b70ctl/plugin")
    assert added["read_only"]


REFUSED = {
    "an unproven release": ("--set", "image.vllm=0.34.0", "was not proven with vLLM 0.34.0"),
    "a development build": ("--set", "image.vllm=0.30.1.dev5+gabc", "was not proven with vLLM 0.30.1.dev5+gabc"),
    "switched off": ("--set", "env.B70_KERNELS=off", "switches off what `kernels: b70` asks for"),
    "left out by vLLM": ("--set", "env.VLLM_PLUGINS=other", "vLLM loads the plugins other and no others"),
    "unheard": ("--set", "env.VLLM_LOGGING_LEVEL=ERROR", "do not say that the plugin is in use"),
    "a mount of that name": ("--set", "mounts=[{source: x, target: /y/b70_kernels}]", "is the plugin once more"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_plugin_could_not_be_proven_with_is_refused_by_lint_and_by_render(b70ctl, site, case):
    *words, why = REFUSED[case]
    linted = b70ctl("--site", site, "profiles", "lint", "mine", *words)
    rendered = b70ctl("--site", site, "render", "mine", "--check", *words)
    assert (linted.code, rendered.code) == (1, 1)
    assert why in linted.out
    assert why in rendered.err
    assert linted.out.count("kernels-") == 1


@pytest.mark.parametrize("kernels", ["b70", "image"])
@pytest.mark.parametrize("target", ["/opt/b70ctl/plugin/x", "/opt/b70ctl/done", "/opt/x/../b70ctl/start", "/opt"])
def test_a_mount_in_the_place_of_what_a_release_brings_is_refused_once(b70ctl, site, kernels, target):
    (site / "x").write_text("x")
    words = ("--set", f"kernels={kernels}", "--set", f"mounts=[{{source: x, target: {target}}}]")
    linted = b70ctl("--site", site, "profiles", "lint", "mine", *words).exits(1)
    assert linted.out.count("error: ") == linted.out.count("where a release mounts what is its own") == 1
    assert "[own-folder]" in b70ctl("--site", site, "render", "mine", "--check", *words).exits(1).err


def test_an_unproven_version_that_somebody_takes_on_by_name_is_rendered(b70ctl, site):
    said = b70ctl("--site", site, "render", "mine", "--check", "--set", "image.vllm=0.34.0",
                  "--set", 'env.B70_KERNELS_UNPROVEN="0.34.0"')  # fmt: skip
    assert said.code == 0


def test_without_a_turboquant_cache_it_is_only_doubtful(b70ctl, site):
    said = b70ctl("--site", site, "profiles", "lint", "mine", "--set", "engine.kv_cache_dtype=fp8").exits(0)
    assert "warning: kernels: our kernels serve TurboQuant's caches, and this one is fp8" in said.out


def test_another_package_where_python_looks_first_is_found_by_looking_into_the_mounts(b70ctl, site):
    write(site, "env: {PYTHONPATH: /opt/mine}\nmounts: [{source: lib, target: /opt/mine}]\n")
    (site / "lib").mkdir()
    (site / "lib" / "other.py").write_text("x = 1\n")
    assert b70ctl("--site", site, "render", "mine", "--check").code == 0
    (site / "lib" / "b70_kernels").mkdir()
    for words in (("render", "mine", "--check"), ("profiles", "lint", "mine")):
        said = b70ctl("--site", site, *words).exits(1)
        assert "b70_kernels is mounted in /opt/mine too" in said.out + said.err


@pytest.mark.parametrize("entry", ["/opt/lib.zip", "/opt/lib.zip/deep"])
def test_an_archive_where_python_looks_is_refused_since_nobody_looks_inside(b70ctl, site, entry):
    write(site, f"env: {{PYTHONPATH: {entry}}}\nmounts: [{{source: lib.zip, target: /opt/lib.zip}}]\n")
    (site / "lib.zip").write_bytes(b"PK")
    for words in (("render", "mine", "--check"), ("profiles", "lint", "mine")):
        said = b70ctl("--site", site, *words).exits(1)
        assert f"{entry} is a file where Python looks for packages" in said.out + said.err
    assert b70ctl("--site", site, "render", "mine", "--check", "--set", "kernels=image").code == 0


def test_what_stands_in_the_place_of_a_sites_kernels_is_refused_with_its_path(b70ctl, site):
    (site / "kernels").mkdir()
    (site / "kernels" / "b70_kernels").symlink_to(site / "kernels" / "b70_kernels")
    b70ctl("--site", site, "render", "mine").refused(
        1, f"{site}/kernels/b70_kernels: Too many levels of symbolic links"
    )
    assert b70ctl("--site", site, "render", "mine", "--set", "kernels=image").code == 0


@pytest.mark.parametrize("words", [("render", "mine"), ("profiles", "lint", "mine"), ("render", "--all", "--check")])
def test_a_sites_kernels_that_vllm_cannot_load_are_refused_with_both_ways_out(b70ctl, site, words):
    (site / "kernels" / "b70_kernels").mkdir(parents=True)
    said = b70ctl("--site", site, *words).exits(1)
    told = said.out + said.err
    assert "have no plugin for vLLM" in told
    assert "kernels: image" in told
    assert "Traceback" not in told
    shutil.rmtree(site / "kernels")
    assert b70ctl("--site", site, "render", "mine").code == 0


@pytest.mark.parametrize("place", ["kernels/b70_kernels/notes.py", "tuning.json"])
def test_a_secrets_file_among_a_sites_kernels_is_refused_by_lint_and_by_render(b70ctl, site, place):
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SHIPPED, site / "kernels" / "b70_kernels", ignore=without)
    (site / "key").write_text("s3cret")
    (site / "site.yaml").write_text((site / "site.yaml").read_text() + "secrets: {K: {file: key}}\n")
    (site / place).hardlink_to(site / "key")
    for words in (("profiles", "lint", "mine"), ("render", "mine")):
        said = b70ctl("--site", site, *words).exits(1)
        assert f"{site}/{place} is the file of secrets.K by another name" in said.out + said.err
    (site / place).unlink()
    assert b70ctl("--site", site, "render", "mine").code == 0


def test_a_bad_table_is_refused_and_a_profile_that_does_not_carry_it_is_not(b70ctl, site):
    (site / "tuning.json").write_text("{}")
    b70ctl("--site", site, "render", "mine").refused(1, "b70ctl kernels tune")
    assert b70ctl("--site", site, "render", "mine", "--set", "kernels=image").code == 0


def test_kernels_of_nobody_are_a_usage_error(b70ctl, site):
    b70ctl("--site", site, "render", "mine", "--set", "kernels=mine").refused(2, "`kernels`")
