"""A stand-in for the kernels' package: its programs do what a file beside them says, with no torch and no card."""

from pathlib import Path

PROGRAM = """
import json, os, sys, time
from pathlib import Path

HERE = Path(__file__).parent
WISH = json.loads((HERE / "wish.json").read_text())
if "--json" in sys.argv:
    print(json.dumps({"passed": WISH["code"] == 0, "argv": sys.argv[1:]}), flush=True)
else:
    for line in WISH["lines"]:
        print(line, flush=True)
    print("argv " + " ".join(sys.argv[1:]), flush=True)
    for name in ("PYTHONPATH", "ZE_AFFINITY_MASK", "B70_KERNELS_TUNING"):
        print(name + "=" + str(os.environ.get(name)), flush=True)
    print("cards " + " ".join(sorted(os.listdir("/dev/dri")) if os.path.isdir("/dev/dri") else []), flush=True)
for line in WISH["err"]:
    print(line, file=sys.stderr, flush=True)
if "--out" in sys.argv:
    Path(sys.argv[sys.argv.index("--out") + 1]).write_text(WISH["table"])
time.sleep(WISH["sleep"])
if WISH["raises"]:
    raise RuntimeError(WISH["raises"])
sys.exit(WISH["code"])
"""
TABLE_ROW = {
    "preset": "k8v4", "rows": 16, "head_size": 128, "choice": {"keys": 32, "warps": 4, "stages": 1, "programs": 64},
}  # fmt: skip
LINES = ("ok    attention_is_right                 3.2 s  40 cases, worst 1.2e-04", "device: xpu")


def write_kernels(root: Path, **wish: object) -> Path:
    """A site's own `kernels/b70_kernels`, whose programs do as they are told."""
    import json

    package = root / "kernels" / "b70_kernels"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("")
    for name in ("check", "bench", "tune"):
        (package / f"{name}.py").write_text(PROGRAM)
    told = {"lines": LINES, "err": [], "code": 0, "raises": "", "sleep": 0, "table": '{"device": "x", "rows": []}'}
    (package / "wish.json").write_text(json.dumps(told | wish))
    return package
