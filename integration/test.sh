#!/usr/bin/env bash
# All tests; as root also as an ordinary user, since the two meet different
# rules. Packages with concurrency run once more under the race detector, with
# -short. Most of the time goes into waiting, so more packages run at once than
# there are cores.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=
stop() { # what setup.sh started; daemons that ran before go on
	integration/docker.sh stop >/dev/null 2>&1 || true
	integration/sshd.sh stop >/dev/null 2>&1 || true
	rm -rf "$dir"
}
trap stop EXIT
integration/setup.sh
make -s build
export HERMES_EXEC_BIN="$PWD/bin/hermes-exec"
export HERMES_EXEC_TEST_UID=${HERMES_EXEC_TEST_UID:-12345}
# What the user runs, a line each. A test run that was killed, too, may have left some.
processes() { ps -o pid=,args= -U "$HERMES_EXEC_TEST_UID" || true; }
before=$(processes)
both=()
if [ "$(id -u)" -eq 0 ]; then
	dir=$(mktemp -d /tmp/user.XXXXXX)
	export HERMES_EXEC_TEST_USER_DIR=$dir
	mkdir "$dir/bin" "$dir/home" "$dir/tmp"
	cp -r . "$dir/src"
	for tag in nouserns nolandlock nowall; do # as on machines that have less
		go build -tags "$tag" -o "$dir/bin/hermes-exec-$tag" ./cmd/hermes-exec
	done
	cp bin/hermes-exec "$dir/bin/"
	chown -R "$HERMES_EXEC_TEST_UID:$HERMES_EXEC_TEST_UID" "$dir"
	chmod 755 "$dir"
	both=(-exec "$PWD/integration/as-both.sh")
fi

lean="-ldflags=-s -w" # half the time of linking
remote="./backends/docker ./sandbox/sshbox ./backends/ssh" # slow to start: they run once, with the detector
all=$(go list ./...)
if [ -z "$dir" ]; then
	all=$(grep -vxFf <(go list $remote) <<<"$all")
fi
CGO_ENABLED=0 go test -p 3 -vet=off "$lean" "${both[@]}" -timeout 20m -parallel 4 ./integration $all # the longest first
CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 go test -p 3 -vet=off "$lean" -race -short -timeout 20m $remote ./rpc ./engine ./guest ./guest/serve ./backends/local/... ./registry ./output ./walk
if [ -n "$dir" ]; then
	left=$(find "$dir/tmp" -mindepth 1 -not -type d -not -name '*.lock' -not -name lock | head -5) # locks of docker.sh and sshd.sh stay
	if [ -n "$left" ]; then
		echo "FAIL: left in the user's temp directory: $left" >&2
		exit 1
	fi
	for _ in $(seq 50); do # killed engines' guests may wait for init to reap them
		procs=$(processes | grep -vxFf <(echo "$before") || true)
		[ -n "$procs" ] || break
		sleep 0.1
	done
	if [ -n "$procs" ]; then
		echo "FAIL: processes of uid $HERMES_EXEC_TEST_UID left: $procs" >&2
		exit 1
	fi
fi

# Empty directories may stay until the next start; files and sockets may not.
left=$(find "${TMPDIR:-/tmp}"/hermes-exec-"$(id -u)" -mindepth 2 -not -type d 2>/dev/null | head -5 || true)
if [ -n "$left" ]; then
	echo "FAIL: left behind: $left" >&2
	exit 1
fi
echo "ok  	all tests"
