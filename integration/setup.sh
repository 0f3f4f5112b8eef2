#!/usr/bin/env bash
# Installs what the tests need and the machine lacks. Idempotent, and quick when
# all is there. Without root, or without apt, it says what is missing.
set -euo pipefail

missing=()
need() { # need PROGRAM PACKAGE
	[ -x "$(command -v "$1" || true)" ] || missing+=("$2")
}
need /usr/bin/python3 python3
need bash bash
need git git
need rg ripgrep
need setpriv util-linux
need node nodejs
need npm npm
module() { # module NAME PACKAGE: of the system's Python
	/usr/bin/python3 -c "import $1" 2>/dev/null || missing+=("$2")
}
module ensurepip python3-venv
module pytest python3-pytest
if [ ${#missing[@]} -gt 0 ]; then
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "setup: missing ${missing[*]}; install them, or run as root on a machine with apt" >&2
	else
		echo "setup: installing ${missing[*]}" >&2
		export DEBIAN_FRONTEND=noninteractive
		apt-get update -qq
		apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
	fi
fi

# Real servers for the backends that need one. What cannot be had is said, and
# the tests decide whether they can do without.
cd "$(dirname "$0")"
./docker.sh >/dev/null || true
./sshd.sh start >/dev/null || true
