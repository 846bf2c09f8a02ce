"""What whoever asks may not look into, or has something else in its place, is an error with the path, and no fault."""

import json

import pytest

from tests.cli.conftest import SITE, WHOLE
from tests.making import PATCH

LISTING = (("patches", "list"), ("patches", "check", "--vllm", "0.28.0"))
JUDGING = (("profiles", "lint", "mine"), ("render", "mine"), ("prune", "--dry-run"))
PATCHED = tuple((*words, "--set", "patches=[mine]") for words in JUDGING[:2])


@pytest.fixture
def closed(b70ctl, site, as_nobody):
    """A site of which one folder is closed to whoever runs a command."""
    root, become = as_nobody
    for folder in ("profiles", "patches/mine", ".b70ctl/images", ".b70ctl/releases"):
        (root / folder).mkdir(parents=True)
    (root / "site.yaml").write_text(SITE)
    (root / "patches" / "mine" / "patch.yaml").write_text(json.dumps(PATCH))
    (root / "profiles" / "mine.yaml").write_text(WHOLE)

    def call(folder, *words):
        b70ctl("--site", site, *words)  # what Python loads late it may not find as somebody else
        (root / folder).chmod(0)
        become()
        return root / folder, b70ctl("--site", root, *words)

    return call


@pytest.mark.parametrize("words", [*LISTING, ("patches", "new", "my-x"), ("patches", "show", "mine"), *PATCHED])
def test_patches_that_nobody_may_list_are_an_error_that_names_their_folder(closed, words):
    path, said = closed("patches", *words)
    assert said.code in (1, 2, 3)
    assert f"{path}" in said.out + said.err
    assert "Permission denied" in said.out + said.err
    assert "fault of b70ctl" not in said.err


def test_one_patch_that_nobody_may_look_into_is_broken_and_hides_no_other(closed):
    path, said = closed("patches/mine", "patches", "list")
    [row] = [line.split() for line in said.exits(0).out.splitlines() if line.startswith("mine ")]
    assert row[1:3] == ["broken", "yours"]
    assert f"{path}/patch.yaml" in said.out


def test_a_patch_that_may_lie_there_is_not_written_over(closed):
    path, said = closed("patches/mine", "patches", "new", "mine")
    said.refused(2, f"{path}/patch.yaml cannot be read: Permission denied", "ls -ld ")


@pytest.mark.parametrize("folder", [".b70ctl", ".b70ctl/releases", ".b70ctl/images"])
@pytest.mark.parametrize("words", [*LISTING[1:], *JUDGING])
def test_a_memory_that_nobody_may_read_is_told_with_its_path(closed, folder, words):
    path, said = closed(folder, *words)
    assert "fault of b70ctl" not in said.err
    if said.code:
        assert f"{path}" in said.out + said.err
        assert "Permission denied" in said.out + said.err


def test_no_patch_is_begun_outside_of_the_site(b70ctl, site, tmp_path):
    (site / "patches").symlink_to(tmp_path / "nowhere")
    for words in (("new", "my-fix"), ("list",), ("show", "gptq-xpu"), ("check", "--vllm", "0.21.0")):
        b70ctl("--site", site, "patches", *words).refused(2, f"{site}/patches cannot be read: it is a link to what is")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("words", [("list",), ("lint",), ("show", "gemma4"), ("new", "a", "--extends", "gemma4")])
def test_no_shipped_profile_steps_in_for_a_sites_that_are_not_there(b70ctl, site, words):
    (site / "profiles").rename(site / "moved")
    (site / "profiles").symlink_to("/nowhere")
    b70ctl("--site", site, "profiles", *words).refused(2, f"{site}/profiles cannot be read")
    assert not (site / "profiles").exists()


@pytest.mark.parametrize("make", ["directory", "nowhere", "loop"])
def test_a_patch_whose_file_is_none_is_listed_as_broken_and_whose_it_is(b70ctl, site, make):
    file = site / "patches" / "mine" / "patch.yaml"
    file.parent.mkdir(parents=True)
    file.mkdir() if make == "directory" else file.symlink_to(file if make == "loop" else "/nowhere")
    said = b70ctl("--site", site, "patches", "list").exits(0)
    [row] = [line.split() for line in said.out.splitlines() if line.startswith("mine ")]
    assert row[1:3] == ["broken", "yours"]
    found = b70ctl("--site", site, "patches", "check", "--vllm", "0.21.0", "--json").data["patches"]["mine"]
    assert (found["answer"], str(file) in found["reason"]) == ("broken", True)


@pytest.mark.parametrize(
    "text", ["", "text\n", "a: &a [*a]\n", f"a: {'x' * 1_000_001}\n", "- a\n"], ids=lambda text: repr(text[:12])
)
def test_whatever_a_patchs_file_holds_there_is_something_to_do_about_it(b70ctl, site, text):
    file = site / "patches" / "mine" / "patch.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    b70ctl("--site", site, "patches", "show", "mine").refused(2, str(file), "hint: ")


# -- mounts -----------------------------------------------------------------------------------------------------------


def mounting(b70ctl, site, source, command):
    words = ("--set", f"mounts=[{{source: {source}, target: /srv/x}}]")
    return b70ctl("--site", site, *command, "mine", *words)


@pytest.mark.parametrize(("empty", "why"), [(False, "does not exist"), (True, "is empty")])
def test_a_mount_that_no_release_could_carry_is_refused_by_lint_and_by_render(b70ctl, site, empty, why):
    if empty:
        (site / "lib").mkdir()
    linted = mounting(b70ctl, site, "lib", ("profiles", "lint")).exits(1)
    assert linted.out.count(f"mine: error: mounts.0: {site}/lib {why} (") == linted.out.count(": error: ") == 1
    assert f"error: mounts.0: {site}/lib {why}" in mounting(b70ctl, site, "lib", ("render",)).exits(1).err


def test_what_is_to_be_mounted_as_it_is_may_be_on_another_machine_than_the_one_that_lints(b70ctl, site):
    linted = mounting(b70ctl, site, "/nowhere/lib", ("profiles", "lint")).exits(0)
    assert "mine: warning: mounts.0: /nowhere/lib does not exist on this machine" in linted.out
    mounting(b70ctl, site, "/nowhere/lib", ("render",)).exits(0)


def test_a_finding_is_one_line_whatever_it_quotes(b70ctl, site):
    root = site / "models" / "head"
    root.mkdir(parents=True)
    (root / "config.json").write_text(json.dumps({"k\x1b[2J\n" + "x" * 3000: 1}))
    (site / "site.yaml").write_text((site / "site.yaml").read_text().replace("/srv/models", str(site / "models")))
    draft = 'speculative={method: eagle3, num_speculative_tokens: 3, draft: {path: head, overrides: {"a\\nb": 1}}}'
    said = b70ctl("--site", site, "profiles", "lint", "mine", "--set", draft).exits(1)
    assert {line.partition(":")[0] for line in said.out.splitlines()} == {"mine"}
    assert ("`a\\nb`" in said.out, "\x1b" in said.out, "x" * 100 in said.out) == (True, False, False)
