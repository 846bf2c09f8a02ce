#!/usr/bin/env bash
# What a machine needs before anything else can run, and a way to be root where one has to be.
#
#   tests/rig/setup.sh                 makes .venv; installs missing Debian packages, and says so before
#   tests/rig/setup.sh kernels         the same, with torch and triton in .venv
#   tests/rig/setup.sh as-root CMD...  runs CMD as root, or as a user who may use the machine's Docker Engine
#   tests/rig/setup.sh clean           removes .venv and every cache
#
# Exit status 3: the machine lacks something; the hint says what to type.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

VENV=.venv
STAMP=$VENV/.set-up
KERNELS=$VENV/.set-up-kernels
SOCKET=/var/run/docker.sock
export PATH="$PATH:/usr/sbin:/sbin" PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf 'setup: %s\n' "$*" >&2; }
lacks() { printf 'error: %s\nhint: %s\n' "$1" "$2" >&2; exit 3; }
have() { command -v "$1" >/dev/null 2>&1; }

# --- python ---------------------------------------------------------------------------------------

fits() { "$1" -I -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

python() {
    local name
    for name in python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
        if have "$name" && fits "$name"; then echo "$name"; return; fi
    done
    return 1
}

# --- packages -------------------------------------------------------------------------------------

missing() {
    # docker.io where there is neither a daemon's socket nor a daemon to start
    python >/dev/null || echo "python3 python3-venv"
    [ -s /etc/ssl/certs/ca-certificates.crt ] || echo ca-certificates
    # the unit of a watch is verified where a test may not be skipped
    [ -z "${CI:-}" ] || have systemd-analyze || echo systemd
    if [ -z "${DOCKER_HOST:-}" ] && [ ! -S $SOCKET ]; then
        have dockerd || echo docker.io
        have iptables || echo iptables
        have ip || echo iproute2
    fi
}

root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo ${CI:+-n} "$@"; fi
}

install() {
    local command="apt-get install --no-install-recommends $*"
    have apt-get || lacks "not installed here: $*; and there is no apt-get" "install what these are called here"
    [ -z "${B70CTL_NO_APT:-}" ] || lacks "not installed here: $*; and B70CTL_NO_APT forbids it" "sudo $command"
    [ "$(id -u)" = 0 ] || have sudo || lacks "not installed here: $*; and installing needs root" "as root: $command"
    say "installing $* with apt-get (\`apt-get remove $*\` undoes it; B70CTL_NO_APT=1 refuses)"
    root sh -eu -s "$@" <<'ROOT'
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
# no service may start by itself: what the demo needs it starts, and stops again
if [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' > $policy
    chmod 755 $policy
fi
log=$(mktemp)
apt() { apt-get -q -y -o Dpkg::Use-Pty=0 "$@" </dev/null >>"$log" 2>&1; }
apt update || true
if ! apt install --no-install-recommends "$@"; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    exit 1
fi
rm -f "$log"
case " $* " in
    *" docker.io "*) [ ! -d /run/systemd/system ] || systemctl --quiet disable docker.socket docker.service containerd || true ;;
esac
ROOT
}

# --- the environment ------------------------------------------------------------------------------

wanted() { cat pyproject.toml tests/rig/setup.sh | sha256sum; }

set_up() {
    local packages
    packages=$(missing | xargs)
    if [ -n "$packages" ]; then
        # shellcheck disable=SC2086 # a list of words
        install $packages || lacks "apt-get could not install $packages" "sudo apt-get update"
    fi
    if [ -x $VENV/bin/b70ctl ] && [ "$(cat $STAMP 2>/dev/null)" = "$(wanted)" ] && $VENV/bin/python -c ''; then return; fi
    local python
    python=$(python) || lacks "no Python 3.11 or newer with venv here" "sudo apt-get install python3 python3-venv"
    if ! fits $VENV/bin/python; then
        say "making $VENV with $("$python" --version)"
        "$python" -m venv --clear $VENV
    fi
    say "installing b70ctl, editable, with what tests and demo need"
    # --group is newer than the pip that distributions ship
    $VENV/bin/python -m pip install -qq --upgrade 'pip>=25.1'
    $VENV/bin/python -m pip install -qq --editable . --group dev
    wanted > $STAMP
    say "ready in $SECONDS s"
}

set_up_kernels() {
    set_up
    if [ "$(cat $KERNELS 2>/dev/null)" = "$(wanted)" ]; then return; fi
    SECONDS=0
    # which build of torch there is depends on where pip looks: PIP_FIND_LINKS, PIP_EXTRA_INDEX_URL
    say "installing torch and triton: 0.4 GB where pip finds a CPU build of torch, else 3 GB"
    $VENV/bin/python -m pip install -qq --group kernels
    wanted > $KERNELS
    say "ready in $SECONDS s"
}

# --- the rest -------------------------------------------------------------------------------------

as_root() {
    if [ "$(id -u)" = 0 ]; then exec "$@"; fi
    if [ -n "${DOCKER_HOST:-}" ] || [ -w $SOCKET ]; then exec "$@"; fi
    have sudo || lacks "starting a Docker Engine, or using the machine's, needs root" "run this as root"
    say "a Docker Engine needs root: going on with sudo"
    local kept=() name
    for name in $(compgen -e | grep -E '^(B70CTL_|PIP_|CI$|NO_COLOR$|COLUMNS$|LANG$|https?_proxy$)'); do
        kept+=("$name=${!name}")
    done
    exec sudo ${CI:+-n} env PYTHONDONTWRITEBYTECODE=1 "${kept[@]}" "$@"
}

clean() {
    # a private daemon keeps its images below .cache and must not lose them while it runs
    if grep -qs "$PWD/.cache/" /run/b70ctl-rig/state.json; then root $VENV/bin/python -m tests.rig.dockerd down || true; fi
    local made=("$VENV" .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis dist)
    # what ran with sudo has left files of root's
    rm -rf "${made[@]}" 2>/dev/null || root rm -rf "${made[@]}"
}

case "${1:-}" in
    "") set_up ;;
    kernels) set_up_kernels ;;
    as-root) shift; as_root "$@" ;;
    clean) clean ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
