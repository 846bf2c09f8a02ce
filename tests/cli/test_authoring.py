"""init makes a site that works; render writes what CI can read."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from b70ctl.cli.profiles import schema_text
from b70ctl.core.deployment import Deployment
from b70ctl.core.site import Site
from b70ctl.edge import yamlfile
from b70ctl.edge.catalog import open_catalog
from b70ctl.edge.files import replace
from b70ctl.edge.imagefacts import facts_file
from b70ctl.edge.sitelock import Pin, SiteLock, write_lock
from tests.making import SITE_PACKAGES, some_facts

# -- init -------------------------------------------------------------------------------------------------------------


def test_a_new_site_is_a_site(b70ctl, tmp_path):
    said = b70ctl("init", tmp_path / "new", "--models", "/srv/models", "--name", "box").exits(0)
    cache = str(Path.home() / ".cache" / "huggingface")
    assert open_catalog(tmp_path / "new").site == Site(name="box", models="/srv/models", hf_cache=cache)
    assert "profiles list" in said.err
    assert b70ctl("--site", tmp_path / "new", "profiles", "list").code == 0


@pytest.mark.parametrize("models", ["/srv/my models", "/srv/it's: here", "/srv/$X", "/srv/#1", "/srv/ü"])
def test_any_models_directory_is_written_so_that_it_is_read_back(b70ctl, tmp_path, models):
    assert b70ctl("init", tmp_path / "new", "--models", models).code == 0
    assert open_catalog(tmp_path / "new").site.models == models


@pytest.mark.parametrize(
    ("typed", "written"),
    [("weights", "{here}/weights"), ("../no", "{above}/no"), (".", "{here}"), ("../new/no", "no"), ("../new", "."),
     ("~/weights", "{home}/weights"), ("../newer", "{above}/newer")],
)  # fmt: skip
def test_a_models_directory_is_meant_from_where_it_was_typed(b70ctl, tmp_path, typed, written):
    assert b70ctl("init", tmp_path / "new", "--models", typed).code == 0
    meant = written.format(here=Path.cwd(), above=tmp_path, home=Path.home())
    assert open_catalog(tmp_path / "new").site.models == meant


def test_a_models_directory_that_was_not_named_is_the_sites_own(b70ctl, tmp_path):
    assert b70ctl("init", tmp_path / "new").code == 0
    assert open_catalog(tmp_path / "new").site.models == "models"


def test_a_site_is_not_made_twice(b70ctl, tmp_path):
    b70ctl("init", tmp_path / "new")
    (tmp_path / "new" / "site.yaml").write_text("name: mine\n")
    b70ctl("init", tmp_path / "new").refused(1, "exists already")
    assert (tmp_path / "new" / "site.yaml").read_text() == "name: mine\n"


@pytest.mark.parametrize("name", ["Not OK", "", "-x", "a" * 40])
def test_a_name_that_docker_could_not_carry_makes_nothing(b70ctl, tmp_path, name):
    b70ctl("init", tmp_path / "new", "--name", name).refused(2, "`name`")
    assert not (tmp_path / "new").exists()


def test_a_place_that_cannot_be_written_is_an_error_and_no_crash(b70ctl, tmp_path):
    (tmp_path / "file").write_text("")
    said = b70ctl("init", tmp_path / "file" / "new")
    assert said.code in (1, 3)
    assert "fault of b70ctl" not in said.error


@pytest.mark.parametrize("directory", ["new", None], ids=["relative", "default"])
def test_in_a_directory_that_is_gone_a_site_is_made_only_where_that_is_not_asked(b70ctl, tmp_path, directory):
    (tmp_path / "elsewhere").rmdir()
    said = b70ctl("init", *([directory] if directory else []))
    if directory:
        assert said.code == 2
        assert "the current directory does not exist any more" in said.error
        assert "hint: cd" in said.err
        said = b70ctl("init", tmp_path / "new", "--models", "weights")
        assert "the current directory does not exist any more" in said.error
    else:
        assert said.code == 0
    assert b70ctl("init", tmp_path / "new").code == 0


def test_a_name_that_no_file_can_have_is_told(b70ctl, tmp_path):
    b70ctl("init", tmp_path / ("n" * 300)).refused(1, "cannot be made: File name too long")
    b70ctl("--site", tmp_path / ("n" * 300), "status").refused(2, "cannot be looked at: File name too long")


@pytest.mark.parametrize("name", [".b70ctl", "profiles", "templates", "patches"])
def test_a_file_in_the_place_of_a_directory_is_named_with_a_way_out(b70ctl, tmp_path, name):
    root = tmp_path / "new"
    root.mkdir()
    (root / name).write_text("mine")
    b70ctl("init", root).refused(1, f"{root / name} is in the way", f"hint: mv {root / name} ")
    assert (root / name).read_text() == "mine"
    assert not (root / "site.yaml").exists()


def test_a_path_that_is_not_utf_8_is_refused_by_name(b70ctl, tmp_path):
    root = tmp_path / os.fsdecode(b"caf\xe9")
    for words in (("init", root), ("init", tmp_path / "new", "--models", root), ("--site", root, "status")):
        b70ctl(*words).refused(2, "is not UTF-8")
    assert not root.exists()


@pytest.mark.parametrize("words", [("init", "~nobody-here/b70"), ("--site", "~nobody-here/b70", "status")])
def test_the_home_of_nobody_is_told(b70ctl, words):
    b70ctl(*words).refused(2, "~nobody-here/b70: whose home that is, is not known")


AS_NOBODY = """
import os, sys
from b70ctl.cli import app, authoring
from b70ctl.cli.commands import write
if os.getuid() == 0:
    os.seteuid(65534)
app(sys.argv[1:])
"""


@pytest.mark.process
def test_a_home_of_another_user_is_told_with_a_way_out(tmp_path):
    (tmp_path / "home").mkdir(mode=0o500)
    env = {"HOME": str(tmp_path / "home"), "PATH": ""}
    for words in (["init"], ["init", str(tmp_path / "home" / "b70")]):
        ran = subprocess.run([sys.executable, "-c", AS_NOBODY, *words], env=env, capture_output=True, text=True,
                             check=False)  # fmt: skip
        assert ran.returncode == 1, ran.stderr
        assert "cannot be made: Permission denied" in ran.stderr
        assert "hint: b70ctl init DIR" in ran.stderr


def test_without_a_directory_it_is_the_default_site(b70ctl):
    assert b70ctl("init").code == 0
    assert b70ctl("profiles", "list").code == 0


def test_the_schema_that_a_new_site_names_lies_where_it_says(b70ctl, tmp_path):
    b70ctl("init", tmp_path / "new")
    text = (tmp_path / "new" / "site.yaml").read_text()
    [line] = [line for line in text.splitlines() if "$schema=" in line]
    schema = tmp_path / "new" / line.split("$schema=")[1]
    assert schema.read_text() == schema_text(site=True)


# -- render -----------------------------------------------------------------------------------------------------------


def test_a_profile_is_rendered_to_stdout(b70ctl, site):
    said = b70ctl("--site", site, "render", "mine").exits(0)
    assert yamlfile.parse(said.out, "out").data["services"]["engine"]["image"] == "a/b:1"


def test_a_profile_is_rendered_into_a_directory(b70ctl, site, tmp_path):
    said = b70ctl("--site", site, "render", "mine", "-o", tmp_path / "out", "--port", "9000", "--set", "env.A=1")
    assert (said.code, said.out) == (0, "")
    engine = yamlfile.read(tmp_path / "out" / "compose.yaml").data["services"]["engine"]
    deployment = Deployment.model_validate(json.loads((tmp_path / "out" / "deployment.json").read_text()))
    assert engine["ports"][0]["published"] == "9000"
    assert engine["environment"] == deployment.env
    assert engine["labels"]["b70ctl.digest"] == deployment.digest
    assert deployment.overrides == ("env.A=1",)


def test_all_profiles_are_rendered_into_folders_of_their_own(b70ctl, site, tmp_path):
    assert b70ctl("--site", site, "render", "--all", "-o", tmp_path / "out").code == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        entry.name for entry in open_catalog(site).profiles()
    }


def test_every_profile_is_checked_from_anywhere_with_the_sites_groups_and_writes_nothing(b70ctl, site):
    before = sorted(site.rglob("*"))
    said = b70ctl("--site", site, "render", "--all", "--check")
    count = len(open_catalog(site).profiles())
    assert said.code == 0, said.err
    assert f"{count} of {count} profiles render" in said.err
    assert said.out == ""
    assert sorted(site.rglob("*")) == before


def test_a_profile_that_cannot_work_fails_the_check(b70ctl, site):
    path = site / "profiles" / "mine.yaml"
    path.write_text(path.read_text() + "patches: [mtp-nightly]\n")
    said = b70ctl("--site", site, "render", "--all", "--check").exits(1)
    assert "mine" in said.err


def test_rendering_twice_gives_equal_bytes(b70ctl, site):
    assert b70ctl("--site", site, "render", "mine").out == b70ctl("--site", site, "render", "mine").out


@pytest.mark.parametrize("words", [(), ("mine", "--all")])
def test_one_profile_or_all_of_them(b70ctl, site, words):
    b70ctl("--site", site, "render", *words).refused(2, "give a PROFILE, or --all")


def test_a_place_to_write_that_is_a_file_is_an_error_and_no_crash(b70ctl, site, tmp_path):
    (tmp_path / "file").write_text("")
    b70ctl("--site", site, "render", "mine", "-o", tmp_path / "file").refused(3, "cannot be written")


def test_a_site_without_groups_on_a_box_without_a_card_is_told_what_to_write(b70ctl, site, tmp_path):
    (site / "site.yaml").write_text(f"models: /srv/models\ndri: {tmp_path}/no-dri\n")
    said = b70ctl("--site", site, "render", "mine").exits(3)
    assert "gids:" in said.err


def test_no_secret_is_in_what_is_rendered(b70ctl, site, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "s3cret-4711")
    with (site / "site.yaml").open("a") as file:
        file.write("secrets: {VLLM_API_KEY: {env: MY_KEY}}\nbind: 0.0.0.0\n")
    said = b70ctl("--site", site, "render", "mine", "-o", tmp_path / "out").exits(0)
    texts = [path.read_text() for path in (tmp_path / "out").iterdir()]
    assert len(texts) == 2
    assert not [text for text in (*texts, said.out, said.err) if "s3cret-4711" in text]


# -- an image outside the catalog -------------------------------------------------------------------------------------

PATCH = """\
summary: s
why: w
versions: '>=0.19'
source: here
edits: [{file: vllm/a.py, old: a, new: b}]
"""


@pytest.fixture
def patched(site):
    """A site whose profile has a patch on an image that no catalog knows."""
    (site / "patches" / "my-fix").mkdir(parents=True)
    (site / "patches" / "my-fix" / "patch.yaml").write_text(PATCH)
    path = site / "profiles" / "mine.yaml"
    path.write_text(path.read_text() + "patches: [my-fix]\n")
    return site


def keep(site, **more):
    """As if an image had been asked at this site."""
    facts = some_facts(**{"ref": "a/b:1", "id": "sha256:" + "1" * 64, "source": "probe"} | more)
    replace(facts_file(site / ".b70ctl", facts.id), facts.model_dump_json())


def test_a_patch_on_an_image_that_nobody_asked_is_not_rendered_and_the_hint_helps(b70ctl, patched):
    said = b70ctl("--site", patched, "render", "mine").refused(2, "where a/b:1 keeps it is not known")
    assert "hint: b70ctl images probe a/b:1" in said.err
    keep(patched, pythonpath="/its/own")
    out = b70ctl("--site", patched, "render", "mine", "--set", "env.PYTHONPATH=/mine").exits(0).out
    engine = yamlfile.parse(out, "out").data["services"]["engine"]
    assert engine["image"] == "a/b:1"
    assert engine["environment"]["PYTHONPATH"] == "/mine:/its/own"
    assert f"{SITE_PACKAGES}/vllm/a.py" in str(engine["volumes"])


def test_what_was_kept_of_an_image_goes_before_no_catalog(b70ctl, site):
    before = b70ctl("--site", site, "render", "qwen3-30b-eagle3").exits(0).out
    keep(site, pythonpath="/its/own")
    kept = facts_file(site / ".b70ctl", "sha256:" + "1" * 64)
    kept.write_text(kept.read_text().replace("a/b:1", "intel/vllm:latest"))
    assert b70ctl("--site", site, "render", "qwen3-30b-eagle3").exits(0).out == before


def test_among_all_a_profile_whose_image_nobody_asked_is_passed_over_with_the_command_and_fails_nothing(
    b70ctl, patched, tmp_path
):
    count = len(open_catalog(patched).profiles())
    for words in (("--check",), ("-o", tmp_path / "out")):
        said = b70ctl("--site", patched, "render", "--all", *words).exits(0)
        [warning] = [each for each in said.err.splitlines() if each.startswith("warning: ")]
        assert warning.startswith("warning: mine is passed over: patch `my-fix` changes vllm/a.py, and where a/b:1 ")
        assert warning.endswith("(b70ctl images probe a/b:1)")
        assert "error:" not in said.err
        assert f"{count - 1} of {count} profiles render, 1 passed over" in said.err or "--check" not in words
    assert not (tmp_path / "out" / "mine").exists()
    keep(patched)
    assert f"{count} of {count} profiles render" in b70ctl("--site", patched, "render", "--all", "--check").exits(0).err


def test_the_rules_hold_for_a_profile_that_is_passed_over(b70ctl, patched):
    path = patched / "profiles" / "mine.yaml"
    path.write_text(path.read_text() + "env: {MY_API_KEY: x}\n")
    said = b70ctl("--site", patched, "render", "--all", "--check").exits(1)
    assert "mine is passed over" in said.err
    assert "mine: error: env.MY_API_KEY" in said.err


def test_what_an_image_of_that_name_had_when_it_was_last_asked_is_told_and_refuses_nothing(b70ctl, site):
    """The name may mean another image since; `plan` and `switch` ask it."""
    keep(site, vllm="0.30.0")
    told = "a/b:1 had vLLM 0.30.0 when it was last asked, and the profile was written for 0.21.0"
    assert (
        f"mine: warning: image.vllm: {told} (b70ctl images probe a/b:1)"
        in b70ctl("--site", site, "profiles", "lint", "mine").exits(0).out
    )
    b70ctl("--site", site, "render", "mine").exits(0)
    keep(site, vllm="0.21.0")
    assert "when it was last asked" not in b70ctl("--site", site, "profiles", "lint", "mine").exits(0).out


@pytest.mark.parametrize("folder", ["images", "releases"])
def test_a_memory_that_nobody_may_read_keeps_no_profile_from_being_looked_at(b70ctl, site, as_nobody, folder):
    root, become = as_nobody
    (root / "profiles").mkdir()
    for name in ("site.yaml", "profiles/mine.yaml"):
        (root / name).write_text((site / name).read_text())
    (root / ".b70ctl" / folder).mkdir(parents=True)
    (root / ".b70ctl" / folder).chmod(0)
    for words in (("profiles", "lint", "mine"), ("render", "mine")):
        b70ctl("--site", site, *words)  # what Python loads late it may not find as somebody else
    become()
    for words in (("profiles", "lint", "mine"), ("render", "mine")):
        b70ctl("--site", root, *words).exits(0)


def test_of_a_pinned_image_what_that_very_image_said_is_taken_and_its_pin_is_written(b70ctl, patched):
    identity = "sha256:" + "1" * 64
    pin = Pin(identity=identity, vllm="0.21.0", at="2026-01-01T00:00:00Z")
    write_lock(patched, SiteLock(images={"a/b:1": pin}))
    keep(patched)
    out = b70ctl("--site", patched, "render", "mine").exits(0).out
    assert yamlfile.parse(out, "out").data["services"]["engine"]["image"] == identity
