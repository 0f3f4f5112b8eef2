#!/usr/bin/env bash
# What go test -exec starts: one package's tests, in its directory, as root and
# then again under an ordinary uid: no account, no home of anybody else's, no
# capabilities. test.sh has made what is needed in HERMES_EXEC_TEST_USER_DIR.
set -uo pipefail
dir=$HERMES_EXEC_TEST_USER_DIR
src=$(cd "$(dirname "$0")/.." && pwd)
code=0
case ${PWD#"$src"/} in
backends/docker | sandbox/sshbox | backends/ssh) ;; # as root they run with the detector
*) "$@" || code=$? ;;
esac

uid=$HERMES_EXEC_TEST_UID
require=${HERMES_EXEC_REQUIRE:-}
require=${require//,docker/} # the daemon is root's
require=${require//,ssh/}    # sshd serves nobody without an account
bin=$(mktemp "$dir/bin/XXXXXX.test")
cp "$1" "$bin"
chmod 755 "$bin"
shift
flags=()
for flag; do
	case $flag in -test.testlogfile=*) ;; *) flags+=("$flag") ;; esac # root's
done
case ${PWD#"$src"/} in
sandbox/sshbox | backends/ssh | rpc | walk | output)
	flags+=(-test.short) # what it leaves out no uid changes, and root has run it
	;;
esac
if ! out=$(cd "$dir/src${PWD#"$src"}" && setpriv --reuid "$uid" --regid "$uid" --clear-groups --bounding-set=-all \
	env -i HOME="$dir/home" TMPDIR="$dir/tmp" PATH="/usr/local/bin:/usr/bin:/bin:$(go env GOROOT)/bin" LANG=C.UTF-8 GORACE="${GORACE:-}" \
	HERMES_EXEC_BIN="$dir/bin/hermes-exec" HERMES_EXEC_REQUIRE="$require" \
	"$bin" "${flags[@]}" 2>&1); then
	printf '%s\nFAIL as uid %s\n' "$out" "$uid"
	code=1
fi
rm -f "$bin"
exit $code
