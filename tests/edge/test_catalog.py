"""Names are found where their owner put them, and what is wrong is told with file, line and a suggestion."""

from textwrap import dedent

import pytest

from b70ctl.core.site import Site
from b70ctl.edge import places
from b70ctl.edge.catalog import Catalog, checked, open_catalog
from b70ctl.errors import UsageError

WHOLE = """\
summary: mine
status: production
image: {ref: "a/b:1", vllm: 0.21.0}
model: {path: some-model, served_names: [m]}
"""


@pytest.fixture
def site(tmp_path):
    (tmp_path / "profiles").mkdir()
    (tmp_path / "site.yaml").write_text("models: /srv/models\n")
    return tmp_path


def put(site, name, text):
    path = site / "profiles" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text))
    return path


def refused(site, name, *sets):
    with pytest.raises(UsageError) as error:
        open_catalog(site).profile(name, sets)
    return error.value


def test_a_sites_own_file_goes_before_the_shipped_one(site):
    put(site, "gemma4", WHOLE)
    catalog = open_catalog(site)
    assert catalog.profile("gemma4").profile.summary == "mine"
    origins = {entry.name: entry.origin for entry in catalog.profiles()}
    assert (origins["gemma4"], origins["qwen3-30b-tq"]) == ("site", "shipped")


def test_without_a_site_there_is_what_is_shipped():
    catalog = open_catalog(None)
    assert {entry.origin for entry in catalog.profiles()} == {"shipped"}
    assert catalog.site == Site()


def test_a_sites_profile_extends_a_shipped_one(site):
    put(site, "mine", "extends: gemma4\nengine: {max_model_len: 1234}\n")
    written = open_catalog(site).profile("mine")
    assert written.lineage[-2:] == ("gemma4", "mine")
    assert written.profile.engine.max_model_len == 1234


def test_the_sites_defaults_lie_below_every_profile(site):
    (site / "site.yaml").write_text("defaults: {summary: below, boot: {budget: 99, stall: 98}}\n")
    put(site, "mine", WHOLE + "boot: {stall: 5}\n")
    profile = open_catalog(site).profile("mine").profile
    assert (profile.summary, profile.boot.budget, profile.boot.stall) == ("mine", 99, 5)


def test_a_parent_is_not_a_profile_to_be_named(site):
    put(site, "_base/base", WHOLE)
    put(site, "mine", "extends: base\n")
    assert open_catalog(site).profile("mine").lineage == ("base", "mine")
    assert "base" not in {entry.name for entry in open_catalog(site).profiles()}
    assert "there is no profile `base`" in refused(site, "base").what


def test_an_unknown_name_is_told_with_what_is_close_and_where_it_was_sought(site):
    error = refused(site, "gema4")
    assert "did you mean gemma4" in error.what
    assert str(site / "profiles" / "gema4.yaml") in error.what
    assert error.hint == "b70ctl profiles list"


@pytest.mark.parametrize("name", ["../site", "a/b", "A", "", ".hidden", "a b", "/etc/passwd", "x" * 64])
def test_a_name_that_is_a_path_is_never_opened(site, name):
    assert "cannot be a profile's name" in refused(site, name).what


def test_a_missing_parent_names_the_parent(site):
    put(site, "mine", "extends: nobody\n")
    assert "there is no profile `nobody`" in refused(site, "mine").what


def test_a_cycle_is_told_with_everybody_in_it(site):
    put(site, "a", "extends: b\n")
    put(site, "b", "extends: a\n")
    assert "a -> b -> a" in refused(site, "a").what


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (WHOLE + "engin: {}\n", 5, "there is no key `engin`; did you mean `engine`?"),
        (WHOLE + "engine:\n  dtype: auto\n  max_modle_len: 5\n", 7, "did you mean `max_model_len`?"),
        (WHOLE + "engine:\n  max_model_len: long\n", 6, "`engine.max_model_len`"),
        (WHOLE + "engine: {max_model_len: 0}\n", 5, "greater than or equal to 1"),
        (WHOLE + "speculative:\n  method: ngram\n", 5, "`speculative.num_speculative_tokens` is missing"),
        (WHOLE + "env:\n  OK: 1\n  NOT OK: 1\n", 7, "NOT OK"),
        (WHOLE + "patches: one\n", 5, "`patches`"),
        (WHOLE + "cards: all\n", 5, "`cards"),
        (WHOLE.replace("production", "fine"), 2, "`status`"),
        (WHOLE.replace("production", "research"), 1, "status_reason"),
        (WHOLE.replace("path: some-model, ", ""), 4, "either `path`"),
        (WHOLE.replace("summary: mine\n", ""), 1, "`summary` is missing"),
    ],
)
def test_a_fault_is_told_with_file_line_and_what_was_meant(site, text, line, said):
    path = put(site, "mine", text)
    error = refused(site, "mine")
    assert error.what.startswith(f"{path}:{line}: ")
    assert said in error.what


def test_an_empty_profile_lacks_everything_and_that_is_all_that_is_wrong(site):
    path = put(site, "mine", "")
    assert refused(site, "mine").what.startswith(f"{path}: `summary` is missing")


def test_a_fault_of_the_parent_is_told_of_the_parent(site):
    parent = put(site, "a", WHOLE + "engine: {dtype: float8}\n")
    put(site, "b", "# a long head\n\n\nextends: a\n")
    assert refused(site, "b").what.startswith(f"{parent}:5: `engine.dtype`")


def test_a_fault_in_a_child_is_told_of_the_child(site):
    put(site, "a", WHOLE + "engine: {dtype: auto}\n")
    child = put(site, "b", "extends: a\nengine:\n  dtype: float8\n")
    assert refused(site, "b").what.startswith(f"{child}:3: ")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("engine.max_modle_len=5", "did you mean `max_model_len`?"),
        ("engine.max_model_len=long", "`engine.max_model_len`"),
        ("statsu=production", "did you mean `status`?"),
    ],
)
def test_a_fault_on_the_command_line_is_told_of_the_command_line(site, given, said):
    put(site, "mine", WHOLE + "engine:\n  max_model_len: 4\n")
    error = refused(site, "mine", "boot.stall=5", given)
    assert error.what.startswith(f"--set {given}: ")
    assert said in error.what


@pytest.mark.parametrize("key", ["model", "speculative.draft"])
@pytest.mark.parametrize(("has", "given"), [("path", "hub"), ("hub", "path")])
def test_a_child_that_names_the_other_place_is_told_how_the_inherited_one_goes(site, key, has, given):
    draft = f"{{method: eagle3, num_speculative_tokens: 5, draft: {{{has}: its/own}}}}"
    text = "summary: p\nstatus: production\nimage: {ref: a, vllm: 0.21.0}\n"
    model = f"model: {{{has}: its/own, served_names: [m]}}\n"
    (site / "profiles" / "parent.yaml").write_text(f"{text}{model}speculative: {draft}\n")
    (site / "profiles" / "child.yaml").write_text("extends: parent\n")
    with pytest.raises(UsageError, match=f"`{has}: null`"):
        open_catalog(site).profile("child", [f"{key}.{given}=mine/other"])
    assert open_catalog(site).profile("child", [f"{key}.{given}=mine/other", f"{key}.{has}=null"])


def test_a_fault_elsewhere_is_not_blamed_on_the_command_line(site):
    path = put(site, "mine", WHOLE.replace("summary: mine\n", ""))
    assert refused(site, "mine", "boot.stall=5").what.startswith(str(path))


@pytest.mark.parametrize("given", ["engine", "=5", " =5", ""])
def test_an_assignment_without_a_key_or_a_value_is_refused(site, given):
    put(site, "mine", WHOLE)
    assert "is not key=value" in refused(site, "mine", given).what


def test_the_last_assignment_counts_and_null_removes(site):
    put(site, "mine", WHOLE + "engine: {dtype: auto}\n")
    catalog = open_catalog(site)
    assert catalog.profile("mine", ["engine.dtype=float16", "engine.dtype=bfloat16"]).profile.engine.dtype == "bfloat16"
    assert catalog.profile("mine", ["engine.dtype=null"]).profile.engine.dtype is None
    assert catalog.profile("mine", ["engine.dtype="]).profile.engine.dtype is None
    assert catalog.profile("mine", ["+patches=[x]"]).profile.patches == ["x"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("bind: 0.0.0.0\n", "API key"), ("prot: 8000\n", "did you mean `port`?"), ("port: eighty\n", "`port`"),
     ("gids: [render]\n", "`gids.0`"), ("cards: [card0]\n", "`cards.0`"), ("- a\n", "is a list")],
)  # fmt: skip
def test_a_faulty_site_is_told_with_its_file(site, text, said):
    (site / "site.yaml").write_text(text)
    with pytest.raises(UsageError, match=r"site\.yaml") as error:
        open_catalog(site)
    assert said in error.value.what


def test_a_home_is_meant_by_its_tilde(site, monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    (site / "site.yaml").write_text("models: ~/models\nhf_cache: ~/hf\n")
    assert open_catalog(site).site.models == "/home/somebody/models"
    assert open_catalog(site).site.hf_cache == "/home/somebody/hf"


def test_what_stands_in_no_file_is_told_without_one():
    with pytest.raises(UsageError, match=r"^`name`: "):
        checked(Site, {"name": "NOT OK"}, [])


@pytest.mark.parametrize("place", ["profiles/mine.yaml", "templates/mine.compose.yaml.j2", "patches/mine/patch.yaml"])
@pytest.mark.parametrize("what", ["a folder", "a device", "a link to nowhere", "no text"])
def test_what_stands_in_the_place_of_a_file_is_told_and_not_passed_over(site, place, what):
    path = site / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if what == "a folder":
        path.mkdir()
    elif what == "no text":
        path.write_bytes(b"\xff\xfe\xfd")
    else:
        path.symlink_to("/dev/zero" if what == "a device" else "nowhere")
    catalog = open_catalog(site)
    ask = {"profiles": catalog.profile, "templates": catalog.template, "patches": catalog.patch}
    with pytest.raises(UsageError) as error:
        ask[place.partition("/")[0]]("mine")
    assert str(path) in str(error.value)


def test_a_template_and_a_patch_of_the_site_go_before_the_shipped(site):
    (site / "templates").mkdir()
    (site / "templates" / "vllm.compose.yaml.j2").write_text("mine")
    assert open_catalog(site).template("vllm") == ("mine", "site")
    assert open_catalog(None).template("vllm")[1] == "shipped"
    own = site / "patches" / "marlin-moe-xpu"
    own.mkdir(parents=True)
    text = (places.shipped("patches") / "marlin-moe-xpu" / "patch.yaml").read_text()
    (own / "patch.yaml").write_text(text.replace("summary: keep", "summary: mine, keep"))
    assert open_catalog(site).patch("marlin-moe-xpu").summary.startswith("mine")


@pytest.mark.parametrize("ask", [Catalog.template, Catalog.patch])
def test_what_is_not_there_is_a_usage_error(site, ask):
    with pytest.raises(UsageError, match="there is no"):
        ask(open_catalog(site), "nobody")


def test_a_patch_of_ones_own_with_a_wrong_range_is_told_with_its_line(site):
    own = site / "patches" / "mine"
    own.mkdir(parents=True)
    (own / "patch.yaml").write_text("summary: s\nwhy: w\nversions: newer\nsource: s\nscripts: [{file: a, where: b}]\n")
    with pytest.raises(UsageError, match=r"patch.yaml:3: `versions`"):
        open_catalog(site).patch("mine")


@pytest.mark.parametrize("name", ["My Fix", "../patches/good", "good/../good", "", ".", "x" * 5000, "a\0b", "Good"])
def test_a_patch_is_read_by_its_name_and_by_no_path(site, name):
    for folder in ("good", "My Fix"):
        path = site / "patches" / folder / "patch.yaml"
        path.parent.mkdir(parents=True)
        path.write_text("nonsense: true\n")
    with pytest.raises(UsageError, match="cannot be a patch's name") as told:
        open_catalog(site).patch(name)
    assert len(told.value.what) < 100


def test_a_patchs_folder_that_nothing_can_name_is_told_apart(site):
    for folder in ("good", "My Fix"):
        (site / "patches" / folder).mkdir(parents=True)
        (site / "patches" / folder / "patch.yaml").write_text("")
    found = open_catalog(site)
    assert "good" in found.patches()
    assert "My Fix" not in found.patches()
    assert found.misnamed_patches() == [site / "patches" / "My Fix"]
