#!/usr/bin/env bash
# Runs every package's tests again under an ordinary uid: no account, no home of
# anybody else's, no capabilities. Root compiles; the user only runs.
set -euo pipefail
cd "$(dirname "$0")/.."

uid=${HERMES_EXEC_TEST_UID:-12345}
require=${HERMES_EXEC_REQUIRE:-}
require=${require//,docker/} # the daemon is root's
require=${require//,ssh/}    # sshd serves nobody without an account
dir=$(mktemp -d /tmp/user.XXXXXX)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/bin" "$dir/home" "$dir/tmp"
cp -r . "$dir/src"
go build -o "$dir/bin/hermes-exec" ./cmd/hermes-exec
for tag in nouserns nolandlock; do # as on machines that have less
	go build -tags "$tag" -o "$dir/bin/hermes-exec-$tag" ./cmd/hermes-exec
done
chown -R "$uid:$uid" "$dir"
chmod 755 "$dir"

# one PACKAGE DIR: compiles and runs one package's tests.
one() {
	local pkg=$1 path=$2 name=${1//\//_}.test start short=
	case $pkg in */sshbox | */backends/ssh) short=-test.short ;; esac # as root before
	if ! go test -c -vet=off -ldflags="-s -w" -o "$dir/bin/$name" "$pkg"; then
		touch "$dir/failed"
		return
	fi
	start=$(date +%s)
	if (cd "$dir/src/${path#"$PWD"}" && setpriv --reuid "$uid" --regid "$uid" --clear-groups --bounding-set=-all \
		env -i HOME="$dir/home" TMPDIR="$dir/tmp" PATH="/usr/local/bin:/usr/bin:/bin:$(go env GOROOT)/bin" LANG=C.UTF-8 \
		HERMES_EXEC_BIN="$dir/bin/hermes-exec" HERMES_EXEC_REQUIRE="$require" \
		"$dir/bin/$name" -test.timeout 8m -test.parallel 4 $short) >"$dir/out.$name" 2>&1; then
		printf 'ok  \t%s\t%ss (uid %s)\n' "$pkg" "$(($(date +%s) - start))" "$uid"
	else
		cat "$dir/out.$name"
		printf 'FAIL\t%s (uid %s)\n' "$pkg" "$uid"
		touch "$dir/failed"
	fi
}

# Two packages at once, the longest first.
list() { go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}' "$@"; }
while read -r pkg path; do
	while [ "$(jobs -rp | wc -l)" -ge 2 ]; do
		wait -n || true
	done
	one "$pkg" "$path" &
done < <(list ./integration && list ./... | grep -v '/integration ')
wait
failed=0
[ ! -e "$dir/failed" ] || failed=1

left=$(find "$dir/tmp" -mindepth 1 -not -type d -not -name '*.lock' -not -name lock | head -5) # locks of docker.sh and sshd.sh stay
if [ -n "$left" ]; then
	echo "FAIL: left in the user's temp directory:" "$left"
	failed=1
fi
for _ in $(seq 50); do # killed engines' guests may wait for init to reap them
	procs=$(ps -o pid=,args= -U "$uid" || true)
	[ -n "$procs" ] || break
	sleep 0.1
done
if [ -n "$procs" ]; then
	echo "FAIL: processes of uid $uid left: $procs"
	failed=1
fi
exit $failed
