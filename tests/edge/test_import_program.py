"""What Python would import is asked of a Python, which imports none of it."""

import hashlib
import json
import os
import py_compile
import subprocess
import sys

import pytest

from b70ctl.core.imported import is_module
from b70ctl.edge.imported import LOOK

pytestmark = pytest.mark.process

FILE = "vllm/models/a.py"


def package(root, text="OLD = 1\n"):
    """A package with one module two levels deep."""
    (root / "vllm" / "models").mkdir(parents=True)
    for folder in (root / "vllm", root / "vllm" / "models"):
        (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (root / FILE).write_text(text)
    return root


def asked(installed, *, cwd, script="/nowhere", path="", file=FILE, **more):
    """What a Python says that has the package installed; PYTHONPATH comes before it."""
    question = json.dumps([{"file": file, "target": str(installed / file), "markers": ["OLD", "NEW"]} | more])
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, [str(path), str(installed)]))}
    argv = [sys.executable, "-s", "-c", LOOK, str(script), question]
    ran = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=True)
    [found] = json.loads(ran.stdout)
    return found


@pytest.fixture
def installed(tmp_path):
    return package(tmp_path / "sp")


def test_a_module_is_found_where_an_import_would_find_it_and_nothing_is_imported(installed, tmp_path):
    found = asked(installed, cwd=tmp_path)
    assert found["imports"] == {"serve": str(installed / FILE), "module": str(installed / FILE)}
    assert found["sha256"] == hashlib.sha256(b"OLD = 1\n").hexdigest()
    assert (found["missing"], found["stale"]) == (["NEW"], None)


def test_a_copy_in_the_working_directory_is_what_a_module_run_from_there_would_import(installed, tmp_path):
    here = package(tmp_path / "checkout")
    found = asked(installed, cwd=here)
    assert found["imports"] == {"serve": str(installed / FILE), "module": str(here / FILE)}


def test_a_copy_beside_the_engines_script_or_on_the_path_is_what_the_engine_would_import(installed, tmp_path):
    other = package(tmp_path / "other")
    assert asked(installed, cwd=tmp_path, script=other)["imports"]["serve"] == str(other / FILE)
    found = asked(installed, cwd=tmp_path, path=other)["imports"]
    assert set(found.values()) == {str(other / FILE)}


def test_a_package_that_hides_the_module_is_seen(installed, tmp_path):
    (tmp_path / "hiding" / "vllm").mkdir(parents=True)
    (tmp_path / "hiding" / "vllm" / "__init__.py").write_text("")
    assert asked(installed, cwd=tmp_path, path=tmp_path / "hiding")["imports"] == {"serve": None, "module": None}


def test_a_link_to_the_file_is_the_file(installed, tmp_path):
    (tmp_path / "link").symlink_to(installed)
    found = asked(tmp_path / "link", cwd=tmp_path)
    assert {found["place"], *found["imports"].values()} == {str(installed / FILE)}


@pytest.mark.parametrize("file", ["vllm/tables/B70-8.json", "vllm/models/not-a-module.py"])
def test_what_is_no_module_is_read_and_not_looked_for(installed, tmp_path, file):
    (installed / file).parent.mkdir(exist_ok=True)
    (installed / file).write_text("OLD NEW")
    found = asked(installed, cwd=tmp_path, file=file)
    assert (found["imports"], found["missing"]) == ({}, [])


@pytest.mark.parametrize("file", [FILE, "vllm/__init__.py", "__init__.py", "vllm/a.json", "vllm/a.b.py", "a-b/c.py"])
def test_what_is_looked_for_is_what_must_be_found(installed, tmp_path, file):
    (installed / file).parent.mkdir(exist_ok=True)
    (installed / file).touch()
    assert bool(asked(installed, cwd=tmp_path, file=file)["imports"]) is is_module(file)


def test_a_file_that_is_not_there_is_no_file(installed, tmp_path):
    assert "sha256" not in asked(installed, cwd=tmp_path, file="vllm/models/b.py")


def test_the_file_of_a_package_itself_is_looked_for_as_the_package(installed, tmp_path):
    found = asked(installed, cwd=tmp_path, file="vllm/models/__init__.py")
    assert found["imports"]["serve"] == str(installed / "vllm/models/__init__.py")


@pytest.mark.parametrize(
    ("mode", "changed", "stale"),
    [
        (py_compile.PycInvalidationMode.TIMESTAMP, False, False),
        (py_compile.PycInvalidationMode.TIMESTAMP, True, True),
        (py_compile.PycInvalidationMode.UNCHECKED_HASH, False, False),
        (py_compile.PycInvalidationMode.UNCHECKED_HASH, True, True),
        (py_compile.PycInvalidationMode.CHECKED_HASH, True, False),
    ],
)
def test_bytecode_that_would_be_loaded_in_the_place_of_the_file_is_found(installed, tmp_path, mode, changed, stale):
    source = installed / FILE
    kept = py_compile.compile(str(source), invalidation_mode=mode)
    if changed:
        # as many bytes, and the same second: what the bytecode was stamped with
        was = source.stat()
        source.write_text("NEW = 1\n")
        os.utime(source, (was.st_atime, was.st_mtime))
    assert asked(installed, cwd=tmp_path)["stale"] == (kept if stale else None)


def test_bytecode_of_an_older_file_is_not_loaded_and_not_told(installed, tmp_path):
    py_compile.compile(str(installed / FILE))
    (installed / FILE).write_text("NEWER = 1\n")
    assert asked(installed, cwd=tmp_path)["stale"] is None
