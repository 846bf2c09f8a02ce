"""Laws about what is shipped: profiles, patches, the catalog of images and the table of flags."""

import hashlib
import json
import re
from functools import cache
from itertools import combinations
from types import SimpleNamespace

import pytest
import yaml

from b70ctl.core.image import check_reference, is_moving, same_version, within
from b70ctl.core.lint import FlagTable, lint
from b70ctl.core.patch import Answer, by_version, patched, refuse_unless_meant_for
from b70ctl.core.profile import Engine, Status
from b70ctl.edge import places
from b70ctl.edge.catalog import open_catalog
from b70ctl.edge.plugin import described
from b70ctl.errors import Refused

CATALOG = open_catalog(None)
NAMES = [entry.name for entry in CATALOG.profiles()]
PATCHES = CATALOG.patches()
IMAGES = {facts.ref: facts for facts in CATALOG.images()}
FLAGS = FlagTable(CATALOG.flags())
FOLDER = places.shipped("profiles")
FILES = sorted([*FOLDER.glob("*.yaml"), *FOLDER.glob("_base/*.yaml")])
KNOWN = (*FLAGS.versions, "0.24.0", "0.25.1", "0.26.1rc1.dev457", "0.27.1", "0.28.0", "0.29.0", "0.31.0")

STATUSES = {
    "gemma4": "production", "qwen3-30b-tq": "research", "qwen3-30b-tq-256k": "research",
    "qwen3-30b-fp16": "research", "qwen3-30b-eagle3-fp16": "research", "qwen3-30b-eagle3-tq": "research",
    "qwen3-30b-w4a16": "production", "qwen3-30b-ngram": "production", "qwen3-30b-eagle3": "production",
    "qwen3.5-35b-gptq": "research", "qwen3.6-35b-ct-int4": "rejected", "qwen3.6-35b-mtp": "research",
    "qwen3-30b-eagle3-k8v4": "research",
}  # fmt: skip
OBVIOUS = {
    "max_model_len", "enable_prefix_caching", "trust_remote_code", "quantization", "tool_call_parser",
    "reasoning_parser",
}  # fmt: skip
"""Engine settings whose name and value say all that there is to say."""
UNMARKED = {"grouped-topk": "neither a hash of the script nor what it leaves in the file is known"}
"""Patches whose scripts cannot be proven to have edited anything, each with the reason."""

every_profile = pytest.mark.parametrize("name", NAMES)
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
every_patch = pytest.mark.parametrize("name", PATCHES)


@cache
def profile(name):
    return CATALOG.profile(name).profile


def wanted(name):
    return [need.what for need in profile(name).needs]


# ---- profiles ----


def test_the_shipped_profiles_are_these_with_this_trust():
    assert {name: str(profile(name).status) for name in NAMES} == STATUSES


@every_profile
def test_a_profile_has_no_lint_error(name):
    one = profile(name)
    kernels = described(None) if one.kernels == "b70" else None
    found = lint(one, facts=IMAGES[one.image.ref], flags=FLAGS, kernels=kernels)
    assert [finding for finding in found if finding.severity == "error"] == []


@every_profile
def test_a_figure_has_its_conditions_and_names_a_person_or_a_document(name):
    assert profile(name).evidence
    for item in profile(name).evidence:
        assert len(item.conditions) > 3
        assert re.search(r"Vine|run note|kernels/README.md", item.source)


@every_profile
def test_only_what_may_serve_has_no_reason_against_it(name):
    one = profile(name)
    assert (one.status_reason is None) is (one.status is Status.PRODUCTION)


@every_profile
def test_the_expected_version_is_the_catalogs(name):
    one = profile(name)
    assert same_version(one.image.vllm, IMAGES[one.image.ref].vllm)


@every_profile
def test_a_profiles_patches_are_meant_for_its_image(name):
    facts = IMAGES[profile(name).image.ref]
    for each in profile(name).patches:
        patch = CATALOG.patch(each)
        refuse_unless_meant_for(each, patch, facts)
        assert facts.site_packages or not patch.edits


@every_profile
def test_what_no_registry_has_is_named_with_a_place_to_get_it(name):
    one = profile(name)
    own_files = [mount.source for mount in one.mounts if not mount.source.startswith("/")]
    scripts = [f"patches/{patch}/{script.file}" for patch in one.patches for script in CATALOG.patch(patch).scripts]
    own_image = [one.image.ref] if "/" not in one.image.ref else []
    placeholder = [one.model.path] if one.model.path and "/" not in one.model.path else []
    assert {*own_files, *scripts, *own_image, *placeholder} <= set(wanted(name))


@every_profile
def test_a_need_is_named_once(name):
    assert len(set(wanted(name))) == len(wanted(name))


@every_profile
def test_a_mount_changes_one_file_below_the_images_packages(name):
    packages = IMAGES[profile(name).image.ref].site_packages
    targets = [mount.target for mount in profile(name).mounts]
    assert len(set(targets)) == len(targets)
    assert all(target.startswith(f"{packages}/vllm/") for target in targets)
    assert all(mount.read_only for mount in profile(name).mounts)


@every_profile
def test_a_lifted_draft_reaches_as_far_as_its_model(name):
    one = profile(name)
    if one.speculative and one.speculative.draft:
        # also where vLLM may lift it: which model runner serves is not the profile's to know
        assert one.speculative.draft.overrides == {"max_position_embeddings": one.engine.max_model_len}


def test_nothing_shipped_asks_for_more_than_a_card():
    assert all(profile(name).resources.cap_add == [] and profile(name).resources.ipc == "private" for name in NAMES)


def test_the_production_of_july_is_what_its_notes_say():
    one = profile("qwen3-30b-eagle3")
    assert one.image.ref == "intel/vllm:latest"
    assert one.model.served_names == ["qwen3-30b-tq-256k", "qwen3-30b-a3b-w4a16"]
    assert (one.engine.kv_cache_dtype, one.engine.max_model_len, one.engine.enforce_eager) == ("fp8", 262144, True)
    assert (one.engine.tool_call_parser, one.patches) == ("hermes", ["marlin-moe-xpu"])
    assert one.speculative
    assert one.speculative.method == "eagle3"


def test_the_run_note_of_october_is_what_it_says():
    one = profile("qwen3.6-35b-mtp")
    assert not is_moving(one.image.ref)
    assert (one.engine.max_model_len, one.engine.max_num_seqs, one.engine.max_num_batched_tokens) == (163840, 64, 16384)
    assert (one.engine.quantization, one.engine.dtype, one.engine.kv_cache_dtype) == ("gptq", "float16", "fp8")
    assert one.speculative
    assert (one.speculative.method, one.speculative.num_speculative_tokens) == ("mtp", 4)
    assert one.patches == ["mtp-nightly", "mtp-boundary", "mtp-ptr-wrap"]
    assert "B70_MTP_BF16_DRAFT" not in one.env


def test_turboquant_is_served_by_our_kernels_and_says_that_they_were_not_measured_there():
    ours = {name for name in NAMES if (profile(name).engine.kv_cache_dtype or "").startswith("turboquant_")}
    assert ours == {"qwen3-30b-tq", "qwen3-30b-tq-256k", "qwen3-30b-eagle3-tq", "qwen3-30b-eagle3-k8v4"}
    for name in NAMES:
        assert (profile(name).kernels == "b70") is (name in ours)
    for name in ours:
        assert profile(name).status is Status.RESEARCH
        assert "not run on a B70" in profile(name).status_reason
        assert all(re.search("the author's|not this card", item.conditions) for item in profile(name).evidence)


def test_the_two_profiles_of_one_name_say_so():
    for name in ("qwen3-30b-eagle3", "qwen3-30b-eagle3-fp16"):
        comments = [line for line in (FOLDER / f"{name}.yaml").read_text().splitlines() if line.startswith("#")]
        assert any("qwen3-30b-eagle3" in line for line in comments)


# ---- their files ----


def uncommented(path):
    """Keys below `engine`, `env` and `speculative` that no comment stands beside or above."""
    lines = path.read_text(encoding="utf-8").splitlines()
    root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    sections = {key.value: value for key, value in root.value if isinstance(value, yaml.MappingNode)}
    for section in ("engine", "env"):
        for key, _ in sections[section].value if section in sections else ():
            number = key.start_mark.line
            if (
                key.value not in OBVIOUS
                and not lines[number - 1].lstrip().startswith("#")
                and " #" not in lines[number]
            ):
                yield f"{section}.{key.value}"


@every_file
def test_a_setting_that_is_not_obvious_has_its_reason_beside_it(path):
    assert list(uncommented(path)) == []


@every_file
def test_an_editor_finds_the_schema(path):
    up = "../" if path.parent.name == "_base" else "./"
    assert path.read_text().splitlines()[0] == f"# yaml-language-server: $schema={up}profile.schema.json"


@every_file
def test_a_file_is_plain_and_speaks_of_itself_alone(path):
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    assert "\t" not in text
    assert max(map(len, text.splitlines())) <= 120
    assert not re.search(r"\bseeds?\b|TODO|FIXME", text)


def test_every_base_is_somebodys_parent():
    parents = {parent for name in NAMES for parent in CATALOG.profile(name).lineage} - set(NAMES)
    assert parents == {path.stem for path in FILES if path.parent.name == "_base"}


def test_the_page_about_profiles_lists_them_all_with_their_status():
    rows = re.findall(r"^\| `([^`]+)` \| [^|]+ \| (\w+) \|", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert dict(rows) == STATUSES


# ---- patches ----


@every_patch
def test_a_patch_of_ours_says_of_every_version_what_it_is_to_it_and_contradicts_itself_nowhere(name):
    patch = CATALOG.patch(name)
    for version in KNOWN:
        answer, _ = by_version(patch, version)
        assert within(version, patch.versions) is (answer is Answer.APPLIES), version
        assert answer is not Answer.UNKNOWN or patch.status == "theirs", version


@every_patch
def test_a_patch_of_ours_knows_its_bases_and_one_of_theirs_where_to_get_it(name):
    patch = CATALOG.patch(name)
    assert (patch.status == "ours") is bool(patch.edits)
    assert bool(patch.bases) is bool(patch.edits)
    assert all(script.touches for script in patch.scripts)
    assert all("github.com" in script.where and script.file in script.where for script in patch.scripts)
    ends = [end for spelled in patch.bases.values() for end in spelled.split(" to ")]
    assert all(within(end, patch.versions) for end in ends)


def test_every_patch_of_ours_is_used_by_a_profile():
    used = {patch for name in NAMES for patch in profile(name).patches}
    assert {name for name in PATCHES if CATALOG.patch(name).status == "ours"} <= used


def test_the_patches_for_nemotron_and_those_for_qwens_draft_layers_exclude_each_other():
    mtp = {name for name in PATCHES if re.search("mtp|draft", name)}
    assert CATALOG.patch("grouped-topk").excludes.keys() == mtp


@every_patch
def test_a_patch_names_only_patches_that_there_are(name):
    patch = CATALOG.patch(name)
    assert {*patch.excludes, *patch.after} <= {*PATCHES} - {name}


def test_scripts_that_share_a_file_have_an_order():
    for one, two in combinations(PATCHES, 2):
        first, second = CATALOG.patch(one), CATALOG.patch(two)
        apart = not first.files & second.files
        assert apart or one in second.after or two in first.after or {one, two} & {*first.excludes, *second.excludes}


@every_patch
def test_a_patch_leaves_a_marker_where_one_is_known(name):
    patch = CATALOG.patch(name)
    assert ({marker.file for marker in patch.markers} == patch.files) is (name not in UNMARKED)
    assert all(any(marker.text in edit.new for edit in patch.edits) for marker in patch.markers if patch.edits)


def test_what_cannot_be_proven_is_a_script_that_there_is():
    assert all(CATALOG.patch(name).scripts for name in UNMARKED)


def marlin(base):
    patch = CATALOG.patch("marlin-moe-xpu")
    (edit,) = patch.edits
    return edit.file, base.replace("ANCHOR\n", edit.old)


def supports(source, platform):
    """What a function that holds the patch's anchor answers on a platform."""
    current = SimpleNamespace(is_rocm=lambda: platform == "rocm", is_xpu=lambda: platform == "xpu")
    scope = {"current_platform": current, "layer": SimpleNamespace(hidden_size=1)}
    exec(source, scope)
    return scope["check"](scope["layer"])


def test_the_marlin_patch_changes_the_answer_for_xpu_and_for_nothing_else():
    patch = CATALOG.patch("marlin-moe-xpu")
    file, base = marlin("def check(layer):\nANCHOR\n    return hidden_size == 1\n")
    digest = hashlib.sha256(base.encode()).hexdigest()
    after = patched("marlin-moe-xpu", patch, file, base, frozenset([digest]))
    assert {platform: supports(base, platform) for platform in ("cuda", "rocm", "xpu")} == {
        "cuda": True, "rocm": False, "xpu": True,
    }  # fmt: skip
    assert {platform: supports(after, platform) for platform in ("cuda", "rocm", "xpu")} == {
        "cuda": True, "rocm": False, "xpu": False,
    }  # fmt: skip


@pytest.mark.parametrize("body", ["    pass\n", "ANCHOR\nANCHOR\n"])
def test_the_marlin_patch_refuses_a_file_without_its_place_or_with_two(body):
    file, base = marlin("def check(layer):\n" + body)
    with pytest.raises(Refused, match="not once"):
        patched("marlin-moe-xpu", CATALOG.patch("marlin-moe-xpu"), file, base)


# ---- images ----


def test_images_are_listed_once_and_docker_can_read_their_names():
    refs = [facts.ref for facts in CATALOG.images()]
    assert len(set(refs)) == len(refs)
    assert [check_reference(ref) for ref in refs] == refs


@pytest.mark.parametrize("facts", IMAGES.values(), ids=lambda facts: facts.ref[:60])
def test_a_catalogued_image_says_so_and_its_digest_is_its_own(facts):
    assert facts.source == "catalog"
    assert facts.id is None
    if facts.digest:
        repository, _, digest = facts.digest.partition("@")
        assert facts.ref.startswith(f"{repository}:") or facts.ref == f"{repository}@{digest}"
    assert all(re.fullmatch(r"[0-9a-f]{64}|absent", digest) for digest in facts.files.values())


def test_releases_carry_the_hash_of_every_file_that_a_patch_of_ours_edits():
    edited = {file for name in PATCHES for file in CATALOG.patch(name).judged}
    for ref, facts in IMAGES.items():
        if ref.startswith("vllm/vllm-openai-xpu:v"):
            assert edited <= facts.files.keys()
            assert ref.endswith(f":v{facts.vllm}")


def test_intels_image_has_what_its_notes_say():
    facts = IMAGES["intel/vllm:latest"]
    assert facts.entrypoint[:2] == ("/bin/bash", "-c")
    assert facts.entrypoint[-1] == "--"
    assert facts.setvars
    assert facts.groups == {"video": 44}


# ---- the table of flags ----


def test_the_table_is_small_and_sorted_by_version():
    text = places.data("vllm-flags.json").read_text(encoding="utf-8")
    table = json.loads(text)
    assert len(text) < 60_000
    assert set(table) == {"versions", "flags", "bare", "choices", "speculative_methods", "speculative_keys", "env"}
    assert [tuple(map(int, version.split("."))) for version in table["versions"]] == sorted(
        tuple(map(int, version.split("."))) for version in table["versions"]
    )


def test_every_mask_names_at_least_one_version_and_no_other():
    table = CATALOG.flags()
    most = 1 << len(table["versions"])
    for masks in (table["flags"], table["bare"], table["env"], *table["choices"].values()):
        assert all(0 < mask < most for mask in masks.values())


def test_a_bare_flag_is_a_flag_and_a_flag_with_choices_takes_a_value():
    table = CATALOG.flags()
    assert all(table["flags"].get(name, 0) & mask == mask for name, mask in table["bare"].items())
    assert table["choices"].keys() <= table["flags"].keys() - table["bare"].keys()


@pytest.mark.parametrize(
    ("version", "flags"),
    [
        ("0.19.0", 294),
        ("0.20.2", 306),
        ("0.21.0", 314),
        ("0.22.1", 331),
        ("0.23.0", 331),
        ("0.32.0", 406),
        ("0.33.0", 411 + 50),  # the older form of 50 flags is taken, and left out of what is printed
    ],
)
def test_each_release_has_as_many_flags_as_its_parser_printed(version, flags):
    table = CATALOG.flags()
    bit = 1 << table["versions"].index(version)
    assert sum(1 for mask in table["flags"].values() if mask & bit) == flags - 1  # `--help` is not kept


def test_every_setting_of_ours_is_a_flag_of_every_release():
    settings = [name.replace("_", "-") for name in Engine.model_fields]
    everywhere = (1 << len(FLAGS.versions)) - 1
    named = {name: CATALOG.flags()["flags"].get(name) for name in settings if name != "flags"}
    assert set(named.values()) == {everywhere}, named
