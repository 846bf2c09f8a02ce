"""What lies in the place of a site's own file or folder is told, and what is shipped never steps in for it unheard."""

import pytest

from b70ctl.edge.catalog import open_catalog
from b70ctl.edge.files import entries, is_gone, nearest
from b70ctl.edge.sitefiles import is_file, is_folder, lies_in
from b70ctl.errors import MachineError, UsageError
from tests.no_files import NO_FILES


def to_nowhere(path):
    path.symlink_to("/nowhere/at/all")


def in_a_loop(path):
    path.symlink_to(path)


def a_file(path):
    path.write_text("x")


LINKS = {"a link to nowhere": to_nowhere, "a loop": in_a_loop}
NO_FOLDERS = {kind: make for kind, make in NO_FILES.items() if kind != "a directory"} | LINKS | {"a file": a_file}


@pytest.fixture
def site(tmp_path):
    (tmp_path / "site.yaml").write_text("{}")
    return tmp_path


@pytest.mark.parametrize("kind", [*NO_FILES, *LINKS])
def test_what_is_no_file_is_told_and_not_taken_for_nothing(tmp_path, kind):
    path = tmp_path / "it"
    assert not is_file(path)
    (NO_FILES | LINKS)[kind](path)
    with pytest.raises(UsageError, match="it cannot be read: ") as error:
        is_file(path)
    assert error.value.hint == f"ls -ld {tmp_path} {path}"
    assert lies_in(tmp_path, "it")


@pytest.mark.parametrize("kind", NO_FOLDERS)
def test_what_is_no_folder_is_told_for_itself_and_for_all_that_would_lie_below(tmp_path, kind):
    path = tmp_path / "it"
    assert not is_folder(path)
    assert not is_file(path / "deep" / "x")
    NO_FOLDERS[kind](path)
    for look in (lambda: is_folder(path), lambda: is_file(path / "x"), lambda: is_file(path / "deep" / "x")):
        with pytest.raises(UsageError, match=str(path)):
            look()


@pytest.mark.parametrize("kind", NO_FOLDERS)
@pytest.mark.parametrize(("folder", "ask"), [
    ("profiles", lambda catalog: catalog.profile("gemma4")), ("profiles", lambda catalog: catalog.profiles()),
    ("profiles/_base", lambda catalog: catalog.profile("gemma4")),
    ("patches", lambda catalog: catalog.patch("gptq-xpu")), ("patches", lambda catalog: catalog.patches()),
    ("patches/gptq-xpu", lambda catalog: catalog.patch("gptq-xpu")),
    ("templates", lambda catalog: catalog.template("vllm")),
])  # fmt: skip
def test_nothing_shipped_steps_in_for_a_sites_folder_that_is_none(site, kind, folder, ask):
    path = site / folder
    path.parent.mkdir(exist_ok=True)
    NO_FOLDERS[kind](path)
    with pytest.raises(UsageError, match=str(path)):
        ask(open_catalog(site))


@pytest.mark.parametrize("kind", [*NO_FILES, *LINKS])
def test_a_patch_whose_file_is_none_is_among_the_patches(site, kind):
    (site / "patches" / "mine").mkdir(parents=True)
    (site / "patches" / "README.md").write_text("x")
    (site / "patches" / "notes").mkdir()
    (NO_FILES | LINKS)[kind](site / "patches" / "mine" / "patch.yaml")
    to_nowhere(site / "patches" / "lost")
    assert {"README.md", "notes", "mine", "lost"} & {*open_catalog(site).patches()} == {"mine", "lost"}


def test_what_nobody_may_look_into_is_an_error_and_what_is_not_there_is_nothing(as_nobody):
    folder, become = as_nobody
    (folder / "closed" / "mine").mkdir(parents=True)
    (folder / "closed").chmod(0)
    become()
    assert entries(folder / "none") == []
    with pytest.raises(MachineError, match="closed cannot be read: Permission denied"):
        entries(folder / "closed")
    with pytest.raises(UsageError, match="Permission denied"):
        is_file(folder / "closed" / "mine" / "patch.yaml")
    assert lies_in(folder / "closed" / "mine", "patch.yaml")
    assert not is_gone(folder / "closed" / "x")


def test_what_of_a_path_is_there_can_be_looked_at(tmp_path):
    assert nearest(tmp_path / "a" / "b") == tmp_path
    assert nearest(tmp_path) == tmp_path
    assert (is_gone(tmp_path / "a"), is_gone(tmp_path)) == (True, False)
