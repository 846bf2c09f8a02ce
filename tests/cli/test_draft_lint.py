"""What lint says of a draft is what the other commands would refuse, with the file that is at fault."""

import json

import pytest

from tests.edge.test_draft_files import COMMIT, LIMIT


@pytest.fixture
def lint(b70ctl, site):
    """Runs lint on a site with models and a cache of its own, for a draft; gives severity, where, message and hint."""
    text = (site / "site.yaml").read_text()
    text = text.replace("/srv/models", str(site / "models")).replace("/srv/hf", str(site / "hf"))
    (site / "site.yaml").write_text(text)

    def call(draft):
        given = json.dumps({"method": "eagle3", "num_speculative_tokens": 3, "draft": draft})
        words = ("mine", "--set", f"speculative={given}", "--set", "boot.download=false")
        said = b70ctl("--site", site, "profiles", "lint", *words, "--json")
        found = [each for each in said.data if each["rule"] == "draft"]
        rendered = b70ctl("--site", site, "render", *words)
        return [(each["severity"], each["where"], each["message"], each["hint"]) for each in found], rendered

    return call


def a_head(site, content=None):
    """A draft's directory, and where its config is to lie."""
    folder = site / "models" / "head"
    folder.mkdir(parents=True)
    if content is not None:
        (folder / "config.json").write_text(content)
    return folder / "config.json"


def in_hub(site, ref=COMMIT):
    """A hub's repository in the site's cache, and the snapshot's folder."""
    folder = site / "hf" / "hub" / "models--o--n"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(ref)
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    return snapshot


@pytest.mark.parametrize("overrides", [{}, {LIMIT: 8192}])
@pytest.mark.parametrize("hub", [False, True])
def test_a_config_that_the_container_would_not_find_is_an_error_before_a_switch_is_planned(
    lint, site, tmp_path, overrides, hub
):
    (tmp_path / "config.json").write_text(json.dumps({LIMIT: 2048}))
    file = in_hub(site) / "config.json" if hub else a_head(site)
    file.symlink_to(tmp_path / "config.json")
    found, _ = lint({"hub": "o/n"} | {"overrides": overrides} if hub else {"path": "head", "overrides": overrides})
    if hub and not overrides:
        assert found == []  # nor does a switch look at it
        return
    [(severity, where, message, hint)] = found
    assert (severity, where) == ("error", "speculative.draft")
    assert f"{file} is a link to {tmp_path}/config.json, which the container does not have" in message
    assert hint.startswith("cp -rL ")


@pytest.mark.parametrize("cache", [False, True])
def test_a_hubs_draft_that_is_to_be_changed_and_has_no_commit_is_told_by_lint_as_by_render(lint, site, cache):
    if cache:
        (site / "hf").mkdir()
    draft = {"hub": "o/n", "overrides": {LIMIT: 8192}}
    found, rendered = lint(draft)
    [(severity, where, message, hint)] = found
    assert (severity, where) == ("error", "speculative.draft.hub")
    rendered.refused(1, message, hint)
    found, rendered = lint(draft | {"revision": COMMIT})
    assert rendered.code == 0
    assert [message for _, _, message, _ in found] == (
        [f"{site}/hf/hub/models--o--n/snapshots/{COMMIT}/config.json does not exist"] if cache else []
    )


@pytest.mark.parametrize("ref", ["../../..", "a\0b", "0" * 40])
def test_a_reference_to_no_snapshot_is_not_said_to_be_missing(lint, site, ref):
    in_hub(site, ref)
    [(_, where, message, hint)], _ = lint({"hub": "o/n"})
    file = f"{site}/hf/hub/models--o--n/refs/main"
    assert (where, message) == ("speculative.draft.hub", f"{file} names no snapshot that lies in the cache")
    assert hint == f"head -c 200 {file}"


def test_a_config_that_is_too_long_is_told_as_that(lint, site):
    a_head(site, json.dumps({"x": "y" * 5_000_000}))
    [(severity, _, message, _)], _ = lint({"path": "head"})
    assert (severity, "has more than 4,194,304 bytes" in message) == ("warning", True)


@pytest.mark.parametrize("models", [False, True])
def test_where_a_draft_is_not_there_the_hint_names_what_is(lint, site, models):
    (site / "models" / ("lmsys" if models else "")).mkdir(parents=True)
    [(_, _, message, hint)], _ = lint({"path": "lmsys/head"})
    assert message == f"{site}/models/lmsys/head/config.json does not exist"
    assert hint == f"ls {site}/models{'/lmsys' if models else ''}"
