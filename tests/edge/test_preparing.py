"""From a name to the text of a release, with a site, a catalog and no Docker."""

import json

import pytest

from b70ctl.core.compose import SECRETS_FILE
from b70ctl.edge import places
from b70ctl.edge.catalog import open_catalog
from b70ctl.edge.composer import find_composer
from b70ctl.edge.filling import Prepared
from b70ctl.edge.preparing import Workshop, check_with_compose
from b70ctl.edge.sitelock import Pin, SiteLock, write_lock
from b70ctl.edge.store import Store
from b70ctl.errors import Refused, UsageError
from tests.making import a_release

SITE = 'models: /srv/models\nhf_cache: /srv/hf\ngids: [992]\ncards: ["0000:03:00.0"]\n'
WHOLE = """\
summary: mine
status: production
image: {ref: "a/b:1", vllm: 0.21.0}
model: {path: some-model, served_names: [m]}
"""
DIGEST = "sha256:" + "1" * 64


@pytest.fixture
def site(tmp_path):
    (tmp_path / "profiles").mkdir()
    (tmp_path / "templates").mkdir()
    (tmp_path / "site.yaml").write_text(SITE)
    (tmp_path / "profiles" / "mine.yaml").write_text(WHOLE)
    return tmp_path


def workshop(site):
    return Workshop(open_catalog(site), site / ".b70ctl")


def text_of(site, name="mine", *sets):
    shop = workshop(site)
    return shop.text(shop.wanted(name, sets).deployment, "0001-mine-abcdef", "k" * 32)


def template(site, change):
    shipped = (places.shipped("templates") / "vllm.compose.yaml.j2").read_text()
    (site / "templates" / "vllm.compose.yaml.j2").write_text(change(shipped))


def test_equal_inputs_give_equal_bytes(site):
    assert text_of(site).encode() == text_of(site).encode()


def test_a_text_that_is_only_looked_at_does_not_say_where_the_site_lies(site):
    shop = workshop(site)
    deployment = shop.wanted("mine").deployment
    assert str(site) not in shop.text(deployment, "0001-mine-abcdef", "k" * 32)
    assert f'"b70ctl.root": "{site}"' in shop.text(deployment, "0001-mine-abcdef", "k" * 32, str(site))


def test_resolving_and_rendering_write_nothing(site):
    before = sorted(site.rglob("*"))
    text_of(site)
    assert sorted(site.rglob("*")) == before


def test_a_rejected_profile_is_refused_unless_it_is_asked_for(site):
    (site / "profiles" / "mine.yaml").write_text(WHOLE.replace("production", "rejected\nstatus_reason: nonsense"))
    with pytest.raises(Refused, match="nonsense"):
        workshop(site).wanted("mine")
    assert workshop(site).wanted("mine", allow_status="rejected").deployment.profile == "mine"
    assert workshop(site).wanted("mine", any_status=True).deployment.profile == "mine"


def test_a_template_of_ones_own_may_add(site):
    template(site, lambda text: text.replace("    working_dir:", "    cpuset: '0-3'\n    working_dir:"))
    assert "cpuset" in text_of(site)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("host_ip: {{ port.host_ip | q }}", 'host_ip: "0.0.0.0"'),
        ("    security_opt:\n{% for option in engine.security_opt %}\n      - {{ option | q }}\n{% endfor %}\n", ""),
        ("    restart: {{ engine.restart | q }}", "    restart: always"),
        ("command:\n", 'command:\n      - "extra"\n'),
        ("{{ value | q }}", '"{{ value }}"'),
        ("image: {{ engine.image | q }}", 'image: "${IMAGE}"'),
        ("published: {{ port.published | q }}", "published: 8000.5"),
    ],
)
def test_a_template_that_drops_or_changes_a_decision_is_refused_and_named(site, old, new):
    shipped = (places.shipped("templates") / "vllm.compose.yaml.j2").read_text()
    assert old in shipped
    template(site, lambda text: text.replace(old, new))
    (site / "profiles" / "mine.yaml").write_text(WHOLE + "env: {A: 'a \"$b'}\n")
    with pytest.raises(UsageError, match=r"site.*template|template.*site"):
        text_of(site)


@pytest.mark.parametrize("text", ["", "name: [", "{{ nobody }}", "- a"])
def test_a_template_that_makes_no_compose_file_is_a_usage_error(site, text):
    template(site, lambda _: text)
    with pytest.raises(UsageError):
        text_of(site)


def test_a_pinned_image_is_what_is_started_and_the_reference_is_what_is_shown(site):
    pin = Pin(identity=f"intel/vllm@{DIGEST}", vllm="0.21.1.dev17", at="2026-01-01T00:00:00Z")
    write_lock(site, SiteLock(images={"intel/vllm:latest": pin}))
    deployment = workshop(site).wanted("qwen3-30b-eagle3").deployment
    assert (deployment.image, deployment.image_ref) == (f"intel/vllm@{DIGEST}", "intel/vllm:latest")


def test_a_known_image_is_taken_from_the_catalog_and_an_unknown_one_from_the_profile(site):
    assert workshop(site).wanted("qwen3-30b-eagle3").facts.source == "catalog"
    facts = workshop(site).wanted("mine").facts
    assert (facts.source, facts.vllm) == ("assumed", "0.21.0")


def test_a_patch_that_is_not_for_the_image_is_refused_before_anything_is_made(site):
    (site / "profiles" / "mine.yaml").write_text(WHOLE.replace("0.21.0", "0.28.0") + "patches: [marlin-moe-xpu]\n")
    with pytest.raises(Refused, match="must not be applied"):
        workshop(site).wanted("mine")


def test_the_drafts_own_limit_is_read_where_the_draft_lies(site, tmp_path):
    (site / "site.yaml").write_text(SITE.replace("/srv/models", str(tmp_path / "models")))
    draft = tmp_path / "models" / "d"
    draft.mkdir(parents=True)
    (draft / "config.json").write_text('{"max_position_embeddings": 4096}')
    (site / "profiles" / "mine.yaml").write_text(
        WHOLE + "speculative: {method: eagle3, num_speculative_tokens: 5, "
        "draft: {path: d, overrides: {max_position_embeddings: 9}}}\n"
    )
    assert workshop(site).wanted("mine").deployment.draft_limit == 4096


HUB_DRAFT = (
    "speculative: {method: eagle3, num_speculative_tokens: 5, "
    "draft: {hub: owner/head, overrides: {max_position_embeddings: 9}}}\n"
)


@pytest.mark.parametrize("commit", ["1" * 40, "2" * 40])
def test_a_hub_drafts_config_and_limit_are_those_of_the_snapshot_that_the_cache_stands_at(site, commit):
    (site / "site.yaml").write_text(SITE.replace("/srv/hf", "hf"))
    repository = site / "hf" / "hub" / "models--owner--head"
    for number, limit in (("1", 2048), ("2", 4096)):
        snapshot = repository / "snapshots" / (number * 40)
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text(json.dumps({"max_position_embeddings": limit}))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    (site / "profiles" / "mine.yaml").write_text(WHOLE + HUB_DRAFT)
    deployment = workshop(site).wanted("mine").deployment
    assert deployment.draft_limit == {"1": 2048, "2": 4096}[commit[0]]
    assert [commit in order.target for order in deployment.files] == [True]


def test_a_hub_draft_that_is_not_in_the_cache_cannot_be_changed(site):
    (site / "profiles" / "mine.yaml").write_text(WHOLE + HUB_DRAFT)
    with pytest.raises(Refused, match="no snapshot of `main`"):
        workshop(site).wanted("mine")
    assert workshop(site).reach(workshop(site).catalog.profile("mine", ())).limit is None


def test_a_release_belongs_to_a_site(site):
    with pytest.raises(UsageError, match="belongs to a site"):
        workshop(site).prepare(workshop(site).wanted("mine"), 1, "b70ctl switch")


@pytest.mark.process
def test_compose_reads_a_release_before_it_is_one_and_nothing_of_it_stays(site):
    shop = workshop(site)
    release = a_release(1, "mine", shop.wanted("mine").deployment)
    store = Store(site / ".b70ctl")
    text = shop.text(release.deployment, release.id, release.key)
    check_with_compose(Prepared(release, DIGEST, {"files/a": b"x"}, text, {"K": "v"}), store, find_composer())
    assert list(store.folder.iterdir()) == []
    broken = Prepared(release, DIGEST, {}, text.replace("services:", "servces:"), {})
    with pytest.raises(Refused, match="refuses"):
        check_with_compose(broken, store, find_composer())
    assert list(store.folder.iterdir()) == []
    assert SECRETS_FILE not in text
