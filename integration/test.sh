#!/usr/bin/env bash
# All tests; as root also as an ordinary user, since the two meet different
# rules. Packages with concurrency run under the race detector.
set -euo pipefail
cd "$(dirname "$0")/.."

integration/setup.sh
before=$(ls -d "${TMPDIR:-/tmp}"/hermes-exec-* 2>/dev/null | sort || true)

race=(./rpc ./engine ./guest ./backends/... ./registry/... ./sandbox/... ./output)
mapfile -t all < <(go list ./...)
mapfile -t raced < <(go list "${race[@]}")
plain=()
for pkg in "${all[@]}"; do
	case " ${raced[*]} " in *" $pkg "*) ;; *) plain+=("$pkg") ;; esac
done

CGO_ENABLED=1 go test -race -timeout 8m "${raced[@]}"
go test -timeout 8m "${plain[@]}"
if [ "$(id -u)" -eq 0 ]; then
	integration/as-user.sh
fi

after=$(ls -d "${TMPDIR:-/tmp}"/hermes-exec-* 2>/dev/null | sort || true)
echo "ok  	all tests"
