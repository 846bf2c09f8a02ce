"""A hook, a name and a cut-off window keep nobody from the way back."""

import os
import signal

import pytest
from livesite import LiveSite, until
from windows import CALM, serving_site

from tests.eventually import is_gone

LEAVES = "setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $! >> left; [ ! -e bad ] || { cat key >&2; exit 1; }"


def hook(script: str) -> dict[str, list[str]]:
    return {"command": ["sh", "-c", script]}


def test_a_hook_that_leaves_a_process_behind_holds_neither_the_site_nor_us_and_tells_no_secret(site: LiveSite) -> None:
    (site.root / "key").write_text("hush-hush-hush\n")
    site.write_site(router=hook(LEAVES), drain=CALM, secrets={"VLLM_API_KEY": {"file": "key"}})
    site.quick("a")
    site.switch("a")
    site.run("drain", "--yes").exits(0)
    site.run("restore").exits(0)
    (site.root / "bad").touch()
    ran = site.run("drain", "--yes").exits(6)
    assert "the router hook `sh` ended with exit 1 at remove: …" in ran.err
    assert "hush" not in ran.err + (site.store / "journal.jsonl").read_text()
    left = [int(pid) for pid in (site.root / "left").read_text().split()]
    assert len(left) >= 3
    assert all(map(is_gone, left))


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGKILL])
def test_a_window_that_a_signal_ends_is_undone_or_foreseen_and_its_network_goes(site: LiveSite, number: int) -> None:
    dark = serving_site(site)
    release, pid, network = site.serving(), site.root / "pid", f"b70ctl-{site.name}-dark"
    with site.begin(*dark.words("b", command=("sh", "-c", f"echo $$ > {pid}; exec sleep 600"))) as window:
        until(pid.exists, "the command runs")
        assert network in {each.name for each in site.client.networks.list()}
        os.kill(window.pid, number)
        window.wait(120)
    if number == signal.SIGKILL:
        tried = site.release("b")
        status = site.run("status").exits(0).out
        assert f"{tried} runs at http://127.0.0.1:{dark.port}" in status
        planned = site.run("drain", "--dry-run").exits(0)
        assert "that comes first" in planned.err
        assert release in planned.out
        assert tried not in planned.out
        before = (site.root / "site.yaml").read_text()
        (site.root / "site.yaml").write_text(before.replace(f"name: {site.name}", "name: another"))
        assert f"put `name: {site.name}` back" in site.run("recover").exits(1).err
        (site.root / "site.yaml").write_text(before)
        site.run("recover").exits(0)
    site.assert_serves("a", release)
    assert network not in {each.name for each in site.client.networks.list()}
