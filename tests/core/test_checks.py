"""doctor answers what the facts say, and says unknown where they say nothing."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.cli.doctoring import checks, models
from b70ctl.core.checks import JUDGES, Finding, examine, together, urgent_first
from b70ctl.core.checkup.case import understood
from b70ctl.core.checkup.gpus import bar_size, guc_version, real_port
from b70ctl.core.hostfacts import DEBUGFS, KMSG, PCI, Asked, Entry, HostFacts, version_in
from tests.rewrite_hosts import HEALTHY, MADE, Box

ADDRESS = "0000:03:00.0"
FOLDER = f"{PCI}/{ADDRESS}"
CHECKS, MODELS = checks(), models()


def a_box(kernel="7.1.8", *, root=True, cards=1, card=None, **asked):
    box = Box(kernel, root=root, **asked)
    for number in range(cards):
        box.card("b70", 3 + 4 * number, 128 + number, **(card or {}))
    return box


def answers(box, check):
    facts = box if isinstance(box, HostFacts) else box.facts()
    return [each for each in examine(facts, MODELS, CHECKS) if each.check == check]


def answer(box, check):
    [only] = answers(box, check)
    return only


# -- the table ---------------------------------------------------------------------------------------------------------


def test_every_question_has_a_judge_and_every_judge_a_question():
    assert [check.id for check in CHECKS] == list(JUDGES)


def test_every_question_is_one_and_says_who_found_it_out_and_what_to_do():
    for check in CHECKS:
        assert check.question.endswith("?")
        assert check.do
        assert check.source


def test_ids_of_cards_are_known_once():
    ids = [model.id for model in MODELS.cards]
    assert len(ids) == len(set(ids))


# -- hosts -------------------------------------------------------------------------------------------------------------


def test_a_box_where_all_is_well_has_every_question_answered_well():
    findings = examine(MADE["one-b70"](), MODELS, CHECKS)
    assert {each.check for each in findings} == set(JUDGES)
    assert {each.state for each in findings} == {"ok"}


PROBLEMS = {
    "one-b70": set(),
    "four-b70": {"kernel", "runtime-image", "link", "job-timeout", "iommu", "memory"},
    "b60": {"guc", "kernel-log", "rebar", "throttle", "temperature", "memory"},
    "a770": {"kernel", "driver"},
    "mixed": {"holders", "port"},
    "no-card": {"cards", "docker", "kernel"},
}
BLOCKING = {"b60": {"guc"}, "no-card": {"cards", "docker"}}


@pytest.mark.parametrize("name", MADE)
def test_what_is_wrong_with_a_box_is_found_and_nothing_else(name):
    findings = examine(MADE[name](), MODELS, CHECKS)
    assert {each.check for each in findings if each.state == "problem"} == PROBLEMS[name]
    assert {each.check for each in findings if each.blocks} == BLOCKING.get(name, set())


@pytest.mark.parametrize("name", MADE)
def test_every_problem_has_evidence_and_something_to_type(name):
    for each in examine(MADE[name](), MODELS, CHECKS):
        assert each.evidence
        assert each.state != "problem" or each.do
        assert each.state != "ok" or each.do is None


@pytest.mark.parametrize("name", MADE)
@given(data=st.data())
def test_a_box_of_which_anything_was_not_read_is_never_judged_worse_by_a_crash(name, data):
    facts = MADE[name]()
    gone = data.draw(st.sets(st.sampled_from(sorted(facts.entries)), max_size=40))
    left = {path: entry for path, entry in facts.entries.items() if path not in gone}
    examine(HostFacts(left, facts.asked), MODELS, CHECKS)


@given(text=st.text(max_size=60), data=st.data())
def test_whatever_a_file_holds_every_question_is_still_answered(text, data):
    facts = MADE["one-b70"]()
    files = sorted(path for path, entry in facts.entries.items() if entry.kind == "file")
    path = data.draw(st.sampled_from(files))
    broken = HostFacts(dict(facts.entries) | {path: replace(facts.entries[path], text=text)}, facts.asked)
    examine(broken, MODELS, CHECKS)


def test_a_box_of_which_nothing_is_known_is_not_called_well():
    findings = examine(HostFacts({}, Asked()), MODELS, CHECKS)
    well = {each.check for each in findings if each.state == "ok"}
    # an IOMMU that does not show is none
    assert well == {"iommu"}


# -- cards -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("card", "name"), [("b70", "Arc Pro B70"), ("b60", "Arc Pro B60"), ("a770", "Arc A770")])
def test_a_card_is_called_by_its_name_and_its_id(card, name):
    box = Box("7.1.8")
    box.card(card, 3, 128)
    assert name in answer(box, "cards").evidence


@pytest.mark.parametrize("device", ["0xe212", "0xffff"])
def test_a_card_whose_id_nobody_verified_is_unknown_and_not_refused(device):
    box = a_box()
    box.put(f"{FOLDER}/device", device)
    assert answer(box, "cards").state == "unknown"


def test_integrated_graphics_and_other_makers_are_named_and_not_counted_as_cards():
    box = Box("7.1.8")
    box.card("amd", 12, 128)
    box._ids("0000:00:02.0", "8086", "a780", "0x030000")
    found = answer(box, "cards")
    assert found.blocks
    assert "0000:0c:00.0 1002:164e" in found.evidence
    assert "0000:00:02.0 8086:a780" in found.evidence


def test_profiles_that_need_no_card_are_named_where_there_is_none_and_it_still_blocks():
    found = answer(Box("7.1.8", cardless=["embeddings-cpu"]), "cards")
    assert found.blocks
    assert "embeddings-cpu" in found.evidence


def test_a_card_that_the_site_names_and_the_box_lacks_blocks():
    found = answers(a_box(wanted=[ADDRESS, "0000:99:00.0"]), "cards")
    assert [(each.subject, each.state) for each in found] == [("0000:99:00.0", "problem"), (ADDRESS, "ok")]


def test_a_card_without_a_driver_blocks():
    assert answer(a_box(card={"driver": None}), "driver").blocks


@pytest.mark.parametrize(
    ("version", "state"),
    [("70.72.1", "ok"), ("70.44.1", "ok"), ("70.65.0", "ok"), ("70.58.0", "problem"), ("70.40.2", "problem")],
)
@pytest.mark.parametrize("where", ["debugfs", "log"])
def test_the_firmware_is_judged_by_its_version_wherever_it_is_read(version, state, where):
    facts = a_box(card={"guc": version}).facts()
    path = f"{DEBUGFS}/0/gt0/uc/guc_info"
    lost = {KMSG} if where == "debugfs" else {path}
    left = {each: entry for each, entry in facts.entries.items() if each not in lost}
    found = answer(HostFacts(left, facts.asked), "guc")
    assert (found.state, found.blocks) == (state, state == "problem")
    assert version in found.evidence


def test_the_firmware_that_debugfs_wants_is_not_the_one_that_it_found():
    box = a_box()
    text = "GuC firmware: xe/bmg_guc_70.bin\n\twanted release version 70.58.0\n\tfound release version 70.72.1\n"
    box.put(f"{DEBUGFS}/0/gt0/uc/guc_info", text)
    assert guc_version(box.facts(), ADDRESS) == (70, 72, 1)


def test_the_firmware_of_another_card_is_not_this_ones():
    box = a_box()
    log = "xe 0000:09:00.0: [drm] Using GuC firmware from xe/bmg_guc_70.bin version 70.58.0"
    box.entries = {path: entry for path, entry in box.entries.items() if not path.startswith(DEBUGFS)}
    box.log = [log]
    assert guc_version(box.facts(), ADDRESS) is None


def test_what_only_root_may_read_is_unknown_to_others_and_says_how():
    box = a_box(root=False)
    for check in ("guc", "kernel-log", "vram-free", "ecc", "holders"):
        found = answer(box, check)
        assert found.state == "unknown"
        assert "sudo" in str(found.do)


@pytest.mark.parametrize(("mib", "state"), [(256, "problem"), (16 * 1024, "problem"), (32 * 1024, "ok")])
def test_the_window_must_hold_the_whole_memory(mib, state):
    assert answer(a_box(card={"bar": mib}), "rebar").state == state


@given(st.text(max_size=200))
def test_a_resource_table_of_any_form_gives_a_size_or_none(text):
    facts = HostFacts({f"{FOLDER}/resource": Entry("file", text=text)}, Asked())
    assert (bar_size(facts, ADDRESS) or 0) >= 0


def test_the_link_is_read_at_the_switch_on_the_card_not_behind_it():
    facts = a_box().facts()
    case = understood(facts, MODELS)
    assert real_port(case, case.cards[0]) == "0000:01:00.0"
    assert "2.5" not in answer(facts, "link").evidence


def test_a_switch_on_the_board_is_not_the_cards():
    box = a_box()
    box._ids("0000:01:00.0", "10b5", "8747", "0x060400")
    case = understood(box.facts(), MODELS)
    assert real_port(case, case.cards[0]) == "0000:02:01.0"


def test_a_link_below_what_it_can_do_is_told():
    found = answer(a_box(card={"link": "16.0 GT/s PCIe"}), "link")
    assert found.state == "problem"
    assert "16 GT/s x16" in found.evidence


def test_a_display_on_the_card_is_told_by_its_connector():
    assert "HDMI-A-1" in answer(a_box(card={"lit": "HDMI-A-1"}), "display").evidence


# -- nodes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uid", "gids", "mode", "state"),
    [(0, (0,), 0o600, "ok"), (7, (7, 992), 0o660, "ok"), (7, (7,), 0o660, "problem"), (7, (7,), 0o666, "ok"),
     (7, (7, 992), 0o640, "problem")],
)  # fmt: skip
def test_who_may_open_a_node_is_judged_by_mode_and_groups(uid, gids, mode, state):
    box = a_box(uid=uid, gids=gids)
    box.asked |= {"uid": uid, "gids": gids}
    box.entries["/dev/dri/renderD128"] = Entry("device", mode, 0, 992)
    found = answer(box, "node-access")
    assert found.state == state
    assert found.state == "ok" or "usermod -aG render" in str(found.do)


def test_a_card_that_by_path_does_not_name_blocks_though_its_node_exists():
    box = a_box()
    del box.entries[f"/dev/dri/by-path/pci-{ADDRESS}-render"]
    assert answer(box, "by-path").blocks
    assert answer(box, "render-node").state == "ok"


def test_a_node_that_no_group_may_open_blocks():
    box = a_box()
    box.entries["/dev/dri/renderD128"] = Entry("device", 0o600, 0, 0)
    assert answer(box, "render-node").blocks


HOLDERS = [
    ({"container": "b70-1", "site": "b70"}, "ok", False, "this site"),
    ({"container": "b70-1", "site": "other"}, "problem", False, "container b70-1"),
    ({"container": "old"}, "problem", False, "container old"),
    ({}, "problem", True, "process 7 (python3)"),
]


@pytest.mark.parametrize(("more", "state", "blocks", "said"), HOLDERS)
def test_only_this_sites_engine_may_hold_the_card(more, state, blocks, said):
    found = answer(a_box(holders=[{"address": ADDRESS, "pid": 7, "process": "python3"} | more]), "holders")
    assert (found.state, found.blocks) == (state, blocks)
    assert said in found.evidence


# -- sensors -----------------------------------------------------------------------------------------------------------


def test_watts_come_from_the_energy_counter():
    assert answer(a_box(), "power-draw").evidence == "38 W over 0.5 s"


def test_a_counter_that_went_backwards_is_unknown():
    box = a_box()
    box.asked["energies"][0] |= {"before": 2, "after": 1}
    assert answer(box, "power-draw").state == "unknown"


def test_a_card_near_its_critical_temperature_is_told():
    assert answer(a_box(card={"warm": 89}), "temperature").state == "ok"
    assert answer(a_box(card={"warm": 90}), "temperature").state == "problem"


def test_memory_that_nobody_accounts_for_is_told_and_memory_of_a_holder_is_not():
    holder = {"address": ADDRESS, "pid": 7, "process": "x", "site": "b70"}
    assert answer(a_box(card={"used": 9000}), "vram-free").state == "problem"
    assert answer(a_box(card={"used": 9000}, holders=[holder]), "vram-free").state == "ok"
    assert answer(a_box(card={"used": 100}), "vram-free").state == "ok"


def test_a_card_that_shows_28_gib_has_error_correction_on():
    box = a_box()
    box.put(f"{DEBUGFS}/0/tile0/vram_mm", f"  size: {28 * 2**30}\n  usage: 0")
    assert answer(box, "ecc").state == "problem"
    assert answer(a_box(), "ecc").state == "ok"


# -- system and software -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "cards", "state"),
    [
        ("6.16.9", 1, "problem"),
        ("6.17.0-1010-intel", 1, "ok"),
        ("6.17.0", 2, "problem"),
        ("7.1.0", 4, "ok"),
        ("x", 1, "unknown"),
    ],
)
def test_the_kernel_is_judged_by_its_version_and_by_how_many_cards_work_together(kernel, cards, state):
    assert answer(a_box(kernel, cards=cards), "kernel").state == state


KERNEL_LINES = [
    ("xe 0000:03:00.0: [drm] *ERROR* GT0: Failed to initialize uC (-ENXIO)", True),
    ("xe 0000:03:00.0: failed to map registers", True),
    ("xe 0000:03:00.0: Unable to change power state from D3cold to D0, device inaccessible", False),
    ("xe 0000:03:00.0: [drm] Tile0: GT0: Timedout job: seqno=1, lrc_seqno=1", False),
]


@pytest.mark.parametrize(("line", "blocks"), KERNEL_LINES)
def test_a_line_of_the_kernel_that_means_trouble_is_shown(line, blocks):
    box = a_box()
    box.log.append(line)
    found = answer(box, "kernel-log")
    assert found.state == "problem"
    assert found.blocks == blocks
    assert line in found.evidence


@pytest.mark.parametrize(
    ("version", "state"), [("20.10.24", "ok"), ("28.2.2", "ok"), ("19.3.1", "problem"), ("odd", "unknown")]
)
def test_docker_is_judged_by_its_version(version, state):
    assert answer(a_box(docker=version), "docker").state == state


def test_a_docker_that_this_user_may_not_ask_says_what_to_type():
    found = answer(a_box(docker=None, docker_trouble="no Docker Engine answers: permission denied"), "docker")
    assert found.blocks
    assert "usermod -aG docker" in str(found.do)


@pytest.mark.parametrize(("version", "blocks"), [("2.30.0", False), ("2.29.7", True), (None, True)])
def test_compose_is_needed_from_2_30_on(version, blocks):
    assert answer(a_box(compose=version), "compose").blocks == blocks


IMAGES = [
    ("26.18.38308.1", "0.1.11", 1, "ok"),
    ("25.48.36300.8", "0.1.9", 1, "problem"),  # the B70 is not known to it
    ("26.5.1.1", "0.1.10.1", 1, "problem"),  # older than the kernels want
    ("26.27.39122.11", "0.1.14.1", 1, "ok"),
    ("26.27.39122.11", "0.1.14.1", 2, "problem"),  # two cards hang together
    (None, "0.1.14.1", 1, "unknown"),
]


@pytest.mark.parametrize(("runtime", "kernels", "cards", "state"), IMAGES)
def test_an_image_is_judged_by_its_runtime_and_by_how_many_cards_there_are(runtime, kernels, cards, state):
    image = {"ref": "a/b:1", "vllm": "0.1", "kernels": kernels, "compute_runtime": runtime, "source": "probe"}
    found = answer(a_box(cards=cards, images=[image]), "runtime-image")
    assert (found.state, found.subject) == (state, "a/b:1")


def test_an_image_that_was_asked_and_does_not_tell_is_not_to_be_asked_again():
    image = {"ref": "a/b:1", "vllm": "0.1", "compute_runtime": None}
    for source, remedy in (("probe", None), ("catalog", "b70ctl images probe a/b:1")):
        found = answer(a_box(images=[image | {"source": source}]), "runtime-image")
        assert (found.state, found.do) == ("unknown", remedy)


def test_an_image_that_is_too_old_is_to_be_replaced_and_not_only_asked():
    image = {"ref": "a/b:1", "vllm": "0.1", "compute_runtime": "25.48.36300.8", "source": "probe"}
    assert "use an image with a newer compute-runtime" in answer(a_box(images=[image]), "runtime-image").do


@pytest.mark.parametrize(("site", "remedy"), [("b70", "b70ctl images probe IMAGE"), (None, None)])
def test_where_no_image_was_asked_the_remedy_is_one_where_it_would_be_kept(site, remedy):
    found = answer(a_box(site=site, images=[]), "runtime-image")
    assert (found.state, found.do) == ("unknown", remedy)


PORTS = [
    ({}, "ok", False),
    ({"by": "container x", "container": "x", "site": "b70"}, "ok", False),
    ({"by": "container x", "container": "x"}, "problem", False),
    ({"by": "process 7 (nginx)"}, "problem", True),
]


@pytest.mark.parametrize(("use", "state", "blocks"), PORTS)
def test_the_port_must_be_free_or_the_engines(use, state, blocks):
    found = answer(a_box(port=HEALTHY["port"] | use), "port")
    assert (found.state, found.blocks) == (state, blocks)


@pytest.mark.parametrize(
    ("check", "asked", "state"),
    [("clock", {"synchronized": False}, "problem"), ("clock", {"synchronized": None}, "unknown"),
     ("caches", {"caches": [{"name": "c", "size": None}]}, "unknown"), ("caches", {"caches": []}, "ok"),
     ("disk-docker", {"disks": [{"role": "docker", "free": 2**30, "size": 2**40}]}, "problem"),
     ("disk-site", {"disks": [{"role": "site", "free": 2**20, "size": 2**40}]}, "problem"),
     ("disk-site", {"disks": []}, "unknown")],
)  # fmt: skip
def test_what_was_asked_is_judged(check, asked, state):
    assert answer(a_box(**asked), check).state == state


@pytest.mark.parametrize(
    ("path", "text", "check", "state"),
    [("/sys/module/pcie_aspm/parameters/policy", "default [powersupersave]", "aspm", "problem"),
     ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave", "governor", "problem"),
     ("/proc/cmdline", "iommu=pt", "iommu", "ok")],
)  # fmt: skip
def test_a_policy_is_judged_by_the_file_that_shows_it(path, text, check, state):
    box = a_box()
    box.put(path, text)
    assert answer(box, check).state == state


def test_a_shortage_of_room_names_what_would_be_enough():
    disk = {"role": "docker", "free": 61 * 2**30, "size": 251 * 2**30}
    assert answer(a_box(disks=[disk]), "disk-docker").evidence.endswith("90 GiB hold a few images")


def test_one_line_is_not_called_lines():
    box = a_box()
    box.put(KMSG, "xe 0000:03:00.0: a line of no consequence")
    assert "in 1 line about graphics" in answer(box, "kernel-log").evidence


# -- findings and facts ------------------------------------------------------------------------------------------------


def a_finding(state, severity="note", subject=None, evidence="e"):
    return Finding("c", subject, state, severity, "q?", evidence, None, "s")


def test_what_is_urgent_comes_first():
    states = [("ok", "block"), ("unknown", "block"), ("problem", "note"), ("problem", "block"), ("problem", "warn")]
    ordered = urgent_first([a_finding(*each) for each in states])
    assert [(each.state, each.severity) for each in ordered] == [states[3], states[4], states[2], states[1], states[0]]


def test_findings_that_say_the_same_are_one_for_readers_and_no_subject_is_lost():
    found = together(
        [a_finding("ok", subject="a"), a_finding("ok", subject="x", evidence="other"), a_finding("ok", subject="b")]
    )
    assert [each.subject for each in found] == ["a, b", "x"]


@given(st.lists(st.integers(0, 10**8), min_size=2, max_size=5), st.sampled_from(["", "-1ubuntu", "-200.fc44"]))
def test_a_version_is_read_back_as_its_numbers(parts, tail):
    assert version_in(f"v{'.'.join(map(str, parts))}{tail}"[1:]) == tuple(parts)


@given(st.text(max_size=40))
def test_any_text_gives_a_number_or_none(text):
    number = HostFacts({"/x": Entry("file", text=text)}, Asked()).number("/x")
    assert number is None or re.search(r"\d", text)


def test_a_star_stands_for_one_name_and_not_for_a_path():
    facts = HostFacts({path: Entry("dir") for path in ("/a/b", "/a/c", "/a/b/c", "/a.b")}, Asked())
    assert facts.matching("/a/*") == ["/a/b", "/a/c"]
    assert facts.matching("/*/b") == ["/a/b"]


def test_what_lies_below_a_closed_directory_is_closed():
    facts = HostFacts({"/a/b": Entry("denied")}, Asked())
    assert facts.denied("/a/b/c/d")
    assert facts.denied("/a/b")
    assert not facts.denied("/a/bc")
