"""A release holds exactly what was decided, and a secret stands in one file that only its owner reads."""

import errno
import hashlib
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.deployment import Order
from b70ctl.core.site import Site
from b70ctl.edge.carrying import is_the_systems
from b70ctl.edge.draft import in_the_way
from b70ctl.edge.filling import (
    MOST_CARRIED,
    contents,
    damage,
    fill,
    fingerprints,
    hashes,
    scratch,
    unfit,
)
from b70ctl.edge.secretfiles import MOST_SECRET, kept_secrets, read_secrets, secret_files
from b70ctl.errors import MachineError, Refused, UsageError
from tests.making import SITE_PACKAGES, a_patch, a_profile, a_release, a_site, resolved
from tests.no_files import NO_FILES

BASE = b"before\nold\nafter\n"
PATCH = a_patch(bases={hashlib.sha256(BASE).hexdigest(): "0.21.0"})
DEPLOYMENT = resolved(a_profile(patches=["one"]), patches={"one": PATCH})


def only(order):
    return DEPLOYMENT.model_copy(update={"files": (order,)})


def content(order, patches=None, read=lambda _: None):
    return contents(only(order), patches or {}, {}, read)[order.to]


def copied(path, **more):
    return Order(kind="copy", to="files/s/s.py", target="/opt/s.py", name="s", source=str(path), **more)


SCRIPTS = {"s": a_patch(edits=None, scripts=[{"file": "s.py", "where": "github.com/somebody/scripts"}])}


def test_a_patched_file_is_the_images_own_with_the_edit_made():
    asked = []
    made = contents(DEPLOYMENT, {"one": PATCH}, {}, lambda path: asked.append(path) or BASE)
    assert made == {"files/one/vllm/a.py": b"before\nnew\nafter\n"}
    assert asked == [f"{SITE_PACKAGES}/vllm/a.py"]


def test_a_base_that_was_accepted_for_another_patch_is_not_accepted_for_this():
    base = BASE + b"more\n"
    accepted = frozenset({hashlib.sha256(base).hexdigest()})
    with pytest.raises(Refused, match="not made for this"):
        contents(DEPLOYMENT, {"one": PATCH}, {"two": accepted}, lambda _: base)
    assert contents(DEPLOYMENT, {"one": PATCH}, {"one": accepted}, lambda _: base)


@pytest.mark.parametrize("place", ["files/s/s.py", "files/s", "files/s/s.py/x"])
def test_no_file_of_a_release_takes_the_place_of_another(tmp_path, place):
    (tmp_path / "s.py").write_text("one")
    first = copied(tmp_path / "s.py")
    both = DEPLOYMENT.model_copy(update={"files": (first, first.model_copy(update={"to": place}))})
    with pytest.raises(Refused, match="two things would lie at"):
        contents(both, SCRIPTS, {}, lambda _: None)


@pytest.mark.parametrize("source", ["site", "site/.b70ctl", "site/.b70ctl/releases", "linked"])
def test_a_sites_memory_is_carried_to_no_engine(tmp_path, source):
    (tmp_path / "site" / ".b70ctl" / "releases").mkdir(parents=True)
    (tmp_path / "site" / ".b70ctl" / "releases" / "secrets.env").write_text("K=s3cret")
    (tmp_path / "linked").symlink_to(tmp_path / "site" / ".b70ctl" / "releases")
    order = Order(kind="tree", to="files/mounts/00-m", target="/m", name="m", source=str(tmp_path / source))
    with pytest.raises(Refused, match="own memory of the site"):
        contents(only(order), {}, {}, lambda _: None)
    assert len(unfit([order], {})) == 1


@pytest.mark.parametrize("other_name", [os.symlink, os.link])
@pytest.mark.parametrize("whose", ["secrets.KEY", "a release's secrets"])
def test_a_secret_is_carried_to_no_engine_under_another_name(tmp_path, other_name, whose):
    kept = tmp_path / ".b70ctl" / "releases" / "0001-p" / "secrets.env"
    for path in (tmp_path / "the-key", kept, tmp_path / "mounted" / "innocent"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("s3cret")
    site = a_site(secrets={"KEY": {"file": "the-key"}})
    hidden = secret_files(site, tmp_path)
    tree = Order(kind="tree", to="files/mounts/00-m", target="/m", name="m", source=str(tmp_path / "mounted"))
    assert contents(only(tree), {}, {}, lambda _: None, hidden)
    other_name(tmp_path / "the-key" if whose == "secrets.KEY" else kept, tmp_path / "mounted" / "z")
    for order in (tree, copied(tmp_path / "mounted" / "z")):
        with pytest.raises(Refused, match=rf"mounted/z is the file of {whose} by another name"):
            contents(only(order), SCRIPTS, {}, lambda _: None, hidden)
        assert len(unfit([order], SCRIPTS, hidden)) == 1


DRAFT = {"kind": "draft-config", "to": "files/draft/config.json", "target": "/d", "name": "d", "overrides": {"a": 1}}


@pytest.mark.parametrize("other_name", [os.symlink, os.link])
def test_a_secret_is_no_drafts_config_either(tmp_path, other_name):
    (tmp_path / "the-key").write_text('{"a": 2}')
    hidden = secret_files(a_site(secrets={"KEY": {"file": "the-key"}}), tmp_path)
    other_name(tmp_path / "the-key", tmp_path / "config.json")
    deployment = only(Order(source=str(tmp_path / "config.json"), **DRAFT))
    with pytest.raises(Refused, match=r"config.json is the file of secrets.KEY by another name"):
        contents(deployment, {}, {}, lambda _: None, hidden)
    [told] = in_the_way(deployment, (), hidden)
    assert "secrets.KEY" in told.what


@pytest.mark.parametrize("told", ["/proc/self/environ", "/proc/sys/kernel/hostname", "/sys/kernel/uevent_seqnum"])
def test_what_the_system_tells_of_itself_is_carried_to_no_engine(tmp_path, told):
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted" / "z").symlink_to(told)
    tree = Order(kind="tree", to="files/mounts/00-m", target="/m", name="m", source=str(tmp_path / "mounted"))
    draft = Order(source=str(tmp_path / "mounted" / "z"), **DRAFT)
    for order in (tree, copied(tmp_path / "mounted" / "z"), draft):
        with pytest.raises(Refused, match=r"it is /(proc|sys)/.*, which is no file of a disk"):
            contents(only(order), SCRIPTS, {}, lambda _: None)
    assert [len(unfit([order], SCRIPTS)) for order in (tree, copied(tmp_path / "mounted" / "z"))] == [1, 1]
    assert fingerprints(only(tree), {}, "salt") == {"files/mounts/00-m": "absent"}


def test_the_system_is_known_by_its_device_wherever_that_is_mounted(tmp_path):
    places = (Path("/proc"), Path("/sys"), tmp_path)
    assert [is_the_systems(place.stat().st_dev) for place in places] == [True, True, False]


def test_a_secret_whose_file_is_not_there_hides_nothing(tmp_path):
    assert secret_files(a_site(secrets={"KEY": {"file": "gone"}, "ENV": {"env": "HOME"}}), tmp_path) == {}


def test_a_link_to_a_folder_in_what_is_mounted_is_refused_and_not_left_out(tmp_path):
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted" / "a.txt").write_text("a")
    (tmp_path / "mounted" / "far").symlink_to(tmp_path)
    with pytest.raises(Refused, match="a link to a folder"):
        contents(only(Order(kind="tree", to="files/mounts/00-m", target="/m", name="m",
                            source=str(tmp_path / "mounted"))), {}, {}, lambda _: None)  # fmt: skip


def test_a_file_that_the_image_does_not_have_is_refused():
    with pytest.raises(Refused, match="does not have"):
        contents(DEPLOYMENT, {"one": PATCH}, {}, lambda _: None)


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_bytes_around_the_edit_are_left_as_they_are(line_end):
    base = BASE.replace(b"after\n", b"\xff\xfe" + line_end)
    patch = a_patch(bases={hashlib.sha256(base).hexdigest(): "0.21.0"})
    made = contents(DEPLOYMENT, {"one": patch}, {}, lambda _: base)
    assert made["files/one/vllm/a.py"] == base.replace(b"old", b"new")


# -- start scripts ----------------------------------------------------------------------------------------------------


def test_a_script_is_copied_byte_for_byte(tmp_path):
    (tmp_path / "s.py").write_bytes(b"print('\xc3\xa9')\n")
    assert content(copied(tmp_path / "s.py"), SCRIPTS) == b"print('\xc3\xa9')\n"


def test_a_script_that_is_not_there_is_refused_with_where_to_get_it(tmp_path):
    with pytest.raises(Refused, match="cannot be read") as refused:
        content(copied(tmp_path / "s.py"), SCRIPTS)
    assert refused.value.hint == "github.com/somebody/scripts"


def test_what_cannot_be_copied_is_told_before_anything_is_prepared(tmp_path):
    there, gone = tmp_path / "there.py", tmp_path / "s.py"
    there.write_text("x = 1\n")
    tree = Order(kind="tree", to="files/t", target="/t", name="t", source=str(tmp_path / "no-folder"))
    orders = (copied(there), copied(there, sha256="0" * 64), copied(gone), tree)
    found = unfit(orders, SCRIPTS)
    told = ("is not the file", "cannot be read", "does not exist")
    assert [[text for text in told if text in error.what] for error in found] == [[each] for each in told]
    assert found[1].hint == "github.com/somebody/scripts"


@pytest.mark.parametrize(("harm", "told"), [
    (lambda path: path.unlink(), "cannot be read"),
    (lambda path: path.write_text("another"), "was changed since release 0007-p-"),
    (lambda path: None, None),
])  # fmt: skip
@pytest.mark.parametrize("name", ["files/s/s.py", "compose.yaml"])
def test_a_release_knows_what_was_written_into_it(tmp_path, harm, told, name):
    files = {"files/s/s.py": b"x = 1\n"}
    release = a_release(7, contents=hashes(files, "services: {}\n"))
    fill(tmp_path, files, "services: {}\n", {"K": "secret"})
    harm(tmp_path / name)
    found = damage(release, tmp_path)
    assert [(str(tmp_path / name) in error.what, told in error.what) for error in found] == [(True, True)] * bool(told)
    assert "secrets.env" not in release.contents
    assert damage(a_release(1), tmp_path) == []


def test_a_script_that_is_not_the_named_one_is_refused(tmp_path):
    (tmp_path / "s.py").write_text("another")
    with pytest.raises(Refused, match="is not the file"):
        content(copied(tmp_path / "s.py", sha256="0" * 64), SCRIPTS)


def test_windows_line_ends_are_refused_with_a_way_out(tmp_path):
    (tmp_path / "s.py").write_bytes(b"a\r\nb\r\n")
    with pytest.raises(Refused, match="Windows") as refused:
        content(copied(tmp_path / "s.py"), SCRIPTS)
    assert "dos2unix" in str(refused.value.hint)


# -- overlays ---------------------------------------------------------------------------------------------------------


OVERLAY = {
    "o": a_patch(
        edits=None, overlays=[{"file": "vllm/a.py", "source": "mine.py", "base": hashlib.sha256(BASE).hexdigest()}]
    )
}


def overlaid(path, **more):
    return Order(kind="overlay", to="files/o/vllm/a.py", target=f"{SITE_PACKAGES}/vllm/a.py", name="o",
                 source=str(path), **more)  # fmt: skip


def test_an_overlay_is_carried_byte_for_byte_over_the_file_that_it_was_made_from(tmp_path):
    (tmp_path / "mine.py").write_bytes(b"MINE = '\xc3\xa9'\n")
    assert content(overlaid(tmp_path / "mine.py"), OVERLAY, lambda _: BASE) == b"MINE = '\xc3\xa9'\n"


def test_an_overlay_that_is_no_python_where_the_images_file_is_python_is_refused(tmp_path):
    base = b"x = 1\n"
    overlay = {"file": "vllm/a.py", "source": "mine.py", "base": hashlib.sha256(base).hexdigest()}
    (tmp_path / "mine.py").write_bytes(b"x = (\n")
    patches = {"o": a_patch(edits=None, overlays=[overlay])}
    with pytest.raises(Refused, match=r"`o` would leave vllm/a\.py no Python, line 1") as refused:
        content(overlaid(tmp_path / "mine.py"), patches, lambda _: base)
    assert refused.value.hint == f"python3 -m py_compile {tmp_path}/mine.py"


def test_an_overlay_that_is_older_than_the_image_is_refused_with_the_new_base(tmp_path):
    (tmp_path / "mine.py").write_bytes(b"MINE")
    newer = BASE + b"more\n"
    with pytest.raises(Refused, match=r"was made from another vllm/a\.py") as refused:
        content(overlaid(tmp_path / "mine.py"), OVERLAY, lambda _: newer)
    assert hashlib.sha256(newer).hexdigest() in str(refused.value.hint)


def test_of_an_overlay_that_is_not_here_the_base_is_told_first(tmp_path):
    with pytest.raises(Refused, match="was made from another"):
        content(overlaid(tmp_path / "gone.py"), OVERLAY, lambda _: b"another")
    with pytest.raises(Refused, match="cannot be read"):
        content(overlaid(tmp_path / "gone.py"), OVERLAY, lambda _: BASE)


def test_an_overlay_is_held_against_its_own_base_and_not_one_of_a_file_whose_name_ends_alike(tmp_path):
    (tmp_path / "mine.py").write_bytes(b"MINE")
    overlays = [{"file": "a.py", "source": "other.py", "base": "0" * 64}, *OVERLAY["o"].model_dump()["overlays"]]
    patches = {"o": a_patch(edits=None, overlays=overlays)}
    assert content(overlaid(tmp_path / "mine.py"), patches, lambda _: BASE) == b"MINE"


def test_an_overlay_of_what_the_image_does_not_have_is_refused(tmp_path):
    (tmp_path / "mine.py").write_bytes(b"MINE")
    with pytest.raises(Refused, match="does not have"):
        content(overlaid(tmp_path / "mine.py"), OVERLAY)


def test_an_overlay_is_one_file_and_never_a_folder(tmp_path):
    with pytest.raises(Refused, match="cannot be read"):
        content(overlaid(tmp_path), OVERLAY, lambda _: BASE)


def test_an_overlay_that_is_not_the_named_file_is_refused(tmp_path):
    (tmp_path / "mine.py").write_bytes(b"MINE")
    with pytest.raises(Refused, match="is not the file"):
        content(overlaid(tmp_path / "mine.py", sha256="0" * 64), OVERLAY, lambda _: BASE)


# -- drafts -----------------------------------------------------------------------------------------------------------


def draft(path, **overrides):
    return Order(kind="draft-config", to="files/draft/config.json", target="/models/d/config.json", name="d",
                 source=str(path), overrides=overrides)  # fmt: skip


# -- the folder -------------------------------------------------------------------------------------------------------


def test_a_release_holds_its_files_its_text_and_its_secrets(tmp_path):
    fill(tmp_path, {"files/a/b.py": b"\xff"}, "name: x\n", {"K": "secret"})
    found = {str(path.relative_to(tmp_path)): path for path in tmp_path.rglob("*") if path.is_file()}
    assert set(found) == {"files/a/b.py", "compose.yaml", "secrets.env"}
    assert found["files/a/b.py"].read_bytes() == b"\xff"
    assert stat.S_IMODE(found["secrets.env"].stat().st_mode) == 0o600
    assert "secret" not in found["compose.yaml"].read_text()


@pytest.mark.parametrize("name", ["/pwned", "../pwned", "files/../../pwned", "files/..", "a\0b"])
def test_nothing_is_written_outside_a_release_whoever_names_it(tmp_path, name):
    inside = tmp_path / "release"
    inside.mkdir()
    with pytest.raises(Refused, match="is no place in a release"):
        fill(inside, {name: b"x"}, "name: x\n", {})
    assert [*tmp_path.rglob("*")] == [inside]


def test_dots_in_a_files_name_are_no_way_out(tmp_path):
    fill(tmp_path, {"files/a..b/..c": b"x"}, "name: x\n", {})
    assert (tmp_path / "files" / "a..b" / "..c").read_bytes() == b"x"


def test_without_secrets_there_is_no_file_for_them(tmp_path):
    fill(tmp_path, {}, "name: x\n", {})
    assert not (tmp_path / "secrets.env").exists()
    assert kept_secrets(tmp_path) == {}


one_line = st.text(alphabet=st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), min_size=1)


@given(st.dictionaries(st.sampled_from(["A", "B", "VLLM_API_KEY"]), one_line))
def test_secrets_are_read_back_as_they_were_written(tmp_path_factory, secrets):
    folder = tmp_path_factory.mktemp("release")
    fill(folder, {}, "", secrets)
    assert kept_secrets(folder) == secrets


def test_a_scratch_folder_is_gone_whatever_happens(tmp_path):
    with pytest.raises(ValueError, match="x"), scratch(tmp_path / "state") as folder:
        (folder / "secrets.env").write_text("K=v")
        raise ValueError("x")
    assert list((tmp_path / "state").iterdir()) == []


def test_a_scratch_folder_that_cannot_be_filled_is_a_machine_error_with_its_place(tmp_path):
    with pytest.raises(MachineError, match="cannot be filled: No space") as full, scratch(tmp_path / "state"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert str(tmp_path / "state") in full.value.what
    assert list((tmp_path / "state").iterdir()) == []


def test_a_scratch_folder_that_cannot_be_made_is_a_machine_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError), scratch(tmp_path / "file"):
        pass


# -- where secrets come from ------------------------------------------------------------------------------------------


def site(**secrets):
    return Site.model_validate({"secrets": secrets})


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_secret_is_a_files_one_line_without_its_end(tmp_path, end):
    (tmp_path / "key").write_bytes(b"s3cret $x #y" + end.encode())
    assert read_secrets(site(K={"file": "key"}), tmp_path) == {"K": "s3cret $x #y"}


@pytest.mark.parametrize("content", [b"", b"\n", b"a\nb", b"a\n\n", b"a\rb", b"a\0b", b"\xff"])
def test_a_secret_that_cannot_stand_on_one_line_is_refused_and_not_shown(tmp_path, content):
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(UsageError, match="secret K"):
        read_secrets(site(K={"file": "key"}), tmp_path)


def test_a_secret_that_is_not_there_is_told_with_its_place(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="No such file"):
        read_secrets(site(K={"file": "key"}), tmp_path)
    with pytest.raises(UsageError, match=r"\$MY_KEY"):
        read_secrets(site(K={"env": "MY_KEY"}), tmp_path)
    monkeypatch.setenv("MY_KEY", "a\nb")
    with pytest.raises(UsageError, match="more than one line"):
        read_secrets(site(K={"env": "MY_KEY"}), tmp_path)
    monkeypatch.setenv("MY_KEY", "value")
    assert read_secrets(site(K={"env": "MY_KEY"}), tmp_path) == {"K": "value"}


# -- what the release carries from the site ---------------------------------------------------------------------------


def tree(source):
    return Order(kind="tree", to="files/mounts/00-t", target="/t", name="mounts", source=str(source))


def of_tree(source):
    return contents(only(tree(source)), {}, {}, lambda _: None)


def test_a_carried_file_is_copied_byte_for_byte(tmp_path):
    (tmp_path / "t").write_bytes(b"\xff\r\n{{ x }}")
    assert of_tree(tmp_path / "t") == {"files/mounts/00-t": b"\xff\r\n{{ x }}"}


def test_a_carried_folder_is_copied_whole_without_its_history_and_caches(tmp_path):
    for name in ("a.py", "deep/b.txt", ".hidden", ".git/config", "deep/__pycache__/a.pyc", "x.git/kept"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    found = of_tree(tmp_path)
    assert found == {f"files/mounts/00-t/{name}": name.encode() for name in (".hidden", "a.py", "deep/b.txt",
                                                                             "x.git/kept")}  # fmt: skip


def test_a_site_that_is_itself_below_such_a_folder_carries_its_files(tmp_path):
    inside = tmp_path / ".git" / "checkout" / "chat"
    inside.mkdir(parents=True)
    (inside / "a").write_text("a")
    assert of_tree(inside) == {"files/mounts/00-t/a": b"a"}


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_too_large_to_be_copied_is_refused_with_a_way_out(tmp_path, kind):
    source = tmp_path / "t" if kind == "file" else tmp_path
    with (tmp_path / "t").open("wb") as file:
        file.truncate(MOST_CARRIED + 1)
    with pytest.raises(Refused, match="at most") as refused:
        of_tree(source)
    assert f"absolute path to mount it as it is: {source}" in refused.value.hint


@pytest.mark.parametrize(("order", "patches"), [(copied, SCRIPTS), (overlaid, OVERLAY)], ids=["script", "overlay"])
def test_a_file_of_a_patch_that_is_too_large_is_refused_and_not_read_whole(tmp_path, order, patches):
    with (tmp_path / "s.py").open("wb") as file:
        file.truncate(MOST_CARRIED + 1)
    with pytest.raises(Refused, match=r"cannot be read: more than the 67,108,864 bytes") as refused:
        content(order(tmp_path / "s.py"), patches, lambda _: BASE)
    assert refused.value.hint in ("github.com/somebody/scripts", f"ls -l {tmp_path / 's.py'}")
    assert set(prints(order(tmp_path / "s.py")).values()) == {"absent"}


def test_a_file_with_a_name_that_is_no_text_is_carried_as_it_is_called(tmp_path):
    source, release = tmp_path / "t", tmp_path / "release"
    source.mkdir()
    (source / os.fsdecode(b"\xff.py")).write_bytes(b"x")
    assert set(prints(tree(source))) == {"files/mounts/00-t"}
    fill(release, of_tree(source), "", {})
    assert [os.fsencode(each.name) for each in (release / "files" / "mounts" / "00-t").iterdir()] == [b"\xff.py"]


def test_what_is_empty_or_not_there_is_refused(tmp_path):
    with pytest.raises(Refused, match="is empty"):
        of_tree(tmp_path)
    with pytest.raises(Refused, match="nothing does not exist"):
        of_tree(tmp_path / "nothing")


# -- fingerprints -----------------------------------------------------------------------------------------------------

SECRET = {"VLLM_API_KEY": "s3cret-of-the-site"}


def prints(order, secrets=None, salt="salt"):
    return fingerprints(only(order), secrets or {}, salt)


def test_a_carried_file_that_changes_or_moves_is_another_fingerprint(tmp_path):
    (tmp_path / "a").write_text("one")
    before = prints(tree(tmp_path))
    assert prints(tree(tmp_path)) == before
    (tmp_path / "a").write_text("two")
    changed = prints(tree(tmp_path))
    (tmp_path / "a").rename(tmp_path / "b")
    moved = prints(tree(tmp_path))
    assert len({found["files/mounts/00-t"] for found in (before, changed, moved)}) == 3


def test_content_that_only_moves_from_one_file_to_the_next_is_another_fingerprint(tmp_path):
    (tmp_path / "a").write_text("xy")
    (tmp_path / "b").write_text("z")
    before = prints(tree(tmp_path))
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").write_text("yz")
    assert prints(tree(tmp_path)) != before


@pytest.mark.parametrize("order", [tree, draft, copied])
def test_what_appears_or_changes_on_the_host_is_another_fingerprint(tmp_path, order):
    path = tmp_path / "file"
    absent = prints(order(path))
    assert set(absent.values()) == {"absent"}
    path.write_text('{"max_position_embeddings": 2048}')
    one = prints(order(path))
    path.write_text('{"max_position_embeddings": 4096}')
    assert len({*absent.values(), *one.values(), *prints(order(path)).values()}) == 3


def test_a_patched_file_has_no_fingerprint_for_its_patch_and_image_are_named():
    assert fingerprints(DEPLOYMENT, {}, "salt") == {}


def test_a_changed_deployment_is_what_another_fingerprint_makes():
    one, two = (DEPLOYMENT.model_copy(update={"contents": {"secrets.env": text}}) for text in ("1", "2"))
    assert one.digest != two.digest


value = one_line.filter(lambda text: len(text) > 3)


@given(value, value, st.text(min_size=1), st.text(min_size=1))
def test_a_secret_is_told_apart_by_a_salted_hash_and_never_shown(secret, other, salt, pepper):
    nothing = DEPLOYMENT.model_copy(update={"files": ()})

    def hashed(word, salted):
        return fingerprints(nothing, {"K": word}, salted)["secrets.env"]

    assert len(hashed(secret, salt)) == 16
    assert secret not in hashed(secret, salt) or set(secret) <= set("0123456789abcdef")
    assert (hashed(secret, salt) == hashed(other, salt)) is (secret == other)
    assert hashed(secret, salt) == hashed(secret, salt)


def test_two_sites_with_one_secret_have_two_fingerprints():
    nothing = DEPLOYMENT.model_copy(update={"files": ()})
    assert fingerprints(nothing, SECRET, "a" * 64) != fingerprints(nothing, SECRET, "b" * 64)
    assert fingerprints(nothing, {}, "a" * 64) == {}


def test_the_name_of_a_secret_counts_as_its_value_does():
    nothing = DEPLOYMENT.model_copy(update={"files": ()})
    assert fingerprints(nothing, {"A": "x"}, "s") != fingerprints(nothing, {"B": "x"}, "s")


@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path, kind):
    path = tmp_path / "here"
    NO_FILES[kind](path)
    with pytest.raises(UsageError, match=f"it is {kind}, not a file"):
        read_secrets(site(K={"file": "here"}), tmp_path)
    script = Order(kind="copy", to="files/s.sh", target="/s.sh", name="one", source=str(path))
    with pytest.raises(Refused, match=f"it is {kind}, not a file"):
        content(script, {"one": a_patch()})
    assert fingerprints(only(script), {}, "") == {"files/s.sh": "absent"}


@pytest.mark.parametrize(("length", "fits"), [(MOST_SECRET, True), (MOST_SECRET + 1, False), (2_000_000, False)])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_secret_that_no_request_could_carry_is_refused_and_not_shown(tmp_path, length, fits, end):
    (tmp_path / "key").write_text("k" * length + end)
    asked = site(K={"file": "key"})
    if fits:
        assert read_secrets(asked, tmp_path) == {"K": "k" * length}
        return
    with pytest.raises(UsageError, match="secret K has more than 16,384 bytes") as refused:
        read_secrets(asked, tmp_path)
    assert "kkk" not in refused.value.what


@pytest.mark.parametrize("key", ["kéy", " key", "key\t", "a\x7fb"])
def test_an_api_key_that_no_header_can_carry_is_refused_and_not_shown(tmp_path, key):
    (tmp_path / "key").write_text(key)
    with pytest.raises(UsageError, match="HTTP header") as refused:
        read_secrets(site(VLLM_API_KEY={"file": "key"}), tmp_path)
    assert key not in refused.value.what
    assert read_secrets(site(OTHER={"file": "key"}), tmp_path) == {"OTHER": key}
