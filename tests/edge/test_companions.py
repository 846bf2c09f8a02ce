"""Companions are included as they are, where they are."""

import json

import pytest

from b70ctl.core.site import Site
from b70ctl.edge import yamlfile
from b70ctl.edge.companions import companions_file
from b70ctl.edge.composer import find_composer
from b70ctl.edge.process import run
from b70ctl.errors import UsageError


def put(root, name, text="services: {web: {image: x}}\n"):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def included(root, *names):
    site = Site.model_validate({"name": "s", "companions": list(names)})
    return companions_file(site, root, root / ".b70ctl")


def test_files_are_named_by_their_whole_path_wherever_they_lie(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    paths = [put(tmp_path, "a/compose.yaml"), put(tmp_path, "home/b.yaml"), put(tmp_path, "c d $x.yaml")]
    document = yamlfile.read(included(tmp_path, "a/compose.yaml", "~/b.yaml", str(paths[2]))).data
    assert [each["path"].replace("$$", "$") for each in document["include"]] == [str(path) for path in paths]
    assert document["name"] == "s-companions"
    assert document["networks"] == {"default": {"name": "b70ctl-s", "external": True}}


def test_a_companion_that_is_not_there_is_told_with_the_file_to_edit(tmp_path):
    with pytest.raises(UsageError, match=r"nothing\.yaml does not exist") as refused:
        included(tmp_path, "nothing.yaml")
    assert str(tmp_path / "site.yaml") in str(refused.value.hint)


@pytest.mark.process
def test_compose_reads_a_companions_env_file_and_paths_where_the_companion_lies(tmp_path):
    put(tmp_path, "web/compose.yaml", "services: {web: {image: '${IMAGE}', volumes: ['./data:/data']}}\n")
    put(tmp_path, "web/.env", "IMAGE=from-its-own-env\n")
    file = included(tmp_path, "web/compose.yaml")
    ran = run((find_composer().binary, "-f", str(file), "config", "--format", "json"), timeout=30, cwd=file.parent)
    web = json.loads(ran.stdout)["services"]["web"]
    assert web["image"] == "from-its-own-env"
    assert web["volumes"][0]["source"] == str(tmp_path / "web" / "data")
