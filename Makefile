GO ?= go
.PHONY: build guests demo test check bench soak vm

build: ## bin/hermes-exec
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o bin/hermes-exec ./cmd/hermes-exec
guests: ## bin/guests: the guest for boxes of another architecture; $HERMES_HOME/guests is where it is looked for
	for arch in amd64 arm64; do GOOS=linux GOARCH=$$arch CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o bin/guests/hermes-exec-linux-$$arch ./cmd/hermes-exec; done
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
	env $$(integration/docker.sh 2>/dev/null) $$(integration/sshd.sh start 2>/dev/null) CGO_ENABLED=0 $(GO) run ./bench/report
soak: build ## long runs: thousands of them, gigabytes of output
	HERMES_EXEC_SOAK=1 $(GO) test -count=1 -timeout 60m -run 'Soak|Scripts/.*/soak' ./integration ./engine ./backends/local
vm: ## the command on an older kernel with cgroup v2, in an emulated machine
	integration/vm.sh
