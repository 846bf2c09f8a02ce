"""Our kernels as vLLM's plugin on a real daemon: carried, found by every process, proven; one without them: undone."""

import json
from pathlib import Path

from livesite import NewSite

from tests.fake_kernels import TABLE_ROW
from tests.rig.dri import make_dri

CACHE = {"max_model_len": 4096, "kv_cache_dtype": "turboquant_k8v4", "tensor_parallel_size": 2}
OURS = {"kernels": "b70", "engine": CACHE, "cards": None}


def test_the_kernels_are_proven_in_every_process_and_a_worker_without_them_brings_the_old_engine_back(
    new_site: NewSite, tmp_path: Path
) -> None:
    make_dri(tmp_path / "dri", cards=2)
    site = new_site(dri=str(tmp_path / "dri"))
    site.quick("old", **OURS, env={"PYTHONPATH": "/opt/mine"})
    table = site.root / "tuning.json"
    table.write_text(json.dumps({"device": "a card", "rows": [TABLE_ROW]}))

    ran = site.switch("old")

    old = site.assert_serves("old")
    proof = "b70_kernels 0.1.0 in APIServer, EngineCore, Worker_TP0, Worker_TP1"
    assert ["kernels", "ok", proof] in [line.split(maxsplit=2) for line in ran.err.splitlines()]
    assert f"  {proof}\n" in ran.err
    boot = site.verdict(old)["boot"]
    assert boot["kernels_in"] == ["APIServer", "EngineCore", "Worker_TP0", "Worker_TP1"]
    assert "b70_kernels 0.1.0" in site.run("status").exits(0).out
    _, process = site.get("/standin/process")
    # the image's own entry is kept, or the stand-in would not have started
    assert process["env"]["PYTHONPATH"] == "/opt/mine:/opt/image/python:/opt/b70ctl/plugin"
    assert process["env"]["B70_KERNELS_TUNING"] == "/opt/b70ctl/tuning.json"
    carried = site.folder(old) / "files"
    assert (carried / "tuning.json").read_text() == table.read_text()
    assert {each.name for each in (carried / "plugin").iterdir()} == {"b70_kernels", "b70_kernels-0.1.0.dist-info"}
    read_only = {each["Target"]: each["ReadOnly"] for each in site.engine().attrs["HostConfig"]["Mounts"]}
    assert (read_only["/opt/b70ctl/plugin"], read_only["/opt/b70ctl/tuning.json"]) == (True, True)

    site.quick("new", **OURS, env={"STANDIN_FAULT": "kernels-silent:Worker_TP1"})
    table.unlink()
    assert "carried files/tuning.json" in site.run("plan", "new").exits(0).out

    ran = site.switch("new", code=5)

    assert ": Worker_TP1 did not say that b70_kernels 0.1.0 is in use" in ran.err
    assert site.assert_serves("old") == old
    assert site.verdict(site.release("new"))["state"] == "failed"
