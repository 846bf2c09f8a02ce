"""What a release brings into the container: patched files, a draft's config, secrets; and who runs beside it."""

import hashlib
import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from livesite import LiveSite, until

from b70ctl.core.patch import edited
from b70ctl.edge.catalog import open_catalog
from tests.rig.image_files import MARLIN, MARLIN_UTILS, SITE

PATCH = "marlin-moe-xpu"
ANCHOR = "    if current_platform.is_rocm():\n        return False\n"
CHANGED = "    if current_platform.is_rocm() or current_platform.is_xpu():\n        return False\n"


def write_patch(site: LiveSite, **more: object) -> None:
    """A patch of the site's own, which wins over the shipped one of the same name."""
    folder = site.root / "patches" / PATCH
    folder.mkdir(parents=True, exist_ok=True)
    patch = {
        "summary": "keep experts off Marlin",
        "why": "XPU builds lack its repack op",
        "versions": ">=0.19,<0.23",
        "bases": {"0" * 64: "a file that no image has"},
        "edits": [{"file": MARLIN, "old": ANCHOR, "new": CHANGED}],
        "source": "tests",
        **more,
    }
    (folder / "patch.yaml").write_text(yaml.safe_dump(patch))


def in_container(site: LiveSite, *argv: str) -> str:
    """What a command prints inside the engine's container."""
    code, out = site.engine().exec_run(list(argv))
    assert code == 0, out
    return str(out.decode())


def test_a_patch_is_refused_for_an_unknown_base_and_serves_once_its_owner_accepted_it(site: LiveSite) -> None:
    site.model("qwen-w4a16")
    site.quick("plain")
    crash = {"STANDIN_MARLIN": "crash"}
    model = {"path": "qwen-w4a16", "served_names": ["patched"]}
    site.quick("unpatched", intel=True, model=model, env=crash)
    site.quick("patched", intel=True, model=model, env=crash, patches=[PATCH])
    copy = site.root / "shadow" / MARLIN
    for package in list(copy.relative_to(site.root / "shadow").parents)[:-1]:
        (site.root / "shadow" / package).mkdir(parents=True, exist_ok=True)
        (site.root / "shadow" / package / "__init__.py").write_text("")
    copy.write_text("# an older checkout\n")
    site.quick("shadowed", intel=True, patches=[PATCH], env={"PYTHONPATH": "/opt/shadow"},
               mounts=[{"source": "shadow", "target": "/opt/shadow"}])  # fmt: skip
    site.switch("plain")
    started = site.engine().attrs["State"]["StartedAt"]
    ran = site.switch("patched", code=1)
    hint = re.search(rf"b70ctl (patches accept {PATCH}:[0-9a-f]{{64}})", ran.err)
    assert hint, ran.err
    assert site.engine().attrs["State"]["StartedAt"] == started
    assert "its anchor at line" in site.run(*hint[1].split()).exits(0).err
    assert "gptq_marlin_repack" in site.switch("unpatched", code=5).err
    assert f"imports /opt/shadow/{MARLIN}, and not /{SITE}/{MARLIN}" in site.switch("shadowed", code=5).err
    site.switch("patched")
    release = site.assert_serves("patched")
    proven = site.verdict(release)["findings"][0]
    assert (proven["probe"], proven["passed"]) == ("files", True)
    assert proven["detail"] in site.run("status").exits(0).out.replace("\n", " ")
    wanted, _ = edited(PATCH, open_catalog(None).patch(PATCH), MARLIN, MARLIN_UTILS)
    assert wanted != MARLIN_UTILS
    assert in_container(site, "cat", f"/{SITE}/{MARLIN}") == wanted
    assert (site.folder(release) / "files" / PATCH / MARLIN).read_text() == wanted
    mount = next(each for each in site.engine().attrs["Mounts"] if each["Destination"].endswith("marlin_utils.py"))
    assert mount["Source"].startswith(str(site.folder(release)))
    assert mount["RW"] is False
    assert list(site.releases()[release]["deployment"]["patches"]) == [PATCH]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"edits": [{"file": MARLIN, "old": "    return nothing_of_the_kind\n", "new": "x"}]}, "0 times"),
        ({"edits": [{"file": MARLIN, "old": "return", "new": "x"}]}, "2 times, at lines 11 and 13, not once"),
        ({"edits": [{"file": "vllm/absent.py", "old": "a", "new": "b"}]}, "does not have"),
        ({"edits": [], "overlays": [{"file": MARLIN, "source": "mine.py", "base": "1" * 64}]}, "made from another"),
        ({"versions": ">=0.22"}, "0.21.1"),
        ({"versions": "<0.2", "harmful": [{"versions": ">=0.2", "reason": "it eats weights"}]}, "it eats weights"),
    ],
)
def test_a_patch_that_does_not_apply_exactly_stops_nothing(
    kept_site: LiveSite, more: dict[str, object], told: str
) -> None:
    site = kept_site
    write_patch(site, **more)
    site.quick("plain")
    site.quick("patched", intel=True, patches=[PATCH])
    site.switch("plain")
    started = site.engine().attrs["State"]["StartedAt"]
    assert told in site.switch("patched", code=1).err
    assert site.engine().attrs["State"]["StartedAt"] == started
    site.assert_serves("plain")


def test_a_checkout_that_changes_later_does_not_change_a_release(site: LiveSite) -> None:
    site.model("qwen-w4a16")
    write_patch(site, bases={hashlib.sha256(MARLIN_UTILS.encode()).hexdigest(): "the stand-in's"})
    site.quick("patched", intel=True, patches=[PATCH])
    site.quick("b")
    site.switch("patched")
    before = in_container(site, "cat", f"/{SITE}/{MARLIN}")
    site.switch("b")
    (site.root / "patches" / PATCH / "patch.yaml").unlink()
    site.run("rollback", "--yes").exits(0)
    site.assert_serves("patched")
    assert in_container(site, "cat", f"/{SITE}/{MARLIN}") == before


MARKS = f"""
import pathlib, vllm
file = pathlib.Path(vllm.__file__).parent.parent / "{MARLIN}"
file.write_text(file.read_text() + "# MARKED\\n")
"""


def write_script(site: LiveSite, name: str, text: str) -> None:
    """A patch of the site's own whose script is to leave a marker."""
    folder = site.root / "patches" / name
    folder.mkdir(parents=True)
    (folder / "s.py").write_text(text)
    script = {
        "file": "s.py",
        "where": "tests",
        "touches": [MARLIN],
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    patch = {"summary": "mark", "why": "tests", "versions": ">=0.19", "scripts": [script], "source": "tests",
             "markers": [{"file": MARLIN, "text": "# MARKED"}]}  # fmt: skip
    (folder / "patch.yaml").write_text(yaml.safe_dump(patch))


def test_a_start_script_must_leave_its_marker_in_the_file_that_is_imported(site: LiveSite) -> None:
    site.quick("plain")
    for name, text in {
        "marking": MARKS,
        "forgetful": "print('already patched')\n",
        "failing": "raise SystemExit(3)\n",
    }.items():
        write_script(site, name, text)
        site.quick(name, intel=True, patches=[name])
    site.switch("plain")
    assert f"`# MARKED` of patch `forgetful` does not stand in /{SITE}/{MARLIN}" in site.switch("forgetful", code=5).err
    failed = site.switch("failing", code=5).err
    assert "exit 3" in failed
    assert "[start-script-failed]" in failed
    site.switch("marking")
    assert site.verdict(site.assert_serves("marking"))["findings"][0]["passed"] is True


ONCE = f"""
import pathlib, vllm
file = pathlib.Path(vllm.__file__).parent.parent / "{MARLIN}"
if "# MARKED" in file.read_text():
    raise SystemExit("anchor not found")
file.write_text(file.read_text() + "# MARKED\\n")
if pathlib.Path("/trigger/faults").read_text() == "cut":
    raise SystemExit("cut off behind the edit")
"""


def test_an_engine_whose_script_refuses_a_second_run_starts_again_and_is_gone_back_to(site: LiveSite) -> None:
    write_script(site, "once", ONCE)
    site.triggered("scripted", intel=True, patches=["once"])
    site.quick("bad", env={"STANDIN_FAULT": "garbage"})
    site.fault("")
    site.switch("scripted")
    container = site.engine().id
    site.run("stop", "--yes").exits(0)
    site.run("start").exits(0)
    site.run("restart", "--yes").exits(0)
    site.switch("bad", code=5)
    serving = site.assert_serves("scripted")
    site.engine().restart()
    until(lambda: site.get("/health")[0] == 200, "the engine serves again")
    assert site.assert_serves("scripted") == serving
    assert site.engine().id == container


def test_an_engine_whose_script_was_cut_off_is_started_in_a_fresh_container(site: LiveSite) -> None:
    write_script(site, "once", ONCE)
    site.triggered("scripted", intel=True, patches=["once"])
    site.fault("")
    site.switch("scripted")
    site.run("stop", "--yes").exits(0)
    spoilt = site.engine()
    spoilt.remove()
    site.fault("cut")
    assert "exit 1" in site.run("start").exits(1).err
    cut = site.engine()
    site.fault("")
    site.run("start").exits(0)
    site.assert_serves("scripted")
    assert site.engine().id not in (spoilt.id, cut.id)


COMMIT = "0123456789abcdef0123456789abcdef01234567"
SNAPSHOT = f"hub/models--owner--head/snapshots/{COMMIT}"


def lay_out(root: Path, kind: str, text: str) -> tuple[Path, dict[str, Any], str]:
    """A draft as people have one: where its config's text lies, how a profile names it, where the engine looks."""
    if kind == "directory":
        file = root / "models" / "draft" / "config.json"
        file.parent.mkdir(parents=True)
        file.write_text(text)
        return file, {"path": "draft"}, "/models/draft/config.json"
    if kind == "linked directory":
        file = root / "models" / "blobs" / "abc"
        link, target = root / "models" / "draft" / "config.json", "../blobs/abc"
    else:
        file = root / "disk" / SNAPSHOT / "../../blobs/abc"
        link, target = root / "disk" / SNAPSHOT / "config.json", "../../blobs/abc"
    link.parent.mkdir(parents=True)
    file.parent.resolve().mkdir(parents=True)
    file.write_text(text)
    link.symlink_to(target)
    if kind == "linked directory":
        return file, {"path": "draft"}, "/models/draft/config.json"
    # the cache is on another disk, and itself a link
    refs = link.parent.parent.parent / "refs"
    refs.mkdir()
    (refs / "main").write_text(COMMIT)
    (root / "hf").symlink_to("disk")
    return file, {"hub": "owner/head"}, f"/root/.cache/huggingface/{SNAPSHOT}/config.json"


@pytest.mark.parametrize("kind", ["directory", "linked directory", "hub cache"])
def test_a_draft_is_overridden_in_the_container_and_never_on_the_disk(site: LiveSite, kind: str) -> None:
    text = json.dumps({"architectures": ["Eagle3"], "max_position_embeddings": 2048, "name": "Entwürfe"})
    file, named, seen_at = lay_out(site.root, kind, text)
    site.write_site(hf_cache="hf")
    before = {path: value for path, value in site.tree().items() if path.startswith(("models", "disk", "hf"))}
    spec = {"method": "eagle3", "num_speculative_tokens": 3,
            "draft": {**named, "overrides": {"max_position_embeddings": 40960}}}  # fmt: skip
    site.profile("a", intel=True, speculative=spec)
    site.switch("a")
    site.assert_serves("a")
    assert re.search(r"of its drafts \d\.\d\d of 3 tokens were accepted", site.run("status").exits(0).out)
    seen = json.loads(in_container(site, "cat", seen_at))
    assert seen == json.loads(text) | {"max_position_embeddings": 40960}
    assert file.read_text() == text
    assert before == {path: value for path, value in site.tree().items() if path.startswith(("models", "disk", "hf"))}
    said = site.engine().attrs["Config"]["Cmd"]
    assert (COMMIT in said[said.index("--speculative-config") + 1]) == (kind == "hub cache")


def test_a_draft_without_the_key_to_override_stops_nothing(site: LiveSite) -> None:
    draft = site.root / "models" / "draft"
    draft.mkdir(parents=True)
    (draft / "config.json").write_text('{"max_position_embeddings": 2048}')
    site.quick("b")
    site.switch("b")
    spec = {"method": "eagle3", "num_speculative_tokens": 3, "draft": {"path": "draft", "overrides": {"max_len": 1}}}
    site.quick("a", intel=True, speculative=spec)
    assert "has no `max_len`" in site.switch("a", code=1).err
    site.assert_serves("b")


SECRET = "sk-Zq7$w0rd'\"#{x} end"


def test_a_key_guards_the_engine_and_stands_nowhere_that_others_read(site: LiveSite) -> None:
    secrets = site.root / "secrets"
    secrets.mkdir()
    (secrets / "key").write_text(SECRET + "\n")
    (secrets / "key").chmod(0o600)
    site.write_site(secrets={"VLLM_API_KEY": {"file": "secrets/key"}})
    site.profile("a", intel=True)
    site.quick("bad", env={"STANDIN_FAULT": "http-500"})
    seen: set[str] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    line = path.read_bytes()
                except OSError:
                    continue
                if SECRET.encode() in line:
                    seen.add(line.decode(errors="replace"))
            done.wait(0.02)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        ran = [site.switch("a"), site.switch("bad", code=5), site.run("status"), site.run("history", "--json"),
               site.run("logs"), site.run("plan", "bad"), site.run("restart", "--yes", "--json")]  # fmt: skip
    finally:
        done.set()
        thread.join()
    assert seen == set()
    for each in ran:
        assert SECRET not in each.out + each.err
    assert site.get("/v1/models")[0] == 401
    assert site.get("/v1/models", key="another")[0] == 401
    status, said = site.ask("a", "What is the capital of France?", key=SECRET)
    assert (status, said) == (200, "Paris")
    about = site.engine().attrs
    assert SECRET not in json.dumps([about["Args"], about["Path"], about["Config"]["Cmd"], about["Config"]["Labels"]])
    assert f"VLLM_API_KEY={SECRET}" in about["Config"]["Env"]
    holders = [path for path in site.root.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert {path.name for path in holders} == {"key", "secrets.env"}
    assert {path.stat().st_mode & 0o777 for path in holders} == {0o600}


def test_a_secret_under_another_name_in_what_is_mounted_stops_nothing(site: LiveSite) -> None:
    (site.root / "key").write_text(SECRET + "\n")
    (site.root / "notes").mkdir()
    (site.root / "notes" / "readme").hardlink_to(site.root / "key")
    site.write_site(secrets={"VLLM_API_KEY": {"file": "key"}})
    site.quick("plain")
    site.quick("showing", mounts=[{"source": "notes", "target": "/notes"}])
    site.switch("plain")
    started = site.engine().attrs["State"]["StartedAt"]
    for argv in (("plan", "showing"), ("switch", "showing", "--yes")):
        assert "shows secrets.VLLM_API_KEY by another name" in site.run(*argv).exits(1).err
    assert site.engine().attrs["State"]["StartedAt"] == started
    assert [path.name for path in site.root.rglob("*") if path.is_file() and SECRET in path.read_text()
            and path.stat().st_mode & 0o044 and path.name not in ("key", "readme")] == []  # fmt: skip


@pytest.mark.parametrize("value", ["two\nlines", "", "nul\0"])
def test_a_secret_that_cannot_be_carried_stops_nothing(site: LiveSite, value: str) -> None:
    site.quick("a")
    (site.root / "key").write_text(value)
    site.write_site(secrets={"VLLM_API_KEY": {"file": "key"}})
    assert "VLLM_API_KEY" in site.switch("a", code=2).err
    site.assert_nothing_serves()


LISTENER = """
import os, pathlib, time, urllib.request
while True:
    try:
        status = urllib.request.urlopen('http://engine:8000/health', timeout=3).status
        pathlib.Path('/shared/seen').write_text(f"{status} {os.environ['WORD']}")
    except OSError as error:
        pathlib.Path('/shared/seen').write_text(str(error))
    time.sleep(0.1)
"""


def companion(site: LiveSite) -> Path:
    """A Compose file as people write one: paths relative to itself, and its own .env."""
    folder = site.root / "web"
    (folder / "shared").mkdir(parents=True)
    (folder / "listen.py").write_text(LISTENER)
    (folder / ".env").write_text("WORD=from-its-own-env\nIMAGE=b70ctl-standin/openai-xpu:0.30.0\n")
    (folder / "compose.yaml").write_text(
        "services:\n  web:\n    image: ${IMAGE}\n    init: true\n    entrypoint: [python3, /listen.py]\n"
        "    environment:\n      WORD: ${WORD}\n    volumes: ['./shared:/shared', './listen.py:/listen.py:ro']\n"
    )
    site.write_site(companions=["web/compose.yaml"])
    return folder / "shared" / "seen"


def web(site: LiveSite) -> list[object]:
    """The companion's containers: id and time of start."""
    filters = {"label": f"com.docker.compose.project={site.name}-companions"}
    return [(each.id, each.attrs["State"]["StartedAt"])
            for each in site.client.containers.list(all=True, filters=filters)]  # fmt: skip


def test_companions_start_once_the_engine_is_proven_and_are_left_alone_afterwards(site: LiveSite) -> None:
    seen = companion(site)
    text = (site.root / "web" / "compose.yaml").read_text()
    site.quick("bad", env={"STANDIN_FAULT": "garbage"})
    site.quick("a")
    site.quick("b", intel=True)
    site.switch("bad", code=1)
    assert web(site) == []
    site.switch("a")
    until(lambda: seen.exists() and seen.read_text() == "200 from-its-own-env", "the companion reaches the engine")
    first = web(site)
    assert len(first) == 1
    site.switch("b")
    site.switch("bad", code=5)
    site.run("restart", "--yes").exits(0)
    site.run("rollback", "--yes").exits(0)
    assert web(site) == first
    seen.unlink()
    until(lambda: seen.exists() and seen.read_text() == "200 from-its-own-env", "the new engine has the old one's name")
    assert (site.root / "web" / "compose.yaml").read_text() == text
    site.run("stop", "--yes").exits(0)
    assert web(site) == first


def test_companions_that_cannot_start_do_not_take_the_engine_away(site: LiveSite) -> None:
    companion(site)
    (site.root / "web" / ".env").write_text("WORD=x\nIMAGE=b70ctl-standin/absent:1\n")
    site.quick("a")
    ran = site.run("switch", "a", "--yes")
    assert ran.code == 1, str(ran)
    assert "companions" in ran.err
    site.assert_serves("a")
    assert "companions" in site.history()[-1]["note"]


@pytest.mark.parametrize(
    "text", ["services:\n  engine: {image: x}\n", "services:\n  web: {image: x, container_name: engine}\n"]
)
def test_a_companion_that_takes_the_engines_name_is_refused_before_anything_starts(site: LiveSite, text: str) -> None:
    companion(site)
    site.quick("a")
    site.switch("a")
    serving, started = site.serving(), site.engine().attrs["State"]["StartedAt"]
    (site.root / "web" / "compose.yaml").write_text(text)
    site.quick("b")
    ran = site.run("switch", "b", "--yes").exits(2)
    assert "answers to `engine` on the network" in ran.err
    assert "web/compose.yaml" in ran.err
    assert (site.serving(), site.engine().attrs["State"]["StartedAt"]) == (serving, started)
    site.assert_serves("a")


def test_a_companion_that_ends_at_once_is_a_warning_with_its_exit_and_the_command_for_its_log(site: LiveSite) -> None:
    companion(site)
    (site.root / "web" / "listen.py").write_text("raise SystemExit(7)\n")
    site.quick("a")
    ran = site.run("switch", "a", "--yes").exits(1)
    name = f"{site.name}-companions-web-1"
    assert f"companion {name} ended at once with exit 7; docker logs {name}" in ran.err
    assert "warning: " in ran.err
    site.assert_serves("a")
    assert "exit 7" in site.history()[-1]["note"]


def test_a_companion_file_that_does_not_exist_is_named_before_anything_starts(site: LiveSite) -> None:
    site.write_site(companions=["nowhere/compose.yaml"])
    site.quick("a")
    ran = site.run("switch", "a", "--yes")
    assert ran.code in (1, 2), str(ran)
    assert "nowhere/compose.yaml" in ran.err
    site.assert_nothing_serves()
