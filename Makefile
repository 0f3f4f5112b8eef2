GO ?= go
.PHONY: build demo test check bench soak

build: ## bin/hermes-exec
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o bin/hermes-exec ./cmd/hermes-exec
demo: build ## the main job on real input: scripts over this source tree
	bin/hermes-exec run examples/survey.py . bin/survey.md
	bin/hermes-exec run examples/test_report.py ./registry ./envfilter ./output ./engine/approval ./config ./walk
	bin/hermes-exec run examples/refactor.py .
	bin/hermes-exec run examples/failing.py; code=$$?; echo "exit code $$code"; test $$code -eq 1
test: check ## everything, as root also as an ordinary user
	integration/test.sh
check: ## formatting, vet, staticcheck, a tidy go.mod, and the other systems build
	integration/check.sh
bench: build ## the table performance claims rest on
	CGO_ENABLED=0 $(GO) run ./bench/report
soak: build ## long runs: thousands of them, gigabytes of output
	HERMES_EXEC_SOAK=1 $(GO) test -count=1 -timeout 60m -run 'Soak|Scripts/.*/soak' ./integration ./engine
