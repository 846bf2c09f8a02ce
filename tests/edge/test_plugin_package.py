"""The kernels' package on this host: what of it is carried, what makes it another one, and where another one lies."""

import ast
import importlib.metadata
import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from b70ctl.core import plugin as core
from b70ctl.edge import kernels, plugin
from b70ctl.edge.carrying import MOST_CARRIED
from b70ctl.edge.filling import contents, fill, fingerprints
from b70ctl.edge.secretfiles import secret_files
from b70ctl.errors import Refused
from tests.fake_kernels import TABLE_ROW
from tests.making import a_site, resolved

SHIPPED = kernels.find(None)[0]


@pytest.fixture
def site(tmp_path):
    """A site with a copy of the shipped kernels."""
    shutil.copytree(SHIPPED, tmp_path / "kernels" / "b70_kernels", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def own(site):
    return site / "kernels" / "b70_kernels"


def carried(found, told=None, hidden=None):
    """The files of a release with these kernels."""
    deployment = resolved().model_copy(update={"files": core.orders(found), "kernels": told})
    return deployment, contents(deployment, {}, {}, lambda _: None, hidden or {})


# --- the package -----------------------------------------------------------------------------------------------------


def test_the_shipped_package_can_be_carried_and_says_what_it_is_proven_with():
    found = plugin.described(None)
    assert (found.origin, found.folder, found.table) == ("shipped", str(SHIPPED), None)
    assert found.proven[0] == "0.19.0"
    assert "0.30.0" in found.proven
    assert found.accepts("0.30.0+xpu", None)
    assert found.full_graphs


def test_a_release_holds_python_and_tables_and_nothing_that_was_left_lying_there(site):
    for name in ("__pycache__/a.cpython-311.pyc", "tests/test_a.py", "plugin/__pycache__/x.py", "notes.txt", "a.so"):
        (own(site) / name).parent.mkdir(exist_ok=True)
        (own(site) / name).write_text("x")
    _, files = carried(plugin.described(site))
    names = {name.removeprefix("files/plugin/") for name in files}
    assert {"b70_kernels/__init__.py", "b70_kernels/plugin/proven.py", "b70_kernels/tables/intel.json"} <= names
    assert names == {f"b70_kernels/{name}" for name in kernels.carried(SHIPPED)} | {
        "b70_kernels-0.1.0.dist-info/METADATA", "b70_kernels-0.1.0.dist-info/entry_points.txt",
    }  # fmt: skip


def test_python_finds_the_carried_plugin_as_an_installed_one(site, tmp_path):
    _, files = carried(plugin.described(site))
    fill(tmp_path / "release", files, "", {})
    path = str(tmp_path / "release" / "files" / "plugin")
    (found,) = importlib.metadata.distributions(name="b70-kernels", path=[path])
    assert found.version == plugin.described(site).version
    assert [(each.group, each.name, each.value) for each in found.entry_points] == [
        ("vllm.general_plugins", "b70_kernels", "b70_kernels.plugin:register")
    ]
    assert plugin.holds(Path(path))


def test_whatever_a_carried_module_imports_of_its_own_package_is_carried_too():
    files = kernels.carried(SHIPPED)
    modules = {name.removesuffix(".py").removesuffix("/__init__") for name in files if name.endswith(".py")}
    for name, source in files.items():
        for node in ast.walk(ast.parse(source)) if name.endswith(".py") else ():
            if isinstance(node, ast.ImportFrom) and node.module and node.level:
                above = name.split("/")[: -node.level]
                assert "/".join([*above, *node.module.split(".")]) in modules, f"{name} imports {node.module}"


@pytest.mark.parametrize("name", ["attention.py", "plugin/backend.py", "tables/intel.json", "new.py"])
def test_a_file_that_changed_is_another_package(site, name):
    before = plugin.described(site)
    (own(site) / name).write_text("# changed\n")
    after = plugin.described(site)
    assert before.digest != after.digest
    assert core.label(before.name, before.digest) != core.label(after.name, after.digest)


def test_a_package_that_changes_while_a_release_is_made_is_refused(site):
    found = plugin.described(site)
    told = core.label(found.name, found.digest)
    assert carried(found, told)[1] == carried(found)[1]
    (own(site) / "attention.py").write_text("# changed\n")
    with pytest.raises(Refused, match="changed while the release was made"):
        carried(found, told)


def test_the_kernels_are_told_by_their_own_hash_and_the_table_by_that_of_what_is_carried(site):
    table = site / "tuning.json"
    table.write_text(json.dumps({"device": "x", "rows": [TABLE_ROW]}))
    deployment, files = carried(plugin.described(site))
    assert files["files/tuning.json"] == table.read_bytes()
    assert fingerprints(deployment, {}, "salt").keys() == {"files/tuning.json"}


def test_the_device_that_a_sites_table_was_measured_on_is_known(site):
    assert plugin.described(site).tuned_on is None
    (site / "tuning.json").write_text(json.dumps({"device": "NVIDIA H200", "rows": [TABLE_ROW]}))
    assert plugin.described(site).tuned_on == "NVIDIA H200"


def test_a_table_that_is_none_is_refused_before_it_reaches_an_engine(site):
    (site / "tuning.json").write_text('{"rows": [{}]}')
    with pytest.raises(Refused, match=r"tuning\.json is no table of tile sizes"):
        plugin.described(site)


UNREADABLE = {
    "larger than what is carried": lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), MOST_CARRIED + 1),
    "a folder": lambda path: path.mkdir(),
    "a link loop": lambda path: path.symlink_to(path),
    "a link to nowhere": lambda path: path.symlink_to("gone"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_table_that_cannot_be_read_is_told_and_not_passed_over(site, kind):
    UNREADABLE[kind](site / "tuning.json")
    with pytest.raises(Refused, match=r"tuning\.json, which `kernels: b70` would carry to the engine, cannot be read"):
        plugin.described(site)
    assert plugin.table_text(site / "tuning.json") is None


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"rows": [], "device": "\xff"}'])
def test_a_table_that_nobody_can_make_sense_of_is_refused(site, content):
    (site / "tuning.json").write_bytes(content)
    with pytest.raises(Refused, match="no table of tile sizes"):
        plugin.described(site)


def test_a_version_that_leads_out_of_the_release_is_refused(site):
    (own(site) / "__init__.py").write_text('__version__ = "../../../pwned"\n')
    with pytest.raises(Refused, match="no __version__ that can be read"):
        plugin.described(site)


def test_a_sites_kernels_without_a_plugin_are_refused(site):
    shutil.rmtree(own(site) / "plugin")
    with pytest.raises(Refused, match=r"the site kernels in .* have no plugin for vLLM"):
        plugin.described(site)


def test_a_link_to_a_file_is_a_file_of_the_package(site):
    (own(site) / "linked.py").symlink_to(own(site) / "attention.py")
    found = kernels.carried(own(site))
    assert found["linked.py"] == found["attention.py"]


@pytest.mark.parametrize("other_name", [os.symlink, os.link])
@pytest.mark.parametrize("name", ["x.py", "tables/y.json", "tuning.json"])
def test_a_secret_is_carried_with_no_kernels_under_another_name(site, name, other_name):
    (site / "the-key").write_text("s3cret")
    hidden = secret_files(a_site(secrets={"KEY": {"file": "the-key"}}), site)
    found = plugin.described(site, hidden)
    other_name(site / "the-key", (site if name == "tuning.json" else own(site)) / name)
    with pytest.raises(Refused, match=rf"{name} is the file of secrets.KEY by another name"):
        plugin.described(site, hidden)
    if name != "tuning.json":
        with pytest.raises(Refused, match=rf"{name} is the file of secrets.KEY by another name"):
            carried(found, hidden=hidden)


@pytest.mark.parametrize("name", ["x.py", "tuning.json"])
def test_what_the_system_tells_of_a_process_is_carried_with_no_kernels(site, name):
    ((site if name == "tuning.json" else own(site)) / name).symlink_to("/proc/self/environ")
    with pytest.raises(Refused, match=rf"{name}.* it is /proc/\d+/environ, which is no file of a disk"):
        plugin.described(site)


@pytest.mark.parametrize("name", ["loop.py", "tables"])
def test_what_cannot_be_carried_of_the_package_is_refused_and_not_left_out(site, name):
    if name == "tables":
        (own(site) / name).rename(site / name)
        (own(site) / name).symlink_to(site / name)
    else:
        (own(site) / name).symlink_to(own(site) / name)
    with pytest.raises(Refused, match=f"{name}: ") as refused:
        kernels.carried(own(site))
    assert str(refused.value.hint).endswith(name)


# --- another package of that name ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["b70_kernels", "b70_kernels-0.1.0.dist-info", "b70-kernels-2.dist-info"])
def test_a_folder_with_the_package_or_its_metadata_holds_it(tmp_path, name):
    assert not plugin.holds(tmp_path)
    (tmp_path / name).mkdir()
    assert plugin.holds(tmp_path)
    assert not plugin.holds(tmp_path / "not-there")


@pytest.mark.parametrize(
    "name", ["b70_kernels.py", "b70_kernels.cpython-312-x86_64-linux-gnu.so", "b70_kernels.egg-info"]
)
def test_a_single_file_is_the_package_too(tmp_path, name):
    (tmp_path / name).write_text("")
    assert plugin.holds(tmp_path)


def test_a_file_on_pythons_path_and_what_lies_in_it_are_an_archive_and_a_folder_is_none(tmp_path):
    with zipfile.ZipFile(tmp_path / "lib.zip", "w") as archive:
        archive.writestr("deep/b70_kernels/__init__.py", "")
    assert plugin.is_archive(tmp_path / "lib.zip")
    assert plugin.is_archive(tmp_path / "lib.zip" / "deep")
    for name in (".", "not-there", "a\0b"):
        assert not plugin.is_archive(tmp_path / name)
        assert not plugin.holds(tmp_path / name)
