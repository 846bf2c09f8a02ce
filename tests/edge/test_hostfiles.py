"""What is read of a host is what lies there, and a record of it is read back equal."""

import os
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from b70ctl.core.hostfacts import DPKG, KMSG, PACMAN, PCI, Asked, Energy, Entry, HostFacts
from b70ctl.core.hosttext import KEPT, kept, scrub
from b70ctl.core.packages import dpkg, installed, pacman
from b70ctl.edge.hostasks import Question, private_words, read_host
from b70ctl.edge.hostfiles import energy_counters, read_files
from b70ctl.edge.hostrecord import INDEX, read_record, record
from b70ctl.errors import UsageError
from tests.rewrite_hosts import HOSTS, MADE

ADDRESS = "0000:03:00.0"
REAL = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/" + ADDRESS


def put(root: Path, path: str, text: str) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def root(tmp_path):
    """A root with one card, as sysfs shows it: through links."""
    root = tmp_path / "root"
    for name, text in (("class", "0x030000"), ("vendor", "0x8086"), ("device", "0xe223"), ("resource", "0x0 0x0 0x0")):
        put(root, f"{REAL}/{name}", f"{text}\n")
    put(root, f"{REAL}/hwmon/hwmon7/energy1_input", "1000\n")
    put(root, f"{REAL}/hwmon/hwmon7/temp2_input", "52000\n")
    put(root, f"{REAL}/serial_number", "SECRET-1\n")
    upstream = str(Path(REAL).parent.parent)
    put(root, f"{upstream}/class", "0x060400\n")
    put(root, f"{upstream}/current_link_speed", "32.0 GT/s PCIe\n")
    (root / "sys/bus/pci/devices").mkdir(parents=True)
    (root / "sys/bus/pci/drivers/xe").mkdir(parents=True)
    for folder in (REAL, upstream):
        (root / "sys/bus/pci/devices" / Path(folder).name).symlink_to(f"../../../{folder.removeprefix('sys/')}")
    (root / REAL / "driver").symlink_to("../../../../../../bus/pci/drivers/xe")
    put(root, "/dev/dri/renderD128", "")
    (root / "dev/dri/renderD128").chmod(0o660)
    (root / "dev/dri/by-path").mkdir()
    (root / f"dev/dri/by-path/pci-{ADDRESS}-render").symlink_to("../renderD128")
    return root


def read(root: Path) -> HostFacts:
    return HostFacts(read_files("/dev/dri", root), Asked())


# -- reading -----------------------------------------------------------------------------------------------------------


def test_a_card_is_read_through_sysfss_links(root):
    facts = read(root)
    assert facts.text(f"{PCI}/{ADDRESS}/device") == "0xe223"
    assert str(facts.target(f"{PCI}/{ADDRESS}")).endswith(f"0000:02:01.0/{ADDRESS}")
    assert str(facts.target(f"{PCI}/{ADDRESS}/driver")).endswith("/xe")
    assert facts.number(f"{PCI}/{ADDRESS}/hwmon/hwmon7/temp2_input") == 52000


def test_what_lies_above_a_card_is_read_for_its_link(root):
    assert read(root).text(f"{PCI}/0000:01:00.0/current_link_speed") == "32.0 GT/s PCIe"


def test_nodes_have_their_mode_and_owner(root):
    about = (root / "dev/dri/renderD128").stat()
    entry = read(root).entries["/dev/dri/renderD128"]
    assert (entry.mode, entry.uid, entry.gid) == (0o660, about.st_uid, about.st_gid)
    assert read(root).target(f"/dev/dri/by-path/pci-{ADDRESS}-render") == "../renderD128"


def test_what_no_check_needs_is_not_read(root):
    assert "SECRET-1" not in repr(read(root).entries)


def test_an_energy_counter_is_read_when_it_is_asked(root):
    entries = read_files("/dev/dri", root)
    [(path, before)] = energy_counters(entries, root).items()
    put(root, f"{REAL}/hwmon/hwmon7/energy1_input", "3000\n")
    assert (path, before) == (f"{PCI}/{ADDRESS}/hwmon/hwmon7/energy1_input", 1000)
    assert energy_counters(entries, root) == {path: 3000}


def test_a_counter_that_gives_nonsense_is_none(root):
    put(root, f"{REAL}/hwmon/hwmon7/energy1_input", "x\n")
    assert energy_counters(read_files("/dev/dri", root), root) == {}


def test_an_empty_root_is_a_host_of_which_nothing_is_known(tmp_path):
    assert read_files("/dev/dri", tmp_path) == {}


def test_what_is_closed_is_noted_as_closed(as_nobody):
    folder, become = as_nobody
    put(folder, "/sys/kernel/debug/dri/0/name", "xe")
    put(folder, "/etc/group", "render:x:992:")
    (folder / "sys/kernel/debug").chmod(0)
    (folder / "etc/group").chmod(0)
    become()
    facts = read(folder)
    assert facts.denied("/sys/kernel/debug/dri/0000:03:00.0")
    assert facts.denied("/etc/group")
    assert not facts.denied("/sys/bus")


def test_a_kernel_log_below_a_root_is_read_there(root):
    put(root, KMSG, "xe 0000:03:00.0: hello\ne1000 eth0: MAC aa:bb:cc:dd:ee:ff\n")
    assert read(root).text(KMSG) == "xe 0000:03:00.0: hello"


def test_packages_of_another_kind_are_not_kept(root):
    for name in ("intel-compute-runtime-26.35.39758.10-1", "firefox-150.0-1"):
        put(root, f"{PACMAN}/{name}/desc", "")
    assert installed(read(root)) == {"intel-compute-runtime": "26.35.39758.10-1"}


# -- what is kept ------------------------------------------------------------------------------------------------------

STATUS = """\
Package: intel-opencl-icd
Status: install ok installed
Maintainer: Somebody <somebody@example.org>
Version: 26.18.38308.1-0
Description: a driver
 Package: not-this

Package: libze1
Status: deinstall ok config-files
Version: 1.0

Package: firefox
Status: install ok installed
Version: 150
"""


def test_of_a_list_of_packages_only_the_stacks_names_and_versions_are_kept():
    text = kept(DPKG, STATUS)
    assert "example.org" not in text
    assert "firefox" not in text
    assert dpkg(text) == {"intel-opencl-icd": "26.18.38308.1-0"}


def test_members_of_groups_are_not_kept():
    assert kept("/etc/group", "render:x:992:alice,bob\nalice:x:1000:\nbad\n") == "render:x:992:\n"


def test_boot_options_that_name_disks_are_not_kept():
    assert kept("/proc/cmdline", "root=UUID=1-2 iommu=pt quiet xe.force_probe=e223") == "iommu=pt xe.force_probe=e223\n"


def test_a_line_of_the_kernel_about_something_else_is_not_kept():
    lines = "usb 1-1: SerialNumber: 42\nxe 0000:03:00.0: [drm] Using GuC\nexecve failed\n"
    assert kept(KMSG, lines) == "xe 0000:03:00.0: [drm] Using GuC\n"


@pytest.mark.parametrize("path", sorted(KEPT))
@given(text=st.text(alphabet=st.sampled_from("Packge: \nVrsionStu=xdm0:19-Mo,\t"), max_size=80))
def test_keeping_twice_changes_nothing(path, text):
    assert kept(path, kept(path, text)) == kept(path, text)


@pytest.mark.parametrize(
    ("text", "gone"),
    [("eth0 aa:bb:cc:dd:ee:ff up", "aa:bb"), ("serial number: ABC123", "ABC123"), ("Serial: ABC123", "ABC123"),
     ("root=UUID=123e4567-e89b-12d3-a456-426614174000", "123e4567"), ("HF_TOKEN=hf_abc", "hf_abc"),
     ("api-key: k123", "k123"), ("on workhorse now", "workhorse")],
)  # fmt: skip
def test_what_tells_whose_box_it_is_is_taken_out(text, gone):
    assert gone not in scrub(text, ["workhorse"])


@pytest.mark.parametrize("text", ["xe 0000:03:00.0: [drm] GuC 70.72.1", "workhorses", "token count 12", "8086:e223"])
def test_what_tells_about_the_card_stays(text):
    assert scrub(text, ["workhorse"]) == text


@given(st.text(max_size=80), st.lists(st.text(max_size=8), max_size=3))
def test_any_text_can_be_scrubbed(text, words):
    scrub(text, words)


@given(st.lists(st.from_regex(r"[a-z][a-z0-9-]{0,20}-[0-9.]{1,8}-[0-9]{1,2}", fullmatch=True), max_size=5))
def test_a_folder_of_pacman_is_a_name_and_a_version(folders):
    assert {f"{name}-{version}" for name, version in pacman(folders).items()} <= set(folders)


# -- records -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MADE)
def test_a_host_on_record_is_read_back_as_it_was(name, tmp_path):
    record(MADE[name](), tmp_path / "it")
    assert read_record(tmp_path / "it") == MADE[name]()


@pytest.mark.parametrize("name", MADE)
def test_the_hosts_that_are_kept_are_those_that_are_made_and_say_that_they_are(name):
    assert read_record(HOSTS / name) == MADE[name](), "if it is meant: python -m tests.rewrite_hosts, read the diff"
    assert "Made by hand" in (HOSTS / name / "README.md").read_text()


def test_what_was_read_below_a_root_is_read_back_as_it_was(root, tmp_path):
    facts = read(root)
    record(facts, tmp_path / "it")
    assert read_record(tmp_path / "it") == facts


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=texts, target=texts, uid=st.integers(0, 2**32), mode=st.integers(0, 0o7777))
def test_any_text_and_any_target_come_back(tmp_path_factory, text, target, uid, mode):
    entries = {"/a:b/c": Entry("file", mode, uid, uid, "", text), "/l": Entry("link", 0o777, target=target)}
    folder = tmp_path_factory.mktemp("record") / "it"
    facts = HostFacts(entries, Asked(energies=(Energy(path="/e", before=1, after=2, seconds=0.5),)))
    record(facts, folder)
    assert read_record(folder) == facts


def test_a_record_does_not_overwrite(tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(UsageError, match="not an empty directory"):
        record(MADE["no-card"](), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_directory_without_a_record_says_how_one_is_made(tmp_path):
    with pytest.raises(UsageError) as refused:
        read_record(tmp_path)
    assert "--record" in str(refused.value.hint)


@pytest.mark.parametrize(
    "row",
    [
        "file\t0644\t0\t0\t\t/a/../../b",
        "dir\t0755\t0\t0\t\ta",
        "ghost\t0644\t0\t0\t\t/a",
        "dir\t9\t0\t0\t\t/a",
        "dir\t/a",
    ],
)
def test_a_record_that_was_tampered_with_is_refused(tmp_path, row):
    folder = tmp_path / "it"
    record(MADE["no-card"](), folder)
    index = folder / INDEX
    index.write_text(f"{index.read_text()}{row}\n")
    with pytest.raises(UsageError, match="cannot be read"):
        read_record(folder)


@pytest.mark.parametrize("name", [INDEX, "asked.json", "files/etc/os-release"])
@pytest.mark.parametrize("end", ["pipe", "/dev/zero", "outside", "itself"])
def test_a_record_leads_nowhere_else_and_is_not_waited_for(tmp_path, name, end):
    folder = tmp_path / "it"
    text = Entry("file", 0o644, 0, 0, "", "ID=x")
    record(HostFacts({"/etc/os-release": text}, Asked()), folder)
    path = folder / name
    (tmp_path / "outside").write_bytes(path.read_bytes())
    path.unlink()
    if end == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"outside": tmp_path / "outside", "itself": path}.get(end, Path(end)))
    with pytest.raises(UsageError, match=f"cannot be read: .*{path}"):
        read_record(folder)


def test_a_folder_of_files_that_is_the_whole_machine_is_refused(tmp_path):
    folder = tmp_path / "it"
    record(HostFacts({"/etc/passwd": Entry("file", 0o644, 0, 0, "", "x")}, Asked()), folder)
    shutil.rmtree(folder / "files")
    (folder / "files").symlink_to("/")
    with pytest.raises(UsageError, match="leads out of the record"):
        read_record(folder)


# -- this box ----------------------------------------------------------------------------------------------------------


@pytest.mark.process
def test_this_box_is_read_without_docker_and_its_record_says_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    facts = read_host(Question(dri=str(tmp_path), site="b70", port=1, places={"site": tmp_path / "not" / "yet"}))
    assert facts.text("/proc/sys/kernel/osrelease") == os.uname().release
    assert facts.asked.docker is None
    assert facts.asked.docker_trouble
    assert [disk.role for disk in facts.asked.disks] == ["site"]
    record(facts, tmp_path / "it")
    assert read_record(tmp_path / "it") == facts
    written = "".join(path.read_text() for path in (tmp_path / "it").rglob("*") if path.is_file())
    for word in private_words():
        assert not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", written)
