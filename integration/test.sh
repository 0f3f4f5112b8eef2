#!/usr/bin/env bash
# All tests; as root also as an ordinary user, since the two meet different
# rules. Packages with concurrency run once more under the race detector, with
# -short.
set -euo pipefail
cd "$(dirname "$0")/.."

stop() { # what setup.sh started; daemons that ran before go on
	integration/docker.sh stop >/dev/null 2>&1 || true
	integration/sshd.sh stop >/dev/null 2>&1 || true
}
trap stop EXIT
integration/setup.sh
make -s build
export HERMES_EXEC_BIN="$PWD/bin/hermes-exec"
lean="-ldflags=-s -w" # half the time of linking
remote="./backends/docker ./sandbox/sshbox ./backends/ssh" # slow to start: they run once, with the detector
CGO_ENABLED=0 go test -vet=off "$lean" -timeout 8m -parallel 4 $(go list ./... | grep -vxFf <(go list $remote))
CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 go test -vet=off "$lean" -race -short -timeout 8m $remote ./rpc ./engine ./guest ./guest/serve ./backends/local/... ./registry ./output ./walk
if [ "$(id -u)" -eq 0 ]; then
	integration/as-user.sh
fi

# Empty directories may stay until the next start; files and sockets may not.
left=$(find "${TMPDIR:-/tmp}"/hermes-exec-"$(id -u)" -mindepth 2 -not -type d 2>/dev/null | head -5 || true)
if [ -n "$left" ]; then
	echo "FAIL: left behind: $left" >&2
	exit 1
fi
echo "ok  	all tests"
