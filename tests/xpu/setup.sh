#!/usr/bin/env bash
# The Intel compilers that the kernels are tried with on a machine without an Intel GPU, in a folder of their own.
#
#   tests/xpu/setup.sh [FOLDER]   makes FOLDER (.cache/xpu) where it is not made yet; 3 to 6 GB
#
# FOLDER/venv   Triton's Intel backend, PyTorch, and Intel's OpenCL runtime for processors
# FOLDER/ocloc  Intel's offline compiler, for the instructions that a card would run, from Debian's unstable packages:
#               unpacked there and run with their own C library; nothing is installed. Where it cannot be had,
#               FOLDER/no-ocloc says why, and what needs it is left out.
#
# Exit status 3: the machine lacks something; the hint says what to type.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "${1:-.cache/xpu}"
HOME_OF_ALL=$(cd "${1:-.cache/xpu}" && pwd)
VENV=$HOME_OF_ALL/venv
STAMP=$VENV/.set-up
export PIP_DISABLE_PIP_VERSION_CHECK=1

# the newest Intel backend that PyPI has; it is older than what the images carry
TRITON='triton-xpu==3.3.0b1'
RUNTIME=('pyopencl>=2026,<2027' 'intel-opencl-rt>=2026,<2027' 'intel-cmplr-lib-rt>=2026,<2027')
OTHERS=('torch==2.13.*' 'numpy<2.4' 'pytest>=8.3,<10' 'hypothesis>=6.120,<7')
# with what they are linked to, down to the C library: Debian's stable one may be older
PACKAGES=(intel-ocloc libigc2 libigdfcl2 libigdgmm12 libc6 libgcc-s1 libstdc++6 zlib1g)
KEYS=/usr/share/keyrings/debian-archive-keyring.gpg

say() { printf 'xpu: %s\n' "$*" >&2; }
lacks() { printf 'error: %s\nhint: %s\n' "$1" "$2" >&2; exit 3; }

# --- the compiler and the runtime -----------------------------------------------------------------

fits() {
    "$1" -I -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' >/dev/null 2>&1
}

python() {
    local name
    for name in .venv/bin/python python3.12 python3.11 python3; do
        if fits "$name"; then echo "$name"; return; fi
    done
    return 1
}

environment() {
    if [ "$(cat "$STAMP" 2>/dev/null)" = "$(sha256sum < tests/xpu/setup.sh)" ] && "$VENV/bin/python" -c ''; then return; fi
    local python
    python=$(python) || lacks "no Python 3.11 or 3.12 with venv here: triton-xpu has no wheels for others" \
        "sudo apt-get install python3.11-venv"
    say "installing $TRITON with PyTorch and Intel's OpenCL runtime in $VENV, 3 to 6 GB"
    "$python" -m venv --clear "$VENV"
    "$VENV/bin/python" -m pip install -qq "${OTHERS[@]}" "${RUNTIME[@]}"
    # PyTorch may bring the other triton, whose files have the same names
    "$VENV/bin/python" -m pip uninstall -qq -y triton 2>/dev/null || true
    "$VENV/bin/python" -m pip install -qq --force-reinstall --no-deps --pre "$TRITON"
    mkdir -p "$HOME_OF_ALL/opencl"
    echo "$VENV/lib/libintelocl.so" > "$HOME_OF_ALL/opencl/intel.icd"
    sha256sum < tests/xpu/setup.sh > "$STAMP"
}

# --- the offline compiler -------------------------------------------------------------------------

apt() {
    local own=$HOME_OF_ALL/apt
    apt-get -qq -o Dir::State="$own/state" -o Dir::State::status="$own/status" -o Dir::Cache="$own/cache" \
        -o Dir::Etc::sourcelist="$own/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Debug::NoLocking=1 \
        -o APT::Architecture=amd64 -o APT::Architectures=amd64 -o APT::Sandbox::User=root "$@"
}

# the mirror that the machine itself installs from, without the one for security, which has no unstable
mirror() {
    command -v apt-get >/dev/null && [ -e $KEYS ] && [ "$(uname -m)" = x86_64 ] || return 1
    apt-get indextargets --format '$(SITE) $(SUITE)' 'Created-By: Packages' 2>/dev/null |
        awk '$2 !~ /security|update/ { print $1; exit }' | grep .
}

unpacked() {
    local own=$HOME_OF_ALL/apt site
    site=$(mirror) || { echo "apt-get has no Debian mirror here, or this is no x86-64 machine"; return 1; }
    rm -rf "$own"
    mkdir -p "$own/state/lists/partial" "$own/cache/archives/partial" "$own/debs" "$own/root"
    touch "$own/status"
    echo "deb [signed-by=$KEYS] $site sid main" > "$own/sources.list"
    apt update >"$own/log" 2>&1 || { tail -n 1 "$own/log"; return 1; }
    (cd "$own/debs" && apt download "${PACKAGES[@]}" >>"$own/log" 2>&1) || { tail -n 1 "$own/log"; return 1; }
    local each
    for each in "$own"/debs/*.deb; do dpkg -x "$each" "$own/root"; done
    (cd "$own/debs" && ls intel-ocloc_*.deb libigc2_*.deb) | cut -d_ -f1,2 | tr _ ' ' > "$HOME_OF_ALL/ocloc-version"
    rm -rf "$own/debs" "$own/cache" "$own/state"
}

offline_compiler() {
    if [ -x "$HOME_OF_ALL/ocloc" ]; then return; fi
    local why
    if ! why=$(unpacked); then
        printf '%s\n' "$why" > "$HOME_OF_ALL/no-ocloc"
        say "no offline compiler: $why; what needs it is left out"
        return
    fi
    cat > "$HOME_OF_ALL/ocloc" <<'PROGRAM'
#!/bin/sh
root=$(dirname "$(readlink -f "$0")")/apt/root/usr
set -- "$(ls "$root"/bin/ocloc-* | head -n 1)" "$@"
exec "$root/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" --library-path "$root/lib/x86_64-linux-gnu" "$@"
PROGRAM
    chmod 755 "$HOME_OF_ALL/ocloc"
    "$HOME_OF_ALL/ocloc" ids bmg-g31 >/dev/null || lacks "ocloc from Debian does not start" "rm $HOME_OF_ALL/ocloc"
    rm -f "$HOME_OF_ALL/no-ocloc"
}

environment
offline_compiler
say "ready in $SECONDS s"
