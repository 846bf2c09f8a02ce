"""Commands that change what serves, on a site whose daemon is a stub."""

import json
import os
import sys
from types import SimpleNamespace

import pytest
import typer

from b70ctl.cli import app, draining, engine, keeping, kernels, looking, switching, verifying, window
from b70ctl.cli.console import console
from b70ctl.cli.here import Here
from b70ctl.cli.past import boot_lines, history
from b70ctl.cli.ready import obstacles
from b70ctl.core.compose import LABEL
from b70ctl.core.journal import Event
from b70ctl.core.kernels import Program
from b70ctl.core.plan import plan_restart
from b70ctl.edge import places
from b70ctl.edge.files import moment
from b70ctl.edge.preparing import Workshop
from b70ctl.edge.store import FAILED_LOG
from b70ctl.errors import B70Error, EngineError, Interrupted, MachineError, Refused, Unproven
from tests.making import a_release, a_verdict, resolved, some_facts
from tests.stub_daemon import Killed, absence
from tests.stub_site import StubSite, without_engines

DEPLOYMENT = resolved(name="old").model_copy(
    update={"mounts": (), "devices": (), "requires": (), "cards": (), "card_count": 0}
)
OLD = a_release(1, "old", DEPLOYMENT)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A site that serves OLD."""
    without_engines(monkeypatch)
    (tmp_path / places.SITE_FILE).write_text("models: models\n")
    found = StubSite(tmp_path)
    found.daemon.images[DEPLOYMENT.image] = {"Id": "sha256:1"}
    found.serve(OLD)
    return found


@pytest.fixture
def here(site):
    """What a command sees of it."""
    console().json = False
    context = typer.Context(typer.main.get_command(app), obj=site.root)
    found = Here(context)
    found.daemon = site.daemon
    return found


def nonsense():
    return EngineError("nonsense")


def test_every_change_sweeps_short_containers_that_are_five_minutes_old(site, here):
    engine.recover(here)
    assert site.daemon.named("sweep_probes") == [("sweep_probes", 300, site.root)]
    assert site.daemon.held == [site.root]


def test_a_restart_of_a_stopped_engine_that_cannot_be_proven_stops_it_again(site, here):
    engine.stop(here, yes=True, dry_run=False)
    site.daemon.on("probe", nonsense)
    with pytest.raises(EngineError, match="nonsense"):
        engine.restart(here, yes=True, dry_run=False)
    assert site.daemon.running_releases() == []
    assert site.state.stopped
    assert site.result == "failed"


def test_a_restart_of_a_stopped_engine_is_shown_as_the_start_that_it_is(site, here, capsys):
    engine.stop(here, yes=True, dry_run=False)
    here.console.json = True
    engine.restart(here, yes=False, dry_run=True)
    planned = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert planned["command"] == "start"
    assert [step["verb"] for step in planned["undo"]] == ["stop", "idle"]


def test_a_restart_of_a_running_engine_that_cannot_be_proven_starts_it_once_more(site, here):
    site.daemon.on("probe", nonsense)
    with pytest.raises(B70Error, match="serves again, proven"):
        engine.restart(here, yes=True, dry_run=False)
    assert site.daemon.running_releases() == [OLD.id]
    assert not site.state.stopped


def test_a_start_of_an_engine_that_ends_over_and_over_does_not_call_it_serving(site, here):
    site.daemon.containers[f"c-{OLD.id}"]["State"]["Status"] = "restarting"
    with pytest.raises(Refused, match="ends over and over") as told:
        engine.start(here, dry_run=False)
    assert told.value.hint == "b70ctl restart"


def test_a_container_that_is_gone_has_no_log_to_look_at(site, here, capsys):
    del site.daemon.containers[f"c-{OLD.id}"]
    looking.status(here, check=False)
    said = capsys.readouterr().out
    assert "`b70ctl start` starts it" in said
    assert "b70ctl logs" not in said


def test_words_that_are_not_utf_8_are_written_into_the_journal_as_what_they_are(site, here, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["b70ctl", "restart", os.fsdecode(b"caf\xe9")])
    engine.restart(here, yes=True, dry_run=False)
    assert site.last.begin.by == r"b70ctl restart 'caf\udce9'"


def test_names_that_a_switch_gave_are_told_from_those_of_a_person_and_come_last(site, here, capsys):
    names = {"before-0002-x": OLD.id, "good": OLD.id}
    site.store.save_state(site.state.model_copy(update={"snapshots": names}))
    keeping.snapshot(here, None)
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["NAME", "RELEASE", "KEPT"]
    assert [row.split(maxsplit=2) for row in rows] == [
        ["good", OLD.id, "for good"], ["before-0002-x", OLD.id, "until pruned; a switch gave it"],
    ]  # fmt: skip


def test_failures_are_pruned_without_the_releases_that_were_proven(site, here):
    (site.root / places.SITE_FILE).write_text("models: models\nkeep: 1\n")
    for number, state in enumerate(("proven", "failed", "failed", "failed"), 2):
        site.keep(a_release(number, "p", DEPLOYMENT), a_verdict(state))
    keeping.prune(here, yes=True, dry_run=False)
    assert sorted(site.store.releases()) == [a_release(number, "old" if number == 1 else "p", DEPLOYMENT).id
                                             for number in (1, 2, 5)]  # fmt: skip


def test_an_engine_that_is_paused_is_not_one_that_runs_already(site, here):
    site.daemon.containers[f"c-{OLD.id}"]["State"]["Status"] = "paused"
    with pytest.raises(Refused, match="is paused") as refused:
        engine.start(here, dry_run=False)
    assert refused.value.hint == f"docker unpause c-{OLD.id}"
    engine.restart(here, yes=True, dry_run=False)
    assert site.daemon.named("stop", "start") == [
        (
            "stop",
            f"c-{OLD.id}",
        ),
        ("start", f"c-{OLD.id}"),
    ]


def test_the_status_of_a_paused_engine_names_one_remedy_the_one_that_start_names(site, here, capsys):
    site.daemon.containers[f"c-{OLD.id}"]["State"]["Status"] = "paused"
    with pytest.raises(typer.Exit):
        looking.status(here, check=True)
    said = capsys.readouterr()
    [told] = [line for line in said.err.splitlines() if line.startswith("warning:")]
    assert told == f"warning: {OLD.id} is paused, so it answers nobody; docker unpause c-{OLD.id}"
    assert f"`docker unpause c-{OLD.id}` goes on with it" in said.out
    assert "b70ctl logs" not in said.out + said.err


def of_a_namesake(site, root):
    """A container of another site that has this one's name."""
    site.daemon.add(a_release(7, "other", DEPLOYMENT), "exited")
    other = site.daemon.containers[f"c-{a_release(7, 'other', DEPLOYMENT).id}"]
    other["Config"]["Labels"][f"{LABEL}.root"] = str(root)


@pytest.mark.parametrize(
    "command", [engine.restart, lambda here, **how: engine.start(here, dry_run=False), keeping.prune],
    ids=["restart", "start", "prune"],
)  # fmt: skip
def test_a_name_that_another_site_on_the_box_has_is_refused_before_anything_is_touched(
    site, here, tmp_path_factory, command
):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / places.SITE_FILE).write_text("")
    engine.stop(here, yes=True, dry_run=False)
    of_a_namesake(site, elsewhere)
    before = site.daemon.count("stop"), site.store.ops()
    with pytest.raises(Refused, match=f"the site in {elsewhere} is called `b70` too") as refused:
        command(here, yes=True, dry_run=False)
    assert refused.value.hint == f"another `name` in {site.root / places.SITE_FILE}"
    assert (site.daemon.count("stop"), site.store.ops()) == before


def test_a_site_whose_namesake_is_gone_goes_on(site, here, tmp_path):
    of_a_namesake(site, tmp_path / "removed")
    engine.restart(here, yes=True, dry_run=False)
    assert site.daemon.running_releases() == [OLD.id]


@pytest.mark.parametrize("command", [engine.stop, engine.restart])
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_damaged_release_is_named_before_anything_is_stopped(site, here, command, dry_run):
    record = site.store.release_folder(OLD.id) / "release.json"
    record.write_text(record.read_text()[:-9])
    with pytest.raises(B70Error, match="is damaged") as refused:
        command(here, yes=True, dry_run=dry_run)
    assert str(record) in refused.value.what
    assert refused.value.hint == f"mv {record} {record}.damaged"
    assert site.daemon.named("stop", "set_policy") == []


def test_an_interruption_while_the_box_is_looked_at_is_not_taken_for_a_docker_that_is_away(site, here):
    site.daemon.on("observe", lambda: Interrupted("interrupted by SIGTERM"))
    with pytest.raises(Interrupted):
        verifying.signs_of(here)
    assert verifying.signs_of(here)


def test_a_restore_of_what_is_not_drained_tells_a_program_what_serves(site, here, capsys):
    console().json = True
    draining.restore(here, dry_run=False)
    told = json.loads(capsys.readouterr().out)
    assert (told["event"], told["release"]) == ("serving", OLD.id)
    assert site.store.ops() == []


@pytest.mark.parametrize(("passed", "shown"), [(True, True), (None, True), (False, False)])
def test_what_is_known_of_changed_files_is_told_with_the_boot_and_so_is_what_is_not(site, passed, shown):
    finding = {"probe": "files", "passed": passed, "detail": "not provable: a file"}
    verdict = a_verdict().model_copy(update={"boot": {"kv_tokens": 1000}, "findings": (finding,)})
    site.store.save_verdict(OLD.id, verdict)
    assert boot_lines(site.store, OLD) == ["KV cache 1,000 tokens", *([finding["detail"]] if shown else [])]


@pytest.mark.parametrize("passed", [True, None])
def test_the_history_of_a_switch_has_the_proof_of_its_files(site, here, capsys, passed):
    finding = {"probe": "files", "passed": passed, "detail": "1 file is the one that Python imports: one"}
    site.store.begin(plan_restart(OLD.id), "b70ctl restart").write(Event.END, result="done")
    site.store.save_verdict(OLD.id, a_verdict().model_copy(update={"findings": (finding,)}))
    history(here, 9, verbose=True)
    assert f"  {finding['detail']}\n" in capsys.readouterr().out


UNPUBLISHED = """\
summary: mine
status: production
image: {ref: "own/b:1", vllm: 0.21.0}
needs: [{what: "own/b:1", where: build it yourself}]
model: {path: m, served_names: [m]}
"""


def test_where_an_image_comes_from_is_told_by_the_kernels_as_by_a_plan(site, here, capsys):
    (site.root / places.SITE_FILE).write_text('models: models\ngids: [992]\ncards: ["0000:03:00.0"]\n')
    (site.root / "profiles").mkdir()
    (site.root / "profiles" / "mine.yaml").write_text(UNPUBLISHED)
    with pytest.raises(typer.Exit):
        kernels.run(here, Program("check"), "mine", local=False, dry_run=True)
    said = capsys.readouterr().err
    assert "Docker does not have the image own/b:1\nhint: build it yourself" in said
    assert "docker pull" not in said


WITH_A_DRAFT = """\
summary: mine
status: production
image: {ref: "a/b:1", vllm: 0.21.0}
model: {path: m, served_names: [m]}
cards: none
speculative:
  {method: eagle3, num_speculative_tokens: 5, draft: {path: d, overrides: {max_position_embeddings: 9}}}
"""


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ("[]", "config.json is not a JSON object"),
        ("{}", "the draft's config has no `max_position_embeddings`"),
        (None, "config.json does not exist"),
    ],
)
def test_a_plan_tells_of_a_draft_that_the_switch_would_refuse(site, here, config, what):
    for name, text in (("m", "{}"), ("d", config)):
        (site.root / "models" / name).mkdir(parents=True)
        if text is not None:
            (site.root / "models" / name / "config.json").write_text(text)
    (site.root / "profiles").mkdir()
    (site.root / "profiles" / "mine.yaml").write_text(WITH_A_DRAFT)
    wanted = here.workshop(docker=True).wanted("mine")
    told = [error.what for error in obstacles(here, wanted, OLD, here.observe())]
    assert [what in each for each in told if "draft" in each or "/d/" in each] == [True]


def wished(site, here, *words):
    """What a plan of such a profile says, and its exit status; its image is not there."""
    (site.root / "profiles").mkdir()
    (site.root / "profiles" / "mine.yaml").write_text(WITH_A_DRAFT)
    with pytest.raises(typer.Exit) as ended:
        switching.plan(here, switching.Wish("mine", ("env.VLLM_NONSENSE=1", *words)), exit_code=False)
    return ended.value.exit_code


def test_a_plan_tells_first_what_lint_warns_of_and_what_it_is_worth(site, here, capsys):
    assert wished(site, here) == 1
    said = capsys.readouterr()
    assert said.out.startswith("refused as it stands")
    assert said.err.count("warning: env.VLLM_NONSENSE: ") == 1
    assert said.err.index("warning: ") < said.err.index("error: ")


def test_a_mount_that_is_not_there_is_told_once_in_a_plan(site, here, capsys):
    wished(site, here, "mounts=[{source: lib, target: /srv/x}]")
    said = capsys.readouterr()
    assert (said.out + said.err).count(f"{site.root}/lib") == 1
    assert f"{site.root}/lib does not exist" in said.out + said.err


def test_a_program_reads_warnings_beside_the_faults(site, here, capsys):
    here.console.json = True
    wished(site, here)
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert said.err == ""
    assert [each["message"].endswith("[variable]") for each in told["warnings"]].count(True) == 1
    assert any("does not have the image" in each["message"] for each in told["faults"])


def test_an_image_with_another_vllm_is_told_once(site, here, monkeypatch):
    known = [some_facts(ref="a/b:1", vllm="0.22.0", source="catalog")]
    monkeypatch.setattr(Workshop, "known_images", known)
    (site.root / "profiles").mkdir()
    (site.root / "profiles" / "mine.yaml").write_text(WITH_A_DRAFT)
    site.daemon.images["a/b:1"] = {"Id": "sha256:1"}
    wanted = here.workshop(docker=True).wanted("mine")
    told = [error for error in obstacles(here, wanted, OLD, here.observe()) if "vLLM 0.21.0" in error.what]
    assert [error.hint for error in told] == ["in the profile's image: vllm: 0.22.0, once you have read what changed"]


@pytest.mark.parametrize(
    ("table", "vllm", "warned"),
    [('("0.34.0",)', "0.34.0", False), ('("0.33.0",)', "0.34.0", True), ('("0.33.0",)', "0.35.0", False),
     (None, "0.34.0", True)],
)  # fmt: skip
def test_status_says_that_an_unproven_vllm_was_taken_on(site, here, capsys, table, vllm, warned):
    changed = {"kernels": "b70_kernels 0.1.0", "vllm": vllm, "env": {"B70_KERNELS_UNPROVEN": "0.34.0"}}
    serving = a_release(2, "ours", DEPLOYMENT.model_copy(update=changed))
    site.serve(serving)
    carried = site.store.release_folder(serving.id) / "files" / "plugin" / "b70_kernels"
    (carried / "plugin").mkdir(parents=True)
    (carried / "plugin" / "__init__.py").write_text("")
    (carried / "__init__.py").write_text('__version__ = "0.1.0"\n')
    if table:
        (carried / "plugin" / "proven.py").write_text(f"VERSIONS = {table}\n")
    looking.status(here, check=False)
    assert ("with which nobody proved it" in capsys.readouterr().out) is warned


def test_a_program_reads_the_proof_of_the_files_in_status(site, here, capsys):
    finding = {"probe": "files", "passed": None, "detail": "not provable: a file"}
    site.store.save_verdict(OLD.id, a_verdict().model_copy(update={"findings": (finding,)}))
    here.console.json = True
    looking.status(here, check=False)
    assert json.loads(capsys.readouterr().out)["files"] == {"passed": None, "detail": "not provable: a file"}


def test_an_engine_that_is_dead_is_not_called_serving_and_a_check_says_why(site, here, capsys):
    site.daemon.containers[f"c-{OLD.id}"]["State"] |= {"Status": "exited", "ExitCode": 137}
    with pytest.raises(typer.Exit):
        looking.status(here, check=True)
    said = capsys.readouterr()
    rows = {line.partition("  ")[0]: line.partition("  ")[2].strip() for line in said.out.splitlines()}
    assert rows["not serving"] == OLD.id
    assert not rows.keys() & {"serving", "proven"}
    assert f"{OLD.id} has ended, with exit 137; `b70ctl logs` tells why, `b70ctl start` starts it" in rows["engine"]
    assert said.err == f"warning: {OLD.id} has ended, with exit 137; b70ctl start\n"


def test_a_program_reads_the_same_of_a_dead_engine_under_the_keys_that_it_knows(site, here, capsys):
    here.console.json = True
    looking.status(here, check=False)
    alive = json.loads(capsys.readouterr().out)
    site.daemon.containers[f"c-{OLD.id}"]["State"]["Status"] = "exited"
    looking.status(here, check=False)
    dead = json.loads(capsys.readouterr().out)
    assert alive.keys() - dead.keys() == {"engine"}
    assert (dead["serving"], dead["proven"]) == (OLD.id, alive["proven"])


def test_a_check_says_which_of_the_things_that_it_asks_is_not_so(site, here, capsys):
    site.store.save_state(site.state.model_copy(update={"withdrawn": "2026-01-01T00:00:00Z"}))
    with pytest.raises(typer.Exit):
        looking.status(here, check=True)
    assert "does not answer /health; b70ctl logs" in capsys.readouterr().err
    site.daemon.on("observe", absence, lasting=True)
    with pytest.raises(typer.Exit):
        looking.status(here, check=True)
    assert "not known: Docker does not answer; docker info" in capsys.readouterr().err


CRASH = ("INFO 11-30 12:00:00 [api_server.py:1] vLLM API server version 0.21.0\n"
         "ERROR 11-30 12:00:01 [core.py:1] OverflowError: Overflow when unpacking long long\n")  # fmt: skip


@pytest.fixture
def crashed(site, monkeypatch):
    """The engines of this site fail with a log of which the cause is known; gives what was asked of the log."""
    asked = []

    def logs(container, tail="all", since=None):
        asked.append((container, since))
        return CRASH

    monkeypatch.setattr(site.daemon, "logs", logs)
    site.daemon.on("await", nonsense, lasting=True)
    return asked


def test_a_start_that_fails_says_what_the_log_knows_of_the_cause(site, here, capsys, crashed):
    engine.stop(here, yes=True, dry_run=False)
    with pytest.raises(EngineError) as failed:
        engine.start(here, dry_run=False)
    said = capsys.readouterr().err
    assert said.count("[ptr-overflow]") == 1
    assert f"  fix: {failed.value.hint}" in said
    # what was written before this start is none of its own
    assert crashed == [(f"c-{OLD.id}", moment("2026-01-01T00:00:00Z"))]


def test_a_restart_whose_way_back_fails_says_what_the_log_knows_of_the_cause(site, here, capsys, crashed):
    with pytest.raises(Unproven) as failed:
        engine.restart(here, yes=True, dry_run=False)
    said = capsys.readouterr().err
    assert "[ptr-overflow]" in said
    assert f"  fix: {failed.value.hint}" in said


def test_a_recovery_that_fails_says_what_the_log_knows_of_the_cause(site, here, capsys, crashed):
    site.daemon.heal()
    site.daemon.on("await", Killed)
    assert isinstance(site.outcome(lambda: site.carry_out(plan_restart(OLD.id))), Killed)
    site.daemon.heal()
    site.daemon.on("await", nonsense, lasting=True)
    with pytest.raises(Unproven) as failed:
        engine.recover(here)
    said = capsys.readouterr().err
    assert said.count("[ptr-overflow]") == 1
    assert f"  fix: {failed.value.hint}" in said


def test_a_log_of_an_earlier_failure_does_not_explain_a_start(site, here, capsys):
    site.store.keep_log(OLD.id, FAILED_LOG, CRASH)
    engine.stop(here, yes=True, dry_run=False)
    site.daemon.on("await", nonsense)
    with pytest.raises(EngineError):
        engine.start(here, dry_run=False)
    assert "ptr-overflow" not in capsys.readouterr().err


def test_a_release_that_cannot_be_read_is_pruned_and_told(site, here, capsys):
    broken = a_release(2, "broken", DEPLOYMENT)
    site.keep(broken)
    (site.store.release_folder(broken.id) / "release.json").write_text("{")
    keeping.prune(here, yes=True, dry_run=True)
    assert f"{broken.id}" in capsys.readouterr().out
    keeping.prune(here, yes=True, dry_run=False)
    assert not site.store.release_folder(broken.id).exists()
    assert site.store.release(OLD.id) == OLD


def test_what_a_killed_command_left_in_the_sites_own_folders_is_swept_by_the_next(site, here):
    left = [site.root / name for name in ("b70ctl.lock.yaml.99999999-0123abcd.new", "mine.new")]
    for path in left:
        path.touch()
    engine.recover(here)
    assert [path.exists() for path in left] == [False, True]


# -- a disk that is nearly full ---------------------------------------------------------------------------------------


@pytest.fixture
def free(monkeypatch):
    """Sets how many bytes every disk has left."""

    def leave(count):
        disk = SimpleNamespace(f_frsize=1, f_bfree=count, f_bavail=count)
        monkeypatch.setattr(os, "statvfs", lambda _: disk)

    return leave


def test_a_stop_that_could_not_be_written_down_stops_nothing(site, here, free):
    free(99_999)
    before = site.store.book().lines
    with pytest.raises(MachineError, match=r"0\.1 MB are needed before an engine is stopped") as refused:
        engine.stop(here, yes=True, dry_run=False)
    assert f"df -h {site.store.folder}" in refused.value.hint
    assert site.daemon.running_releases() == [OLD.id]
    assert site.store.book().lines == before


def test_a_stop_asks_for_no_more_room_than_its_record_needs(site, here, free):
    free(100_000)
    site.daemon.keeps = site.root
    engine.stop(here, yes=True, dry_run=False)
    assert (site.daemon.running_releases(), site.state.stopped) == ([], True)


# -- what a window and a plan tell of profiles ------------------------------------------------------------------------


def opened(site, here, *profiles):
    """What a window over profiles with a doubtful variable would do; their image is not there."""
    (site.root / "profiles").mkdir()
    for name in profiles:
        (site.root / "profiles" / f"{name}.yaml").write_text(WITH_A_DRAFT)
    wish = window.Wish(profiles, ("true",), ("env.VLLM_NONSENSE=1",), anyway=True)
    with pytest.raises(typer.Exit):
        window.window(here, wish, yes=False, dry_run=True)


def test_a_window_tells_first_what_lint_warns_of(site, here, capsys):
    opened(site, here, "mine")
    said = capsys.readouterr().err
    assert said.count("warning: env.VLLM_NONSENSE: ") == 1
    assert said.index("warning: ") < said.index("error: ")


def test_a_window_over_several_profiles_says_whose_warning_it_is(site, here, capsys):
    here.console.json = True
    opened(site, here, "mine", "other")
    told = [each["message"] for each in json.loads(capsys.readouterr().out)["warnings"]]
    assert [each.split(": ")[0] for each in told if "NONSENSE" in each] == ["mine", "other"]


def test_a_plan_is_refused_for_a_profile_that_mounts_a_secret(site, here, capsys):
    (site.root / places.SITE_FILE).write_text("models: models\nsecrets: {K: {file: private/k}}\n")
    (site.root / "private").mkdir()
    (site.root / "private" / "k").write_text("s3cret")
    assert wished(site, here, f"mounts=[{{source: {site.root}/private, target: /p}}]") == 1
    assert "shows secrets.K, which lies at" in capsys.readouterr().err


@pytest.mark.parametrize("source", ["private/k", "private", "innocent"])
def test_a_plan_tells_once_of_a_mount_that_shows_a_secret_and_would_be_copied(site, here, source, capsys):
    (site.root / places.SITE_FILE).write_text("models: models\nsecrets: {K: {file: private/k}}\n")
    (site.root / "private").mkdir()
    (site.root / "private" / "k").write_text("s3cret")
    (site.root / "innocent").hardlink_to(site.root / "private" / "k")
    assert wished(site, here, f"mounts=[{{source: {source}, target: /p}}]") == 1
    assert capsys.readouterr().err.count("secrets.K") == 1


def test_a_plan_tells_of_a_folder_in_which_a_secret_lies_by_a_hard_link(site, here, capsys):
    (site.root / places.SITE_FILE).write_text("models: models\nsecrets: {K: {file: k}}\n")
    (site.root / "k").write_text("s3cret")
    (site.root / "notes").mkdir()
    (site.root / "notes" / "readme").hardlink_to(site.root / "k")
    assert wished(site, here, "mounts=[{source: notes, target: /p}]") == 1
    assert capsys.readouterr().err.count(f"notes shows secrets.K by another name, {site.root}/notes/readme") == 1
