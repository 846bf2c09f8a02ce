"""A draft's files are read as they lie here, links and all, and what the container would not see is refused."""

import json
import shlex
import subprocess

import pytest

from b70ctl.core.deployment import Mount, Order
from b70ctl.core.draft import Reach
from b70ctl.edge.draft import changed, commit, config, in_the_way, reach
from b70ctl.errors import Refused
from tests.making import resolved

LIMIT = "max_position_embeddings"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def repository(tmp_path):
    """A hub repository as the hub's library lays it out."""
    folder = tmp_path / "hub" / "models--owner--head"
    for name in ("refs", "blobs", f"snapshots/{COMMIT}"):
        (folder / name).mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    (folder / "blobs" / "b1").write_text(json.dumps({LIMIT: 2048}))
    (folder / "snapshots" / COMMIT / "config.json").symlink_to("../../blobs/b1")
    return folder


def order(file, target="/models/d/config.json", **overrides):
    return Order(kind="draft-config", to="files/draft/config.json", target=target, name="d", source=str(file),
                 overrides=overrides or {LIMIT: 8192})  # fmt: skip


def mounted(folder, target="/models"):
    return [Mount(source="/elsewhere", target="/other", read_only=True),
            Mount(source=str(folder), target=target, read_only=True)]  # fmt: skip


# -- which snapshot ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [None, "main", COMMIT])
def test_a_revision_is_looked_up_as_the_hubs_library_does(repository, revision):
    assert commit(repository, revision) == COMMIT


@pytest.mark.parametrize("revision", ["v2", COMMIT[:8], "../snapshots", "refs/main"])
def test_a_revision_that_the_cache_does_not_know_is_none(repository, revision):
    assert commit(repository, revision) is None


@pytest.mark.parametrize("text", ["", ".", "..", "f" * 40, "../../blobs", "\xff", "a" * 100_000])
def test_a_reference_to_nothing_is_none(repository, text):
    (repository / "refs" / "main").write_bytes(text.encode("latin-1"))
    assert commit(repository, None) is None


def test_a_tag_of_two_parts_is_found(repository):
    (repository / "refs" / "pr").mkdir()
    (repository / "refs" / "pr" / "1").write_text(COMMIT + "\n")
    assert commit(repository, "pr/1") == COMMIT


def test_a_repository_that_is_not_there_has_no_snapshot(tmp_path):
    assert commit(tmp_path / "none", None) is None


# -- what it says -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["{", "[]", "5", "null", '"x"', "[" * 100_000, "\udcff"])
def test_what_is_no_config_is_refused_with_its_path(tmp_path, text):
    file = tmp_path / "config.json"
    file.write_text(text, errors="surrogateescape")
    with pytest.raises(Refused, match=str(file)):
        config(file)
    assert reach(file) == Reach()


def test_a_link_that_leads_to_itself_is_refused(tmp_path):
    file = tmp_path / "config.json"
    file.symlink_to("config.json")
    with pytest.raises(Refused, match="symbolic links"):
        changed(order(file), mounted(tmp_path))
    assert reach(file) == Reach()


def test_a_directory_in_place_of_the_config_is_refused(tmp_path):
    (tmp_path / "config.json").mkdir()
    with pytest.raises(Refused, match="a directory"):
        config(tmp_path / "config.json")


def test_how_far_a_draft_reaches_is_read(repository):
    assert reach(repository / "snapshots" / COMMIT / "config.json") == Reach(2048)


# -- what is made of it -----------------------------------------------------------------------------------------------


def test_the_changed_config_keeps_the_others_and_their_order(tmp_path):
    file = tmp_path / "d" / "config.json"
    file.parent.mkdir()
    file.write_text('{"z": "ü", "max_position_embeddings": 2048, "a": [1]}')
    made = json.loads(changed(order(file), mounted(tmp_path)))
    assert list(made.items()) == [("z", "ü"), (LIMIT, 8192), ("a", [1])]
    assert json.loads(file.read_text())[LIMIT] == 2048


def test_a_snapshots_config_is_changed_and_its_blob_is_not(repository, tmp_path):
    file = repository / "snapshots" / COMMIT / "config.json"
    made = changed(order(file, target="/cache/hub/x/config.json"), mounted(tmp_path, "/cache"))
    assert json.loads(made) == {LIMIT: 8192}
    assert (repository / "blobs" / "b1").read_text() == json.dumps({LIMIT: 2048})


def test_a_cache_that_is_itself_a_link_is_seen_as_what_it_is(repository, tmp_path):
    linked = tmp_path / "linked"
    linked.symlink_to(tmp_path / "hub")
    file = linked / repository.name / "snapshots" / COMMIT / "config.json"
    assert json.loads(changed(order(file), mounted(linked))) == {LIMIT: 8192}


@pytest.mark.parametrize("absolute", [True, False])
def test_a_draft_whose_files_lie_outside_of_the_mount_is_refused(repository, tmp_path, absolute):
    models = tmp_path / "models"
    (models / "d").mkdir(parents=True)
    blob = repository / "blobs" / "b1"
    (models / "d" / "config.json").symlink_to(blob if absolute else "../../hub/models--owner--head/blobs/b1")
    with pytest.raises(Refused, match="does not have") as refused:
        changed(order(models / "d" / "config.json"), mounted(models))
    assert "cp -rL" in str(refused.value.hint)


@pytest.mark.parametrize("text", [r'"a": "\ud800"', r'"\udfff": 1', r'"a": {"\ud800": "\udfff"}'])
def test_half_of_a_character_stays_what_it_is(tmp_path, text):
    file = tmp_path / "config.json"
    file.write_text(f'{{"{LIMIT}": 2048, {text}}}')
    made = changed(order(file), mounted(tmp_path))
    assert json.loads(made) == json.loads(file.read_text()) | {LIMIT: 8192}


@pytest.mark.process
@pytest.mark.parametrize("name", ["d", "of two words/d"])
@pytest.mark.parametrize("hub", [True, False])
def test_the_hint_of_a_draft_that_would_not_be_found_can_be_followed(repository, tmp_path, name, hub):
    # as of a cache whose blobs lie on another disk, and of a directory that links into it
    models, cache = tmp_path / "models", tmp_path / "cache"
    folder = cache / "hub" / "models--o--d" / "snapshots" / COMMIT if hub else models / name
    for each in (models, folder):
        each.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").symlink_to(repository / "blobs" / "b1")
    mounts = [*mounted(models), *mounted(cache, "/cache")]
    wanted = order(folder / "config.json").model_copy(update={"name": "o/d" if hub else name})
    with pytest.raises(Refused, match="does not have") as refused:
        changed(wanted, mounts)
    copying, _, said = str(refused.value.hint).partition(";")
    subprocess.run(shlex.split(copying), check=True)
    assert "draft: {path: d-copied}" in said
    assert json.loads(changed(order(models / "d-copied" / "config.json"), mounts)) == {LIMIT: 8192}


def test_where_a_site_has_no_models_the_hint_says_that_it_must(repository, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "config.json").symlink_to(repository / "blobs" / "b1")
    with pytest.raises(Refused) as refused:
        changed(order(tmp_path / "cache" / "config.json"), mounted(tmp_path / "cache", "/cache"))
    assert "MODELS/d-copied; in site.yaml: models: MODELS" in str(refused.value.hint)


# -- before anything is stopped ---------------------------------------------------------------------------------------


def wanting(file, mounts, **overrides):
    files = (order(file, **overrides),)
    return resolved().model_copy(update={"files": files, "mounts": tuple(mounts), "requires": ()})


@pytest.mark.parametrize(
    ("text", "what"),
    [("[]", "not a JSON object"), ('{"a": 1}', "has no `max_position_embeddings`"), (None, "cannot be read")],
)
def test_a_draft_that_a_release_could_not_carry_is_told_beforehand(tmp_path, text, what):
    file = tmp_path / "config.json"
    if text is not None:
        file.write_text(text)
    deployment = wanting(file, mounted(tmp_path))
    [told] = in_the_way(deployment, [])
    assert what in told.what
    with pytest.raises(Refused) as refused:
        changed(deployment.files[0], deployment.mounts)
    assert (told.what, told.hint) == (refused.value.what, refused.value.hint)


def test_a_draft_behind_a_lost_link_or_a_lost_blob_is_told_beforehand(repository, tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    (models / "config.json").symlink_to(repository / "blobs" / "b1")
    deployment = wanting(models / "config.json", mounted(models))
    assert ["does not have" in told.what for told in in_the_way(deployment, [])] == [True]
    (repository / "blobs" / "b1").unlink()
    assert ["cannot be read" in told.what for told in in_the_way(deployment, [])] == [True]


def test_what_is_told_with_the_models_is_not_told_again(repository, tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    file = models / "config.json"
    file.symlink_to(repository / "blobs" / "b1")
    deployment = wanting(file, mounted(models)).model_copy(update={"requires": (str(file),)})
    assert in_the_way(deployment, []) == []
    file.unlink()
    assert in_the_way(deployment, [str(file)]) == []


def test_a_draft_that_can_be_carried_is_in_nobodys_way(repository, tmp_path):
    file = repository / "snapshots" / COMMIT / "config.json"
    assert in_the_way(wanting(file, mounted(tmp_path)), []) == []


@pytest.mark.parametrize(("content", "command"), [(None, ["ls", "-lL"]), ("[]", ["head", "-c", "200"])])
def test_the_command_for_a_config_that_is_none_can_be_typed_whatever_its_folder_is_called(tmp_path, content, command):
    folder = tmp_path / "my head; it's new"
    folder.mkdir()
    if content:
        (folder / "config.json").write_text(content)
    with pytest.raises(Refused) as refused:
        config(folder / "config.json")
    assert shlex.split(refused.value.hint) == [*command, str(folder / "config.json")]
