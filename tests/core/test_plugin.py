"""What a release carries of the kernels, what is read off their package, and where another of that name may hide."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core import plugin
from b70ctl.core.changes import changes
from b70ctl.core.host import Host
from b70ctl.core.place import Place
from b70ctl.core.resolve import Request, resolve
from b70ctl.errors import Refused
from tests.fake_kernels import TABLE_ROW
from tests.making import a_profile, a_site, some_facts

PACKAGE = {
    "__init__.py": b'"""Doc."""\n__version__ = "0.1.0"\n',
    "plugin/__init__.py": b"import vllm\n",
    "plugin/proven.py": b'VERSIONS = (\n    "0.19.0", "0.30.0",\n)  # in order\n',
}
KERNELS = plugin.read_kernels("/srv/kernels/b70_kernels", "shipped", PACKAGE, "ab" * 32)


def deployed(kernels=KERNELS, *, pythonpath=None, **profile):
    place = Place(site=a_site(), root="/srv/site", host=Host())
    facts = some_facts(pythonpath=pythonpath)
    return resolve(Request(name="p", profile=a_profile(profile)), place, facts, {}, kernels)


# --- a release -------------------------------------------------------------------------------------------------------


def test_the_package_is_carried_with_what_makes_it_an_installed_plugin():
    (order,) = deployed().files
    assert (order.kind, order.source, order.to) == ("plugin", "/srv/kernels/b70_kernels", "files/plugin")
    assert order.target == "/opt/b70ctl/plugin"
    assert order.texts == {
        "b70_kernels-0.1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: b70-kernels\nVersion: 0.1.0\n",
        "b70_kernels-0.1.0.dist-info/entry_points.txt":
            "[vllm.general_plugins]\nb70_kernels = b70_kernels.plugin:register\n",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("profiles", "images", "path"),
    [
        (None, None, "/opt/b70ctl/plugin"),
        (None, "/image:/too", "/image:/too:/opt/b70ctl/plugin"),
        ("/mine", None, "/mine:/opt/b70ctl/plugin"),
        ("/mine", "/image", "/mine:/image:/opt/b70ctl/plugin"),
    ],
)
def test_python_looks_in_the_plugin_last_and_nobodys_own_folders_are_lost(profiles, images, path):
    env = {"PYTHONPATH": profiles} if profiles else {}
    assert deployed(env=env, pythonpath=images).env["PYTHONPATH"] == path


def test_without_our_kernels_nothing_is_carried_or_added():
    deployment = deployed(None, pythonpath="/image")
    assert deployment.files == ()
    assert deployment.kernels is None
    assert not {"PYTHONPATH", "B70_KERNELS_TUNING"} & deployment.env.keys()


def test_a_sites_tile_sizes_are_carried_and_named_unless_the_profile_names_others():
    tuned = replace(KERNELS, table="/srv/site/tuning.json")
    order = deployed(tuned).files[1]
    assert (order.kind, order.source, order.target) == ("tree", "/srv/site/tuning.json", "/opt/b70ctl/tuning.json")
    assert deployed(tuned).env["B70_KERNELS_TUNING"] == order.target
    assert deployed(tuned, env={"B70_KERNELS_TUNING": "/mine"}).env["B70_KERNELS_TUNING"] == "/mine"


def test_other_kernels_are_another_deployment_and_a_change_that_people_can_read():
    old, new = (deployed().model_copy(update={"kernels": plugin.label(KERNELS.name, each * 64)}) for each in "ab")
    assert old.digest != new.digest
    (change,) = changes(old, new)
    assert (change.what, change.before) == ("kernels", "b70_kernels 0.1.0, files aaaaaaaaaaaa")
    assert plugin.spoken(str(new.kernels)) == KERNELS.name


# --- the package -----------------------------------------------------------------------------------------------------


def test_a_package_is_read_and_not_run():
    assert (KERNELS.name, KERNELS.proven) == ("b70_kernels 0.1.0", ("0.19.0", "0.30.0"))


NO_VERSIONS = (
    "", ".", "..", "../../../pwned", "/pwned", "a/b", "0.1 0", "x\ny", "0.1\n", "1,2", "\x1b[2J", "\0", "\ud800",
    "1" * 61, "1" * 300, "é", "-1", "$HOME", 1, None,
)  # fmt: skip
NO_LITERALS = (
    b"{[]: 1}", b"{1, [2]}", b"-" * 20_000 + b"1", b"1+" * 5_000 + b"1", b"-" * 900_000 + b"1", b"1+" * 400_000 + b"1",
    b"(" * 20_000, b"[" * 100 + b"]" * 100, b"'0.1' + 1", b"1" * 10_000,
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "lacks"),
    [
        ({"plugin/__init__.py": None}, "no plugin for vLLM"),
        ({"plugin/proven.py": None}, "no plugin for vLLM"),
        ({"__init__.py": b""}, "no __version__"),
        ({"__init__.py": b"__version__ = made()"}, "no __version__"),
        ({"__init__.py": b"not python ("}, "no __version__"),
        ({"__init__.py": b"\0"}, "no __version__"),
        ({"plugin/proven.py": b""}, "no table of versions"),
        ({"plugin/proven.py": b"VERSIONS = (19, 20)"}, "no table of versions"),
        ({"plugin/proven.py": b"VERSIONS = ()"}, "no table of versions"),
        ({"plugin/proven.py": b"VERSIONS = ('x', '0.30')"}, "no table of versions in plugin/proven.py"),
        ({"plugin/proven.py": b"VERSIONS = ('0.30.0', '0.31.x')"}, "no table of versions in plugin/proven.py"),
        *(({"__init__.py": f"__version__ = {each!r}".encode()}, "no __version__") for each in NO_VERSIONS),
        *(({"plugin/proven.py": f"VERSIONS = ('0.1', {each!r})".encode()}, "no table") for each in NO_VERSIONS),
        *(({"plugin/proven.py": b"VERSIONS = " + each}, "no table") for each in NO_LITERALS),
        *(({"__init__.py": b"__version__ = " + each}, "no __version__") for each in NO_LITERALS),
        ({"__init__.py": b"#" * plugin.MOST_SOURCE + PACKAGE["__init__.py"]}, "no __version__"),
    ],
    ids=lambda each: str(each)[:60],
)
def test_a_sites_package_that_vllm_could_not_load_is_refused_with_both_ways_out(change, lacks):
    files = {name: content for name, content in (PACKAGE | change).items() if content is not None}
    with pytest.raises(Refused, match=lacks) as caught:
        plugin.read_kernels("/srv/site/kernels/b70_kernels", "site", files, "")
    assert "kernels: image" in str(caught.value.hint)


@pytest.mark.parametrize("version", ["0.1.0", "1.0+local-2", "1!2_rc", "1" * 60])
def test_a_version_that_can_name_a_folder_is_taken_as_it_stands(version):
    files = PACKAGE | {"__init__.py": f"__version__ = {version!r}".encode()}
    assert plugin.read_kernels("/k", "site", files, "").version == version


@given(st.text())
def test_whatever_version_is_taken_its_metadata_lies_in_one_folder_beside_the_package(version):
    try:
        found = plugin.read_kernels("/k", "site", PACKAGE | {"__init__.py": f"__version__ = {version!r}".encode()}, "")
    except Refused:
        return
    for name in plugin.metadata(found.version):
        assert [part.startswith(".") for part in name.split("/")] == [False, False]
        assert name.isascii()
        assert name.isprintable()


@pytest.mark.parametrize(
    ("vllm", "unproven", "accepted"),
    [
        ("0.30.0", None, True), ("0.30.0+xpu", None, True), ("0.30.1", None, False), ("0.30.0rc1", None, False),
        ("0.30.0.dev1+gabc", None, False), ("0.34.0", "0.34.0", True), ("0.34.0+xpu", "0.34.0", False),
        ("0.34.0", "0.35.0", False),
    ],
)  # fmt: skip
def test_a_release_is_accepted_and_anything_else_only_by_its_exact_name(vllm, unproven, accepted):
    assert KERNELS.accepts(vllm, unproven) is accepted


GRAPHS = b"class B:\n    _cudagraph_support: ClassVar[S] = S.UNIFORM_BATCH\n"
DECODES = b"def f(self):\n    self.init(1, supports_spec_as_decode=True)\n"


@pytest.mark.parametrize(
    ("source", "verifies"),
    [
        (GRAPHS + DECODES, True),
        (GRAPHS.replace(b": ClassVar[S]", b"") + DECODES, True),
        (GRAPHS, False),
        (DECODES, False),
        (GRAPHS + DECODES.replace(b"True", b"False"), False),
        (GRAPHS.replace(b"UNIFORM_BATCH", b"NEVER") + DECODES, False),
        (b"not python (", False),
        (GRAPHS + DECODES + b"x = " + b"-" * 20_000 + b"1\n", False),
        (GRAPHS + DECODES + b"x = " + b"1+" * 5_000 + b"1\n", False),
        (GRAPHS + DECODES + b"x = {[]: 1}\n", True),
    ],
    ids=lambda each: str(each)[-60:],
)
def test_a_backend_verifies_in_graphs_when_it_says_both_things(source, verifies):
    found = plugin.read_kernels("/k", "site", PACKAGE | {"plugin/backend_metadata.py": source}, "")
    assert found.full_graphs is verifies


@given(st.dictionaries(st.sampled_from([*PACKAGE, "plugin/backend.py"]), st.binary(max_size=60)))
def test_no_content_of_a_package_breaks_the_reading(files):
    try:
        found = plugin.read_kernels("/k", "site", PACKAGE | files, "")
    except Refused:
        return
    assert found.version
    assert found.proven


# --- tile sizes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", json.dumps({"rows": [TABLE_ROW | {"choice": {}}]}).encode()])
def test_tile_sizes_at_which_the_kernels_would_stop_are_refused(content):
    with pytest.raises(Refused, match="no table of tile sizes"):
        plugin.refuse_bad_table("/srv/site/tuning.json", content)


def test_tile_sizes_that_tune_wrote_are_taken():
    plugin.refuse_bad_table("/srv/site/tuning.json", json.dumps({"device": "x", "rows": [TABLE_ROW]}).encode())


# --- the plugin twice ------------------------------------------------------------------------------------------------

PLACE = Place(site=a_site(), root="/srv/site", host=Host())


def looked_at(pythonpath, *mounts, image=None):
    listed = [{"source": source, "target": target} for source, target in mounts]
    return plugin.searched(a_profile(env={"PYTHONPATH": pythonpath}, mounts=listed), (image, None), PLACE)


@pytest.mark.parametrize(
    ("pythonpath", "mounts", "folders"),
    [
        ("/opt/a", [("lib", "/opt/a")], [("/opt/a", "/srv/site/lib")]),
        ("/opt/a/", [("/usr/lib", "/opt/a/")], [("/opt/a", "/usr/lib")]),
        ("/opt/a/b:/x", [("lib", "/opt/a")], [("/opt/a/b", "/srv/site/lib/b")]),
        ("/opt/ab", [("lib", "/opt/a")], []),
        ("/x", [("lib", "/opt/a")], []),
    ],
)
def test_a_mount_is_looked_into_where_python_would_look(pythonpath, mounts, folders):
    assert looked_at(pythonpath, *mounts) == folders


@pytest.mark.parametrize("entry", ["/srv/py", "//srv/py", "/srv//py/", "/srv/./py", "/x/../srv/py", "srv/py",
                                   "./srv/py", "../srv/py", "/other:srv/py"])  # fmt: skip
@pytest.mark.parametrize("target", ["/srv/py", "//srv/py", "/srv/py/.", "///srv//py"])
def test_a_mount_is_found_however_it_and_pythons_path_are_spelt(entry, target):
    assert looked_at(entry, ("py", target)) == [("/srv/py", "/srv/site/py")]
    assert looked_at("/none", ("py", target), image=entry) == [("/srv/py", "/srv/site/py")]


def test_the_images_own_folders_are_looked_into_too():
    assert looked_at("/x", ("lib", "/image"), image="/image:/too") == [("/image", "/srv/site/lib")]


@pytest.mark.parametrize(
    "name",
    ["b70_kernels", "b70_kernels.py", "b70_kernels.pyc", "b70_kernels.so", "b70_kernels.abi3.so",
     "b70_kernels.cpython-312-x86_64-linux-gnu.so", "b70_kernels-0.1.0.dist-info", "b70-kernels-9.dist-info",
     "B70_Kernels-9.dist-info", "b70_kernels.egg-info", "b70_kernels-0.1-py3.12.egg-info"],
)  # fmt: skip
def test_a_package_and_what_says_that_it_is_installed_are_both_the_plugin(name):
    assert plugin.is_ours(name)
    assert not plugin.is_ours(f"x{name}")
    assert not plugin.is_ours(f"{name}.txt")
