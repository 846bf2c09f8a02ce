"""patches: what one is to an image is asked of the image, and only what fits it can be accepted."""

import hashlib
import json

import jsonschema
import pytest

from b70ctl.cli.here import Here
from b70ctl.core.patchset import TAKEN
from b70ctl.edge import yamlfile
from b70ctl.edge.catalog import open_catalog
from b70ctl.edge.sitelock import FILE as LOCK
from b70ctl.edge.sitelock import read_lock
from tests.making import SITE_PACKAGES

NAME = "marlin-moe-xpu"
PATCH = open_catalog(None).patch(NAME)
FILE = PATCH.edits[0].file
TEXT = f"import this\n{PATCH.edits[0].old}"
DIGEST = hashlib.sha256(TEXT.encode()).hexdigest()
BUILD = "0.21.1.dev17+g0a4756bb5"


class AnImage:
    """A daemon with one image; what its python finds is what the test says."""

    def __init__(self, **more):
        self.text = more.pop("text", TEXT)
        self.digit = more.pop("digit", "1")
        self.facts = {"vllm": BUILD, "kernels": "0.1.7", "site_packages": SITE_PACKAGES} | more

    def image(self, ref):
        return {"Id": "sha256:" + self.digit * 64, "RepoDigests": [], "Config": {}} if ref != "gone:1" else None

    def run_once(self, image, argv, seconds):
        assert argv[-1].endswith(".py")
        found = dict.fromkeys(argv[4:], "absent") | {FILE: hashlib.sha256(self.text.encode()).hexdigest()}
        return json.dumps(self.facts | {"files": found})

    def read_file(self, image, path):
        return self.text.encode() if path == f"{SITE_PACKAGES}/{FILE}" else None


@pytest.fixture
def with_image(monkeypatch):
    def use(**more):
        monkeypatch.setattr(Here, "daemon", AnImage(**more))

    return use


def answers(said):
    return {name: found["answer"] for name, found in said.data["patches"].items()}


@pytest.mark.parametrize(
    ("vllm", "marlin", "gptq", "boundary"),
    [
        ("0.21.0", "applies", "applies", "applies"),
        ("0.22.1", "applies", "needless", "applies"),
        ("0.30.0", "harmful", "needless", "applies"),
        ("0.34.0", "harmful", "needless", "harmful"),
        ("0.18.0", "unknown", "unknown", "harmful"),
        (BUILD, "unknown", "unknown", "applies"),
    ],
)
def test_a_version_is_told_of_every_patch_without_a_daemon(b70ctl, vllm, marlin, gptq, boundary):
    said = b70ctl("patches", "check", "--vllm", vllm, "--json")
    found = answers(said)
    assert (found[NAME], found["gptq-xpu"], found["mtp-boundary"]) == (marlin, gptq, boundary)
    assert all(each["reason"] for each in said.data["patches"].values())


@pytest.mark.parametrize("words", [(), ("--vllm", "0.21.0", "--image", "a/b:1"), ("--vllm", "newest")])
def test_what_is_to_be_checked_is_one_version_or_one_image(b70ctl, words):
    said = b70ctl("patches", "check", *words).exits(2)
    assert said.error


def test_a_development_build_is_told_its_anchor_and_the_command_that_accepts_it(b70ctl, site, with_image):
    with_image()
    said = b70ctl("--site", site, "patches", "check", "--image", "a/b:1", "--json").data
    assert (said["image"], said["vllm"]) == ("a/b:1", BUILD)
    found = said["patches"][NAME]
    assert found["answer"] == "unknown"
    assert f"once, at line 2: b70ctl patches accept {NAME}:{DIGEST}" in found["reason"]
    assert said["patches"]["gptq-xpu"]["reason"].startswith("the image has no ")


def test_a_base_is_accepted_once_from_the_image_that_has_it_and_then_applies(b70ctl, site, with_image):
    with_image()
    assert b70ctl("--site", site, "patches", "check", "--image", "a/b:1").code == 0
    for _ in range(2):
        said = b70ctl("--site", site, "patches", "accept", f"{NAME}:{DIGEST}").exits(0)
        assert f"a/b:1 has it (vLLM {BUILD}; its anchor at line 2)" in said.err.replace("\n", " ")
    assert read_lock(site).patches == {NAME: [DIGEST]}
    assert answers(b70ctl("--site", site, "patches", "check", "--image", "a/b:1", "--json"))[NAME] == "applies"


def test_a_base_is_accepted_for_the_image_that_the_patch_is_for_though_another_has_the_same_file(
    b70ctl, site, with_image
):
    for digit, vllm in (("0", "0.30.0"), ("1", BUILD)):
        with_image(digit=digit, vllm=vllm)
        assert b70ctl("--site", site, "patches", "check", "--image", "a/b:1").code == 0
    assert len(list((site / ".b70ctl" / "images").glob("*.json"))) == 2
    b70ctl("--site", site, "patches", "accept", f"{NAME}:{DIGEST}").exits(0)


def test_a_patch_whose_script_is_not_here_says_where_to_get_it(b70ctl, site):
    def reason():
        said = b70ctl("--site", site, "patches", "check", "--vllm", "0.21.0", "--json").data
        assert said["patches"]["mtp-boundary"]["answer"] == "applies"
        return said["patches"]["mtp-boundary"]["reason"]

    [script] = open_catalog(None).patch("mtp-boundary").scripts
    assert f"{script.file} is not here: get it from {script.where}" in reason()


def checked(b70ctl, site, name, *words):
    """What a patch is to an image or a version, and why."""
    said = b70ctl("--site", site, "patches", "check", *(words or ("--vllm", "0.21.0")), "--json").exits(0).data
    return said["patches"][name]["answer"], said["patches"][name]["reason"]


def test_a_patch_whose_script_is_here_and_another_is_broken(b70ctl, site):
    digest = hashlib.sha256(b"pass\n").hexdigest()
    patched(site, named=f"scripts: [{{file: s.py, where: there, sha256: {digest}}}]\n")
    script = site / "patches" / "named" / "s.py"
    script.write_text("pass\n")
    assert checked(b70ctl, site, "named")[0] == "applies"
    script.write_text("exit\n")
    answer, reason = checked(b70ctl, site, "named")
    assert (answer, "s.py is not the file that patch `named` names: sha256 " in reason) == ("broken", True)
    assert reason.endswith(f", not {digest[:12]}… (there)")


def in_the_place_of(path, kind):
    """Something at a path that is no file of the kind that a patch names."""
    if kind == "directory":
        path.mkdir()
    elif kind == "windows":
        path.write_bytes(b"pass\r\n")
    else:
        path.symlink_to(path if kind == "loop" else path.with_name("nowhere"))


@pytest.mark.parametrize(("kind", "why"), [
    ("directory", "it is a directory, not a file"), ("loop", "Too many levels of symbolic links"),
    ("link to nowhere", "No such file or directory"), ("windows", "Windows line ends"),
])  # fmt: skip
def test_what_lies_in_a_scripts_place_and_cannot_be_carried_is_broken_for_the_reason_that_lint_gives(
    b70ctl, site, kind, why
):
    patched(site, "x", x=SCRIPT)
    in_the_place_of(site / "patches" / "x" / "s.py", kind)
    answer, reason = checked(b70ctl, site, "x")
    assert (answer, why in reason) == ("broken", True)
    linted = b70ctl("--site", site, "profiles", "lint", "mine", "--json").exits(1).data
    [(severity, message)] = [(each["severity"], each["message"]) for each in linted if each["rule"] == "patch"]
    assert (severity, reason.startswith(message)) == ("error", True)


def test_a_script_that_is_a_secrets_file_by_another_name_is_broken_and_refused_by_lint(b70ctl, site):
    patched(site, "x", x=SCRIPT)
    (site / "key").write_text("s3cret")
    (site / "site.yaml").write_text((site / "site.yaml").read_text() + "secrets: {K: {file: key}}\n")
    (site / "patches" / "x" / "s.py").hardlink_to(site / "key")
    answer, reason = checked(b70ctl, site, "x")
    assert (answer, "s.py is the file of secrets.K by another name" in reason) == ("broken", True)
    for words in (("profiles", "lint", "mine"), ("render", "mine")):
        said = b70ctl("--site", site, *words).exits(1)
        assert "s.py is the file of secrets.K" in said.out + said.err


def test_of_two_scripts_each_is_fetched_from_its_own_place(b70ctl, site):
    patched(site, two="scripts: [{file: s.py, where: HERE-S}, {file: xs.py, where: HERE-XS}]\n")
    reason = checked(b70ctl, site, "two")[1]
    assert "/two/s.py is not here: get it from HERE-S; " in reason
    assert "/two/xs.py is not here: get it from HERE-XS; " in reason


@pytest.mark.parametrize(("kind", "answer", "why"), [
    ("directory", "broken", "it is a directory, not a file"), (None, "applies", "mine.py is not here; the image's"),
])  # fmt: skip
def test_an_overlay_is_looked_at_where_it_lies_as_a_script_is(b70ctl, site, with_image, kind, answer, why):
    with_image()
    patched(site, over=OVERLAY.replace("e" * 64, DIGEST))
    if kind:
        in_the_place_of(site / "patches" / "over" / "mine.py", kind)
    found, reason = checked(b70ctl, site, "over", "--image", "a/b:1")
    assert (found, why in reason) == (answer, True)


def test_an_image_that_is_named_need_not_have_been_asked_before(b70ctl, site, with_image):
    with_image()
    assert b70ctl("--site", site, "patches", "accept", f"{NAME}:{DIGEST}", "--image", "a/b:1").code == 0


@pytest.mark.parametrize(
    ("image", "told"),
    [
        ({"text": TEXT + PATCH.edits[0].old}, "2 times, at lines 2 and 5, not once"),
        ({"text": "nothing of the kind\n"}, "0 times, not once"),
        ({"vllm": "0.24.0"}, "must not be applied to vLLM 0.24.0"),
        ({"vllm": "0.18.0"}, "is for vLLM"),
    ],
)
def test_what_does_not_fit_cannot_be_accepted(b70ctl, site, with_image, image, told):
    with_image(**image)
    digest = hashlib.sha256(image.get("text", TEXT).encode()).hexdigest()
    said = b70ctl("--site", site, "patches", "accept", f"{NAME}:{digest}", "--image", "a/b:1").exits(1)
    assert told in said.error.replace("\n", " ")
    assert not read_lock(site).patches


@pytest.mark.parametrize(
    ("base", "words"),
    [
        (f"{NAME}:{'a' * 64}", ()),
        (f"{NAME}:{'a' * 64}", ("--image", "a/b:1")),
        (f"{NAME}:{DIGEST}", ("--image", "gone:1")),
        (f"mtp-boundary:{'a' * 64}", ("--image", "a/b:1")),
    ],
)
def test_a_base_that_no_image_has_is_not_accepted(b70ctl, site, with_image, base, words):
    with_image()
    said = b70ctl("--site", site, "patches", "accept", base, *words).exits(1)
    assert said.error
    assert not read_lock(site).patches


def test_a_patch_is_shown_with_everything_that_decides_about_it(b70ctl):
    said = b70ctl("patches", "show", "gdn-mixed-split").out
    for word in ("vllm-xpu-kernels >=0.1.14.1", "harmful", "patch_gdn_mixed_split_v5.py", "B70_GDN_MIXED_SPLIT_V5"):
        assert word in said
    assert b70ctl("patches", "show", NAME, "--json").data["harmful"]


EDIT = f"edits: [{{file: {FILE}, old: {PATCH.edits[0].old!r}, new: b}}]\n"
OVERLAY = f"overlays: [{{file: {FILE}, source: mine.py, base: {'e' * 64}}}]\n"
SCRIPT = "scripts: [{file: s.py, where: there}]\n"


def patched(site, *names, **patches):
    """A site with patches of its own, and a profile that names some."""
    for name, text in patches.items():
        (site / "patches" / name).mkdir(parents=True)
        head = "summary: s\nwhy: w\nversions: '>=0.19'\nsource: here\n"
        (site / "patches" / name / "patch.yaml").write_text(head + text)
    path = site / "profiles" / "mine.yaml"
    path.write_text(f"{path.read_text()}patches: [{', '.join(names)}]\n")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('edits: [{file: vllm/a.py, old: "one\\ntwo\\n", new: "one\\n2\\n"}]\n', "in vllm/a.py:\n one\n-two\n+2\n"),
        (OVERLAY, f"mine.py over {FILE}, made from sha256 {'e' * 64}"),
        ("scripts: [{file: s.py, where: there, sha256: " + "d" * 64 + "}]\n", f"s.py, sha256 {'d' * 64}, from there"),
        (SCRIPT, "s.py, sha256 of any, from there"),
    ],
)
def test_a_patch_is_shown_with_what_it_changes_into_what(b70ctl, site, text, told):
    patched(site, x=text)
    assert told in b70ctl("--site", site, "patches", "show", "x").out


def test_a_new_patch_is_one_and_its_schema_lies_where_it_says(b70ctl, site):
    b70ctl("--site", site, "patches", "new", "mine").exits(0)
    file = site / "patches" / "mine" / "patch.yaml"
    schema = json.loads((file.parent / file.read_text().splitlines()[0].split("$schema=")[1]).read_text())
    assert open_catalog(site).patch("mine").edits
    assert list(jsonschema.Draft202012Validator(schema).iter_errors(yamlfile.read(file).data)) == []
    b70ctl("--site", site, "patches", "new", "mine").refused(1, "exists already")
    b70ctl("--site", site, "patches", "new", "../mine").refused(2, "cannot be a patch's name")


@pytest.mark.parametrize(
    ("name", "why"),
    [*((name, "what b70ctl itself puts into a release") for name in sorted(TAKEN)), (NAME, "is shipped")],
)
def test_a_new_patch_takes_no_name_that_means_something(b70ctl, site, name, why):
    said = b70ctl("--site", site, "patches", "new", name).refused(1, why)
    assert f"hint: b70ctl patches new my-{name}" in said.err
    assert not (site / "patches").exists()
    b70ctl("--site", site, "patches", "new", f"my-{name}").exits(0)


def test_a_patch_that_cannot_be_read_hides_no_other(b70ctl, site, with_image):
    with_image()
    patched(site, broken="nothing: [\n")
    said = b70ctl("--site", site, "patches", "list").exits(0).out
    [line] = [line for line in said.splitlines() if line.startswith("broken ")]
    assert "broken/patch.yaml" in line
    assert NAME in said
    assert b70ctl("--site", site, "patches", "list", "--json").data["broken"]["status"] == "broken"
    for words in (("--image", "a/b:1"), ("--vllm", "0.21.0")):
        found = b70ctl("--site", site, "patches", "check", *words, "--json").exits(0).data["patches"]
        assert (found["broken"]["answer"], found["gptq-xpu"]["answer"] != "") == ("broken", True)
        assert "broken/patch.yaml" in found["broken"]["reason"]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("over", "edit"), "both change"),
        (("alone", "over"), "exclude each other: as they are"),
        (("over",), "was made from another"),
        (("edit",), "was not made for this"),
        (("draft",), "has the name of what b70ctl itself"),
        (("script",), "cannot be read"),
        (("named",), "is not the file that patch `named` names: sha256 "),
    ],
)
def test_lint_says_of_patches_what_a_switch_would_refuse_once_the_image_was_asked(
    b70ctl, site, with_image, names, told
):
    with_image(vllm="0.21.0")
    alone = SCRIPT + "excludes: {over: as they are}\n"
    named = f"scripts: [{{file: s.py, where: there, sha256: {'d' * 64}}}]\n"
    patched(site, *names, over=OVERLAY, edit=EDIT, script=SCRIPT, alone=alone, draft=SCRIPT, named=named)
    (site / "patches" / "named" / "s.py").write_text("")
    b70ctl("--site", site, "images", "probe", "a/b:1").exits(0)
    said = b70ctl("--site", site, "profiles", "lint", "mine", "--json").exits(1)
    assert [each["severity"] for each in said.data if each["rule"] == "patch" and told in each["message"]] == ["error"]


def test_a_script_that_is_still_to_be_fetched_is_no_error_of_a_shipped_profile_that_nobody_named(b70ctl, site):
    def severities(*words):
        said = b70ctl("--site", site, "profiles", "lint", *words, "--json")
        found = [each for each in said.data if each["rule"] == "patch" and each["profile"] == "qwen3.6-35b-mtp"]
        return {each["severity"] for each in found if "patch_mtp_nightly.py" in each["message"]}

    assert severities() == {"warning"}
    assert severities("qwen3.6-35b-mtp") == {"error"}


def test_a_profile_whose_script_is_not_here_is_not_rendered_as_it_would_not_be_planned(b70ctl, site):
    patched(site, "script", script=SCRIPT)
    here = ("--set", "image.ref=intel/llm-scaler-vllm:0.21.0-b1")
    assert "s.py of patch `script` cannot be read" in b70ctl("--site", site, "render", "mine", *here).exits(1).err
    assert "s.py of patch" in b70ctl("--site", site, "render", "--all", "--check").exits(1).err
    (site / "patches" / "script" / "s.py").write_text("")
    assert b70ctl("--site", site, "render", "mine", *here).code == 0
    assert b70ctl("--site", site, "render", "--all", "--check").code == 0


SHIPPED = open_catalog(None).patch("mtp-nightly").scripts[0]


@pytest.mark.parametrize(("lies", "code"), [(None, 0), (b"another\n", 1), ("directory", 1), ("loop", 1)])
def test_what_lies_in_the_place_of_a_shipped_patchs_script_is_refused_by_lint_and_by_render_alike(
    b70ctl, site, lies, code
):
    script = site / "patches" / "mtp-nightly" / SHIPPED.file
    script.parent.mkdir(parents=True)
    if isinstance(lies, bytes):
        script.write_bytes(lies)
    elif lies:
        in_the_place_of(script, lies)
    linted = b70ctl("--site", site, "profiles", "lint", "--json").exits(code).data
    errors = [each["message"] for each in linted if each["severity"] == "error"]
    assert all(str(script) in each for each in errors)
    assert bool(errors) is bool(code)
    said = b70ctl("--site", site, "render", "--all", "--check").exits(code).err
    assert [each for each in errors if each.split(": ")[0] not in said] == []
    assert said.count(f"error: patches: {script}") == len(errors)


def test_lint_knows_the_variables_of_a_sites_own_patches(b70ctl, site):
    patched(site, x=SCRIPT + "env: {B70_MINE: '1'}\n", broken="nothing: [\n")
    said = b70ctl("--site", site, "profiles", "lint", "mine", "--set", "env.B70_MINE=1").exits(1)
    assert "`B70_MINE` does nothing without the patch `x`" in said.out


def test_the_list_tells_a_sites_own_patches_from_ours_and_theirs(b70ctl, site):
    shipped = open_catalog(None).folders("patches")[0][1] / NAME / "patch.yaml"
    (site / "patches" / "mine").mkdir(parents=True)
    (site / "patches" / "mine" / "patch.yaml").write_text(shipped.read_text())
    said = {line.split()[0]: line.split()[2] for line in b70ctl("--site", site, "patches", "list").out.splitlines()[1:]}
    assert (said["mine"], said[NAME], said["mtp-boundary"]) == ("yours", "ours", "theirs")


@pytest.mark.parametrize(("name", "whose"), [("mine", "yours"), (NAME, "ours"), ("mtp-boundary", "theirs")])
def test_a_patch_is_shown_as_whose_the_list_says_that_it_is(b70ctl, site, name, whose):
    patched(site, mine=EDIT)
    assert f"({whose})" in b70ctl("--site", site, "patches", "show", name).out


def test_what_has_no_base_to_accept_says_so_in_words_that_agree(b70ctl, site):
    patched(site, over=OVERLAY)
    b70ctl("--site", site, "patches", "accept", f"over:{'a' * 64}").refused(
        1, "has no base to accept: an overlay takes the place of the one file that it was made from"
    )


def test_the_list_says_what_is_no_patch_and_why(b70ctl):
    said = b70ctl("patches", "list")
    assert "needs no patch" in said.err.replace("\n", " ")


@pytest.mark.parametrize("name", ["My Fix", "../patches/good", "x" * 5000])
def test_a_patch_that_is_no_name_cannot_be_accepted_and_spoils_no_lock(b70ctl, site, with_image, name):
    with_image()
    own = site / "patches" / "My Fix"
    own.mkdir(parents=True)
    shipped = open_catalog(None).folders("patches")[0][1] / NAME / "patch.yaml"
    (own / "patch.yaml").write_text(shipped.read_text())
    own.parent.joinpath("good").symlink_to(own)
    said = b70ctl("--site", site, "patches", "accept", f"{name}:{DIGEST}", "--image", "a/b:1")
    assert (said.code, "cannot be a patch's name" in said.error.replace("\n", " ")) == (2, True)
    assert not (site / LOCK).exists()
    assert "My Fix cannot be asked for" in b70ctl("--site", site, "patches", "list").err.replace("\n", " ")


def test_an_empty_image_is_none_that_can_be_accepted_from(b70ctl, site, with_image):
    with_image()
    assert b70ctl("--site", site, "patches", "check", "--image", "a/b:1").code == 0
    b70ctl("--site", site, "patches", "accept", f"{NAME}:{DIGEST}", "--image", "").refused(
        2, "is not an image reference"
    )
    assert not (site / LOCK).exists()


def test_a_lock_that_is_a_loop_of_links_is_told_before_anything_is_written(b70ctl, site, with_image):
    with_image()
    (site / LOCK).symlink_to(LOCK)
    said = b70ctl("--site", site, "patches", "accept", f"{NAME}:{DIGEST}", "--image", "a/b:1").exits(2)
    assert "cannot be read: Too many levels of symbolic links" in said.error.replace("\n", " ")
    assert (site / LOCK).is_symlink()


@pytest.mark.parametrize("vllm", ["9" * 10_000, "0." * 5_000 + "1", "1" * 4_301])
def test_a_version_without_end_is_no_version(b70ctl, vllm):
    said = b70ctl("patches", "check", "--vllm", vllm)
    assert (said.code, len(said.error) < 400) == (2, True)


def test_what_was_kept_of_an_image_and_spoilt_is_in_nobodys_way(b70ctl, site, with_image):
    with_image()
    kept = site / ".b70ctl" / "images" / f"{'1' * 64}.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("[" * 100_000)
    assert b70ctl("--site", site, "patches", "accept", f"{NAME}:{DIGEST}").code == 1
    assert b70ctl("--site", site, "patches", "accept", f"{NAME}:{DIGEST}", "--image", "a/b:1").code == 0


def test_lint_judges_the_variables_of_a_profiles_patches(b70ctl, site):
    own = site / "patches" / "mine"
    own.mkdir(parents=True)
    (own / "patch.yaml").write_text(
        "summary: s\nwhy: w\nversions: '>=0.19'\nsource: here\nenv: {HF_TOKEN: x}\n"
        "edits: [{file: vllm/a.py, old: a, new: b}]\n"
    )
    path = site / "profiles" / "mine.yaml"
    path.write_text(path.read_text() + "patches: [mine]\n")
    said = b70ctl("--site", site, "profiles", "lint", "mine", "--json")
    assert [(each["where"], each["hint"]) for each in said.data if each["rule"] == "secret"] == [
        ("patches", "drop `mine` from the profile's patches")
    ]
