#!/usr/bin/env bash
# Formatting, vet, staticcheck, a tidy go.mod, and a build for every system.
set -euo pipefail
cd "$(dirname "$0")/.."

unformatted=$(gofmt -l $(git ls-files '*.go'))
if [ -n "$unformatted" ]; then
	echo "not gofmt'ed: $unformatted" >&2
	exit 1
fi
go vet ./...
go tool staticcheck ./...
go mod tidy -diff
for system in darwin windows; do
	GOOS=$system CGO_ENABLED=0 go build -o /dev/null ./cmd/hermes-exec
	echo "ok  	builds for $system"
done
GOARCH=arm64 GOOS=linux CGO_ENABLED=0 go build -o /dev/null ./cmd/hermes-exec # where the copies' stacks are the smallest
echo "ok  	builds for arm64"
echo "ok  	check"
