"""profiles list, show, lint, schema and new; patches and images lists; what a reader is shown."""

import json

import pytest

from b70ctl.cli.profiles import schema_text
from b70ctl.edge import yamlfile
from b70ctl.edge.catalog import open_catalog
from b70ctl.edge.sitelock import read_lock


def test_the_list_says_whose_each_is_and_what_it_lacks(b70ctl, site):
    said = b70ctl("--site", site, "profiles", "list")
    [mine] = [line for line in said.out.splitlines() if line.startswith("mine ")]
    assert mine.split() == ["mine", "production", "site", "-", "mine"]
    assert "profiles show NAME" in said.err


def test_the_list_is_one_json_value(b70ctl, site):
    (site / "profiles" / "broken.yaml").write_text("a: [\n")
    rows = {row["name"]: row for row in b70ctl("--site", site, "profiles", "list", "--json").data}
    assert rows["mine"] == {
        "name": "mine", "origin": "site", "status": "production", "summary": "mine", "image": "a/b:1", "needs": [],
    }  # fmt: skip
    assert rows["broken"]["status"] == "broken"
    assert rows["gemma4"]["origin"] == "shipped"


def test_no_colour_and_no_control_characters_are_in_what_is_not_a_terminal(b70ctl, site):
    said = b70ctl("--site", site, "profiles", "list")
    assert "\x1b" not in said.out + said.err


def test_a_profile_without_parents_is_from_nobody(b70ctl, site):
    assert b70ctl("--site", site, "profiles", "show", "mine").out.startswith("# mine (site)\n")


def test_what_is_shown_is_a_profile_again(b70ctl, site):
    said = b70ctl("--site", site, "profiles", "show", "qwen3-30b-eagle3", "--set", "engine.max_model_len=1234")
    assert said.out.startswith("# qwen3-30b-eagle3 (shipped), from qwen3-30b-021 <- ")
    (site / "profiles" / "copy.yaml").write_text(said.out)
    catalog = open_catalog(site)
    given = catalog.profile("qwen3-30b-eagle3", ["engine.max_model_len=1234"]).profile
    assert catalog.profile("copy").profile == given


def test_what_is_shown_as_json_names_the_lineage(b70ctl, site):
    found = b70ctl("--site", site, "profiles", "show", "qwen3-30b-eagle3", "--json").data
    assert found["lineage"][-1] == "qwen3-30b-eagle3"
    assert found["profile"]["status"] == "production"


def test_a_sound_profile_passes_lint_and_an_unsound_one_does_not(b70ctl, site):
    assert b70ctl("--site", site, "profiles", "lint", "mine").code == 0
    path = site / "profiles" / "mine.yaml"
    path.write_text(path.read_text() + "env: {MY_API_KEY: s3cret}\n")
    said = b70ctl("--site", site, "profiles", "lint", "mine").exits(1)
    assert "mine: error: env.MY_API_KEY" in said.out
    assert "s3cret" not in said.out


def test_lint_as_json_is_a_list_with_the_broken_among_it(b70ctl, site):
    (site / "profiles" / "broken.yaml").write_text("a: [\n")
    said = b70ctl("--site", site, "profiles", "lint", "--json").exits(1)
    assert [each["profile"] for each in said.data if each["severity"] == "error"] == ["broken"]


def test_every_shipped_profile_passes_lint(b70ctl, site):
    said = b70ctl("--site", site, "profiles", "lint").exits(0)
    assert ": error: " not in said.out


@pytest.mark.parametrize("site_too", [True, False])
def test_a_schema_is_written_where_it_was_asked_for(b70ctl, tmp_path, site_too):
    words = ("--site",) if site_too else ()
    said = b70ctl("profiles", "schema", *words)
    assert said.data == json.loads(schema_text(site=site_too))
    b70ctl("profiles", "schema", *words, "-o", tmp_path / "s.json")
    assert (tmp_path / "s.json").read_text() == schema_text(site=site_too)


def test_a_new_profile_builds_on_another_and_is_sound(b70ctl, site):
    assert b70ctl("--site", site, "profiles", "new", "fresh", "--extends", "mine").code == 0
    written = open_catalog(site).profile("fresh")
    assert written.lineage == ("mine", "fresh")
    assert b70ctl("--site", site, "profiles", "lint", "fresh").code == 0


def test_the_schema_that_a_new_profile_names_lies_where_it_says(b70ctl, site):
    b70ctl("--site", site, "profiles", "new", "fresh", "--extends", "mine")
    first = (site / "profiles" / "fresh.yaml").read_text().splitlines()[0]
    assert (site / "profiles" / first.split("$schema=")[1]).resolve().read_text() == schema_text()


@pytest.mark.parametrize("parent", ["qwen3.6-35b-mtp", "qwen3.6-35b-ct-int4", "gemma4"])
def test_a_new_profile_is_as_trustworthy_as_its_parent(b70ctl, site, parent):
    assert b70ctl("--site", site, "profiles", "new", "fresh", "--extends", parent).code == 0
    catalog = open_catalog(site)
    assert catalog.profile("fresh").profile.status == catalog.profile(parent).profile.status


@pytest.mark.parametrize(
    ("name", "parent", "code", "said"),
    [("mine", "gemma4", 1, "exists already"), ("Not OK", "mine", 2, "cannot be a profile's name"),
     ("../x", "mine", 2, "cannot be a profile's name"), ("fresh", "nobody", 2, "there is no profile `nobody`"),
     ("gemma4", "gemma4", 2, "itself")],
)  # fmt: skip
def test_a_new_profile_that_could_not_be_read_is_not_written(b70ctl, site, name, parent, code, said):
    before = sorted(site.rglob("*"))
    found = b70ctl("--site", site, "profiles", "new", name, "--extends", parent)
    assert found.code == code
    assert said in found.error
    assert sorted(site.rglob("*")) == before


def test_patches_are_listed_with_the_versions_that_they_are_for(b70ctl, site):
    assert "marlin-moe-xpu" in b70ctl("--site", site, "patches", "list").out
    assert b70ctl("--site", site, "patches", "list", "--json").data["marlin-moe-xpu"]["versions"] == ">=0.19,<0.23"


@pytest.mark.parametrize(
    "base", ["marlin-moe-xpu", "marlin-moe-xpu:abc", f"nobody:{'a' * 64}", f"marlin-moe-xpu:{'A' * 64}"]
)
def test_what_is_no_base_is_not_accepted(b70ctl, site, base):
    said = b70ctl("--site", site, "patches", "accept", base).exits(2)
    assert said.error
    assert not read_lock(site).patches


def test_images_are_listed_with_who_uses_them(b70ctl, site):
    rows = {row["image"]: row for row in b70ctl("--site", site, "images", "list", "--json").data}
    assert rows["a/b:1"]["profiles"] == ["mine"]
    assert "qwen3-30b-eagle3" in rows["intel/vllm:latest"]["profiles"]


def test_one_broken_profile_does_not_hide_the_images_of_the_others(b70ctl, site):
    (site / "profiles" / "broken.yaml").write_text("a: [\n")
    said = b70ctl("--site", site, "images", "list").exits(0)
    assert "intel/vllm:latest" in said.out


@pytest.mark.parametrize("words", [("history",), ("snapshot",), ("prune", "-n")], ids=" ".join)
def test_a_site_at_which_nothing_was_done_says_so(b70ctl, site, words):
    before = sorted(site.rglob("*"))
    said = b70ctl("--site", site, *words).exits(0)
    assert said.out + said.err
    assert sorted(site.rglob("*")) == before


def test_the_profile_text_is_yaml_that_both_readers_agree_on(b70ctl, site):
    path = site / "profiles" / "mine.yaml"
    path.write_text(path.read_text() + 'env: {A: "no", B: "1e3", C: "017"}\n')
    shown = yamlfile.parse(b70ctl("--site", site, "profiles", "show", "mine").out, "out").data
    assert shown["env"] == {"A": "no", "B": "1e3", "C": "017"}


# -- a mount that shows a secret --------------------------------------------------------------------------------------


DRAFT = """speculative:
  method: eagle3
  num_speculative_tokens: 3
  draft: {path: head, overrides: {%s: 131072}}
"""
SPECULATORS = {"speculators_model_type": "eagle3", "transformer_layer_config": {"max_position_embeddings": 2048}}


def drafting(b70ctl, site, override, config, models="models"):
    """What lint finds of a profile's draft, as where, message and hint."""
    (site / "site.yaml").write_text((site / "site.yaml").read_text().replace("/srv/models", str(site / models)))
    path = site / "profiles" / "mine.yaml"
    path.write_text(path.read_text() + DRAFT % override)
    (site / "models").mkdir()
    if config is not None:
        (site / "models" / "head").mkdir()
        (site / "models" / "head" / "config.json").write_text(json.dumps(config))
    said = b70ctl("--site", site, "profiles", "lint", "mine", "--json")
    found = [each for each in said.data if each["rule"] == "draft"]
    assert ({each["severity"] for each in found}, said.code) == (({"error"}, 1) if found else (set(), 0))
    return [(each["where"], each["message"], each["hint"]) for each in found]


@pytest.mark.parametrize(
    ("override", "config", "missing", "meant"),
    [
        ("max_position_embedings", {"max_position_embeddings": 2048}, "max_position_embedings",
         "max_position_embeddings"),
        ("max_position_embeddings", SPECULATORS, "max_position_embeddings",
         "transformer_layer_config.max_position_embeddings"),
    ],
)  # fmt: skip
def test_lint_says_which_override_a_draft_has_no_place_for_and_which_was_meant(
    b70ctl, site, override, config, missing, meant
):
    [(where, message, hint)] = drafting(b70ctl, site, override, config)
    assert (where, f"the draft's config has no `{missing}` to override" in message) == (
        "speculative.draft.overrides", True
    )  # fmt: skip
    assert hint == f"in the profile's speculative.draft.overrides: {meant}: 131072"


def test_lint_says_that_a_draft_is_not_there(b70ctl, site):
    [(where, message, _)] = drafting(b70ctl, site, "max_position_embeddings", None)
    assert (where, message) == ("speculative.draft.path", f"{site}/models/head/config.json does not exist")


def test_lint_looks_for_no_draft_where_the_models_are_not_on_this_machine(b70ctl, site):
    assert drafting(b70ctl, site, "max_position_embeddings", None, models="elsewhere") == []


def with_draft(site, draft, config):
    """Give a site's profile a draft whose directory has such a config.json; None for no directory."""
    (site / "site.yaml").write_text((site / "site.yaml").read_text().replace("/srv/models", str(site / "models")))
    path = site / "profiles" / "mine.yaml"
    path.write_text(
        f"{path.read_text()}speculative:\n  method: eagle3\n  num_speculative_tokens: 3\n  draft: {draft}\n"
    )
    (site / "models").mkdir()
    if config is not None:
        (site / "models" / "head").mkdir()
        (site / "models" / "head" / "config.json").write_text(config)


CHANGED = "{path: head, overrides: {max_position_embeddings: 131072}}"


@pytest.mark.parametrize(("draft", "config", "severity", "where"), [
    ("{path: head}", "no json", "warning", "speculative.draft"),
    ("{path: head}", "[]", "warning", "speculative.draft"),
    (CHANGED, "no json", "error", "speculative.draft"),
    (CHANGED, "{}", "error", "speculative.draft.overrides"),
    ("{path: head}", None, "error", "speculative.draft.path"),
    (CHANGED, '{"max_position_embeddings": 2048}', None, None),
])  # fmt: skip
def test_a_draft_is_judged_by_what_is_asked_of_it_and_by_lint_alone(b70ctl, site, draft, config, severity, where):
    with_draft(site, draft, config)
    linted = b70ctl("--site", site, "profiles", "lint", "mine", "--json").exits(int(severity == "error")).data
    found = [each for each in linted if each["rule"] == "draft"]
    assert [(each["severity"], each["where"]) for each in found] == ([(severity, where)] if severity else [])
    for words in (("mine",), ("--all", "--check")):
        b70ctl("--site", site, "render", *words).exits(0)  # where there may be no models: in CI


def test_lint_has_nothing_to_say_of_a_draft_that_fits(b70ctl, site):
    assert drafting(b70ctl, site, "transformer_layer_config.max_position_embeddings", SPECULATORS) == []


@pytest.fixture
def hidden(site):
    """A secret's file; the site names it by a link, too."""
    folder = site / "secrets"
    folder.mkdir()
    (folder / "key").write_text("s3cret")
    (site / "linked").symlink_to(folder)
    (site / ".b70ctl").mkdir()
    (site / "site.yaml").write_text((site / "site.yaml").read_text() + "secrets: {K: {file: linked/key}}\n")
    return folder


def linted(b70ctl, site, source, **more):
    """Where lint sees a mounted secret."""
    mount = json.dumps({"source": str(source), "target": "/x"} | more)
    said = b70ctl("--site", site, "profiles", "lint", "mine", "--json", "--set", f"mounts=[{mount}]")
    found = [each["message"] for each in said.data if each["rule"] == "mounted-secret"]
    assert said.code == (1 if found else 0)
    return found


@pytest.mark.parametrize("source", ["secrets", "secrets/key", "linked/key", "./secrets/../linked"])
@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("absolute", [True, False])
def test_a_mount_that_holds_a_secret_is_refused_by_whatever_name(b70ctl, site, hidden, source, read_only, absolute):
    [told] = linted(b70ctl, site, site / source if absolute else source, read_only=read_only)
    assert "shows secrets.K, which lies at " in told
    assert "s3cret" not in told


def test_a_mount_of_the_very_file_is_not_said_to_have_another_name(b70ctl, site, hidden):
    [plain] = linted(b70ctl, site, "linked/key")
    [other] = linted(b70ctl, site, "secrets/key")
    assert plain == f"linked/key shows secrets.K, which lies at {site}/linked/key"
    assert other == f"secrets/key shows secrets.K, which lies at {site}/linked/key, by another name"


def test_a_mount_of_the_sites_own_memory_is_refused_since_releases_hold_secrets(b70ctl, site, hidden):
    assert len(linted(b70ctl, site, site / ".b70ctl" / "releases")) == 1


@pytest.mark.parametrize("name", [".", "/"])
def test_a_mount_that_shows_two_secrets_is_one_error_that_names_both(b70ctl, site, hidden, name):
    [told] = linted(b70ctl, site, site / name)
    assert f"secrets.K, which lies at {site}/linked/key, and the site's own memory, which lies at " in told


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize("whose", ["secrets.K", "a release's secrets"])
def test_a_mount_of_a_file_that_is_a_hard_link_to_a_secret_is_refused(
    b70ctl, site, hidden, read_only, absolute, whose
):  # fmt: skip
    kept = site / ".b70ctl" / "releases" / "0001-p" / "secrets.env"
    kept.parent.mkdir(parents=True)
    kept.write_text("K=s3cret")
    (site / "innocent").hardlink_to(hidden / "key" if whose == "secrets.K" else kept)
    (site / "linked-too").symlink_to("innocent")
    for name in ("innocent", "linked-too"):
        [told] = linted(b70ctl, site, site / name if absolute else name, read_only=read_only)
        assert f"{name} shows {whose} by another name" in told


@pytest.mark.parametrize("what", ["secret", "/proc/self/environ"])
@pytest.mark.parametrize("place", ["linked-too", "folder"])
def test_what_a_release_would_carry_is_looked_at_inside_a_folder_too(b70ctl, site, hidden, what, place):
    folder = site / "folder"
    folder.mkdir()
    (folder / "a.txt").write_text("")
    assert linted(b70ctl, site, "folder") == []
    path = folder / "z" if place == "folder" else site / place
    path.symlink_to(what) if what.startswith("/") else path.hardlink_to(hidden / "key")
    [told] = linted(b70ctl, site, place)
    assert f"{place} shows " in told
    assert ("/environ, what the system tells" if what.startswith("/") else "secrets.K by another name") in told
    said = b70ctl("--site", site, "render", "mine", "--set", f"mounts=[{{source: {place}, target: /x}}]")
    assert "[mounted-secret]" in said.exits(1).err


def test_what_lies_beside_a_secret_may_be_mounted(b70ctl, site, hidden):
    (hidden / "key.pub").write_text("")
    assert linted(b70ctl, site, "secrets/key.pub") == linted(b70ctl, site, site / "profiles") == []


def test_a_profile_that_mounts_a_secret_is_not_rendered(b70ctl, site, hidden):
    mounts = f"mounts=[{{source: {hidden}, target: /x}}]"
    assert "[mounted-secret]" in b70ctl("--site", site, "render", "mine", "--set", mounts).exits(1).err


# -- one form for what lint says --------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["table", "patch", "no patch"])
def test_what_lint_cannot_judge_is_one_line_with_the_profile_and_the_hint_however_many_are_asked_for(
    b70ctl, site, wrong
):
    path = site / "profiles" / "mine.yaml"
    line = {"table": "kernels: b70", "patch": "patches: [broken]", "no patch": "patches: [nope]"}[wrong]
    path.write_text(f"{path.read_text()}{line}\n")
    if wrong == "table":
        (site / "tuning.json").write_text("[")
    (site / "patches" / "broken").mkdir(parents=True)
    (site / "patches" / "broken" / "patch.yaml").write_text("nothing: [\n")
    told = set()
    for words in (("mine",), ("mine", "gemma4"), ()):
        said = b70ctl("--site", site, "profiles", "lint", *words)
        assert said.code != 0
        told |= {each for each in said.out.splitlines() if each.startswith("mine: error: ")}
    assert len(told) == 1, told
    [one] = b70ctl("--site", site, "profiles", "lint", "mine", "--json").data
    hint = f" ({one['hint']})" if one["hint"] else ""
    assert told == {f"mine: error: {one['message']}{hint}"}
    assert bool(hint) is (wrong != "patch")


def test_a_name_that_is_no_profile_is_refused_before_any_is_judged(b70ctl, site):
    for words in (("nobody",), ("mine", "nobody")):
        said = b70ctl("--site", site, "profiles", "lint", *words).refused(2, "there is no profile `nobody`")
        assert said.out == ""


@pytest.mark.parametrize(("given", "why", "hint"), [
    ("mounts=[{source: /etc/hosts, target: /srv/a}, {source: x, target: /srv/./a}]",
     "two mounts have the target /srv/a", "another target for mounts.1, or without it"),
    ("mounts=[{source: /etc/hosts, target: /models}]",
     "two mounts have the target /models", "another target for mounts.0, or without it"),
    ("mounts=[{source: /etc/hosts, target: /x/..}]", "nothing can be mounted on /x/..", "another target"),
    ("model.path=../x", "model path `../x` must be a directory below the site's `models`", "in site.yaml: models: "),
    ("model.path=/etc", "model path `/etc` must be a directory below the site's `models`", "in site.yaml: models: "),
    ("speculative={method: eagle3, num_speculative_tokens: 2, draft: {path: ../x}}",
     "model path `../x` must be a directory below the site's `models`", "in site.yaml: models: "),
])  # fmt: skip
def test_what_no_box_resolves_is_told_by_lint_and_by_render_in_the_same_words(b70ctl, site, given, why, hint):
    (site / "models").mkdir()
    (site / "x").write_text("x")
    (site / "site.yaml").write_text((site / "site.yaml").read_text().replace("/srv/models", str(site / "models")))
    linted = b70ctl("--site", site, "profiles", "lint", "mine", "--json", "--set", given)
    assert linted.code != 0
    [error] = [each for each in linted.data if each["severity"] == "error"]
    assert why in error["message"]
    assert error["hint"].startswith(hint)
    b70ctl("--site", site, "render", "mine", "--set", given).refused(2, why, hint)


def test_a_patch_that_a_parent_lists_too_is_rendered_once(b70ctl, site):
    (site / "patches" / "fix").mkdir(parents=True)
    (site / "patches" / "fix" / "p.py").write_text("pass\n")
    (site / "patches" / "fix" / "patch.yaml").write_text(
        'summary: s\nwhy: w\nversions: ">=0.1"\nsource: s\nscripts: [{file: p.py, where: here}]\n'
    )
    words = ("--set", "patches=[fix]", "--set", "+patches=[fix]")
    b70ctl("--site", site, "profiles", "lint", "mine", *words).exits(0)
    assert b70ctl("--site", site, "render", "mine", *words).exits(0).out.count("files/fix/p.py") == 1
