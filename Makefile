# `make help` lists the targets.
GO      ?= go
BIN     := bin
TOOLS   := tools/go.mod
# All builds except those with the race detector use the settings of releases, so that lint, tests and programs share
# the build cache.
export CGO_ENABLED := 0
export GOFLAGS     := $(GOFLAGS) -trimpath
STATIC  := $(GO) build -ldflags '-s -w'
PKGS    := ./...

# With RERUN=1 a failed test runs alone up to two more times, unless there was a data race. On a machine with few
# processors, some tests time out when many run together. A test that fails every time fails the run. -vet=off because
# lint has already vetted the tests.
ifdef RERUN
run = $(GO) tool -modfile=$(TOOLS) gotestsum --format standard-quiet --rerun-fails=2 --rerun-fails-max-failures=8 --rerun-fails-abort-on-data-race --packages "$(2)" -- -vet=off $(1)
else
run = $(GO) test $(1) $(2)
endif

.PHONY: help build test race lint fmt demo generate images bench fuzz sim

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build director, worker, the fake GitHub and provider, the demo and its agent into bin/
	$(STATIC) -o $(BIN)/director ./cmd/director
	$(STATIC) -o $(BIN)/worker ./cmd/worker
	$(STATIC) -o $(BIN)/githubsim ./cmd/githubsim
	$(STATIC) -o $(BIN)/providersim ./cmd/providersim
	$(STATIC) -o $(BIN)/demo ./cmd/demo
	$(STATIC) -o $(BIN)/demo-agent ./internal/demo/agent
	@echo "built: $(BIN)/director $(BIN)/worker $(BIN)/githubsim $(BIN)/providersim $(BIN)/demo $(BIN)/demo-agent"

test: ## Run all tests. Docker tests run only if an engine answers (RETAKE_REQUIRE_DOCKER=1: fail if none does)
	@$(MAKE) --no-print-directory docker-hint
	$(call run,-timeout 60m,$(PKGS))
	@echo "tests passed"

# The pure packages and their simulator do not start goroutines, so the race detector has nothing to find there. A test
# checks the list. Tests of other packages use them concurrently.
PURE  = $(shell sed -n 's|^\t"\(retake/internal/[^"]*\)":.*|\1|p' internal/fsm/purity_test.go) retake/internal/fsm/fsmtest
# The tests of these packages start programs built without the detector, or use only one goroutine. Linking them with
# the detector takes longer than running them, so only the nightly run does it.
BUILT = $(addprefix retake/,cmd/demo cmd/director cmd/githubsim cmd/providersim cmd/worker deploy/kubernetes internal/advise internal/agenttest internal/agenttest/loop internal/agenttest/trial \
	internal/attack internal/bench internal/bench/cmd/bench internal/chaos internal/config internal/demo internal/demo/agent internal/director/internal/witness internal/director/offline \
	internal/director/telemetry internal/doctor internal/fsm/fsmtest/deep internal/github/command internal/github/githubtest internal/github/pages internal/github/prose internal/github/shown \
	internal/release internal/secrets/scope internal/sys/publicaddr internal/testbed internal/testfiles)
RACED = $(filter-out $(PURE) $(BUILT),$(shell $(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' $(PKGS)))
race: ## Run the tests with the race detector, and print which packages are skipped and why
	@$(MAKE) --no-print-directory docker-hint
	@echo "skipped, because these packages do not start goroutines:$(patsubst retake/internal/%, %,$(PURE))"
	@echo "skipped except in make nightly, because the tests start programs built without the detector, or use one goroutine:$(patsubst retake/%, %,$(BUILT))"
	@grep -rno --include='*_test.go' 'Skip("[^"]*race detector[^"]*")' cmd internal | sed 's|^\(.*\):Skip("\(.*\)")$$|skipped: \1: \2|'
	CGO_ENABLED=1 $(call run,-race -timeout 60m,$(RACED))
	@echo "tests passed with the race detector"

.PHONY: docker-hint
docker-hint:
	@docker version >/dev/null 2>&1 || \
	  if [ "$$RETAKE_REQUIRE_DOCKER" = 1 ]; then echo "no Docker engine answers, and RETAKE_REQUIRE_DOCKER=1" >&2; exit 1; \
	  else echo "skipped the Docker tests: no engine answers (start one; docker info shows the reason)"; fi

.PHONY: setup house
setup: ## Install the hook that checks commit subjects
	git config core.hooksPath tools/hooks
	@echo "git now requires commit subjects of the form package: verb what"

HOUSE    = $(GO) run -C tools ./house
SUBJECTS = $(shell git log --diff-filter=A --format=%h -- tools/house/subject.go | tail -1)..HEAD
house: ## Lower the recorded debt (tools/house/debt.txt) to the current numbers, and print sizes by package
	@$(HOUSE) check -root .. -update
	@$(HOUSE) size -root ..

lint: ## Check formatting, style, imports, purity, sizes, idioms and commit subjects
	@mkdir -p $(BIN)
	@out=$$($(GO) tool -modfile=$(TOOLS) gofumpt -l bench cmd internal docs tools); [ -z "$$out" ] || { echo "gofumpt would change:"; echo "$$out"; exit 1; }
	$(GO) tool -modfile=$(TOOLS) golangci-lint run $(PKGS) # includes go vet
	cd bench/peers && $(GO) vet . && $(GO) test . # a separate module, so not in $(PKGS)
	@$(GO) test -count=1 -run 'TestPure' -v ./internal/fsm > $(BIN)/purity.txt || { cat $(BIN)/purity.txt; exit 1; }
	@grep imports $(BIN)/purity.txt
	@$(GO) test -C tools ./house
	@$(HOUSE) check -root ..
	@$(HOUSE) subjects -root .. $(SUBJECTS)
	@echo "lint passed"

fmt: ## Format the code
	$(GO) tool -modfile=$(TOOLS) gofumpt -w bench cmd internal docs tools

generate: ## Regenerate documents and golden files
	$(GO) test -p 1 ./internal/fsm ./internal/recovery ./internal/recovery/classify ./internal/recovery/policy ./internal/bus/journal ./internal/bus/wire ./internal/config ./internal/doctor ./internal/agent ./internal/audit ./internal/agenttest ./internal/testfiles ./internal/secrets/protected -update
	$(GO) test ./cmd/director -run Handbook -update

.PHONY: nightly
nightly: ## Run the long searches that `make test` skips: all worlds, all mutants, more cases of every property
	RETAKE_NIGHTLY=1 $(GO) test -count=1 -timeout 60m ./internal/fsm/...
	RETAKE_NIGHTLY=1 $(GO) test -count=1 -timeout 60m -run TestInventoryNeverDecides ./internal/recovery/classify
	RETAKE_NIGHTLY=1 $(GO) test -count=1 -timeout 60m -run TestLargeRepositories ./internal/workspace
	RETAKE_NIGHTLY=1 $(GO) test -count=1 -timeout 60m -run "TestAsksTwentyDrawnFailures|TestAsksNameTheProfilesOwn" ./internal/director
	RETAKE_NIGHTLY=1 CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 60m $(BUILT) ./internal/director
	$(MAKE) bench ONLY=backlog
	$(MAKE) chaos SWEEP=1 ROUNDS=20 RUNTIME=processes BUS=embedded TTL=3,90

sim: ## Let the simulator try to break the core (SEED=7 STEPS=20000000; WORLD=n replays one world, EXPLORE=100000 searches small ones)
	$(GO) run ./internal/fsm/fsmtest/cmd/sim $(if $(SEED),-seed $(SEED)) $(if $(STEPS),-steps $(STEPS)) $(if $(WORLD),-world $(WORLD)) $(if $(EXPLORE),-explore $(EXPLORE))

bench: ## Measure a running director, compare it with the raw bus and the goals, and write bin/bench.json (ONLY=decisions,boot; QUICK=1: as in CI; BASELINE=DIR: compare the build in DIR)
	@$(if $(BASELINE),RETAKE_BENCH_BASELINE=$(abspath $(BASELINE)) )$(GO) run ./internal/bench/cmd/bench $(if $(ONLY),-only $(ONLY)) $(if $(QUICK),-quick)

.PHONY: bench-core
bench-core: ## Measure only the functions of the pure core
	$(GO) test ./internal/recovery/... ./internal/fsm -run '^$$' -bench . -benchmem

.PHONY: bench-peers
bench-peers: ## Compare our decisions with two job queues, river on PostgreSQL and asynq on Redis. Starts both servers (exit 2 if one is missing)
	@GO="$(GO)" bench/peers/run.sh

FUZZTIME ?= 60s
FUZZERS  := recovery/classify:FuzzClassify recovery/loglines:FuzzRead recovery/retryafter:FuzzRetryAfter recovery/signature:FuzzSignature recovery/policy:FuzzPolicy advise:FuzzClassifyLine advise:FuzzDecideLine \
	agent:FuzzReader plainjson:FuzzReader audit:FuzzParseStats bus/wire:FuzzDecode config:FuzzLoad
fuzz: ## Fuzz the functions that read untrusted bytes, each for FUZZTIME (default 60s)
	@for f in $(FUZZERS); do echo "== $$f"; $(GO) test ./internal/$${f%%:*} -run '^$$' -fuzz "^$${f##*:}$$" -fuzztime $(FUZZTIME) || exit 1; done

images: ## Build the images for docker-compose.yml (BASE_IMAGE: an image with git and CA certificates; default: built from Debian packages)
	GO="$(GO)" deploy/images.sh

demo: build ## Run the demo: thirteen failures and recoveries in containers, with a fake GitHub
	$(BIN)/demo

.PHONY: attacks
attacks: ## Attack a running director, and print whether it withstood each attack (exit 1 if not). Needs Docker for attacks from containers (ONLY=hellos; BASELINE=DIR: attack the build in DIR)
	@mkdir -p $(BIN)
	@{ $(GO) test -count=1 -timeout 90m -v ./internal/attack -args -attacks -only '$(ONLY)' $(if $(BASELINE),-baseline '$(abspath $(BASELINE))') 2>&1; echo "exit $$?"; } | \
	  tee $(BIN)/attacks.log | grep --line-buffered '^|'; grep -qx 'exit 0' $(BIN)/attacks.log || { echo "see $(BIN)/attacks.log" >&2; exit 1; }

.PHONY: chaos
ROUNDS ?= 15
chaos: ## Inject faults into a running director, and check the result from outside (ROUNDS=200 SEED=7 RUNTIME=processes BUS=joined,cluster TTL=3,90 ONLY=killed). Instead, CRASHPOINTS=1 kills it at every crash point, and SWEEP=1 slows it down in many ways, ROUNDS times each
	$(STATIC) -o $(BIN)/director ./cmd/director
	$(STATIC) -o $(BIN)/worker ./cmd/worker
	$(STATIC) -o $(BIN)/chaos ./internal/chaos/cmd/chaos
	$(if $(CRASHPOINTS),$(STATIC) -tags crashpoints -o $(BIN)/director-crashpoints ./cmd/director)
	$(BIN)/chaos $(if $(CRASHPOINTS),-crashpoints -director $(BIN)/director-crashpoints,-rounds $(ROUNDS)) $(if $(SWEEP),-sweep) $(if $(SEED),-seed $(SEED)) $(if $(RUNTIME),-runtime $(RUNTIME)) $(if $(BUS),-bus $(BUS)) $(if $(TTL),-ttl $(TTL)) $(if $(ONLY),-only '$(ONLY)') -keep $(BIN)/chaos-logs

.PHONY: agents agents-install
AGENTS_DIR := $(or $(RETAKE_AGENTS_DIR),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/retake/agents)
agents: ## Run every known agent CLI that is installed through all cases of the fake provider, and write docs/specs/agents-matrix.md (ONLY=crush)
	$(STATIC) -o $(BIN)/worker ./cmd/worker
	$(STATIC) -o $(BIN)/agentloop ./internal/agenttest/cmd/agentloop
	$(GO) run ./internal/agenttest/cmd/matrix -bin $(BIN) -agents $(AGENTS_DIR) $(if $(ONLY),-only $(ONLY) -o -)

agents-install: ## Build pinned agent CLIs from source into RETAKE_AGENTS_DIR (default ~/.cache/retake/agents)
	RETAKE_AGENTS_DIR=$(AGENTS_DIR) internal/agenttest/cmd/matrix/install.sh

.PHONY: release release-check
release: ## Build the release into dist/: static programs for linux/amd64 and arm64, an inventory of their contents (CycloneDX), licences, checksums
	@$(GO) run ./internal/release -out dist

release-check: ## Build the release of the last commit twice, in two directories without a shared cache, and compare the results
	@work=$$(mktemp -d); trap 'chmod -R u+w "$$work"; rm -rf "$$work"' EXIT; set -e; \
	for n in one two/deeper; do \
	  git clone --quiet . "$$work/$$n"; \
	  (cd "$$work/$$n" && GOCACHE="$$work/cache-$${n%/*}" $(GO) run ./internal/release -out "$$work/out-$${n%/*}" >/dev/null); \
	done; \
	diff -r "$$work/out-one" "$$work/out-two" && cat "$$work/out-one/SHA256SUMS" && echo "both builds are identical"

.PHONY: kube-build kube-test
kube-build: ## Build Kubernetes for kube-test, and helm, once, into ~/.cache/retake/kube (600 MB of modules, 12 minutes on two processors)
	tools/kube/build.sh
	tools/kube/helm.sh version

kube-test: ## Run the Kubernetes tests on a disposable single-node cluster, as root. Needs kube-build (ONLY=LostNode)
	@tools/kube/test.sh -count=1 -timeout 20m $(if $(ONLY),-run '$(ONLY)',-run 'OnANode|NotAdmitted') ./internal/container/kubernetes
	$(if $(ONLY),,@$(MAKE) --no-print-directory kube-chart)
	$(if $(ONLY),,@$(MAKE) --no-print-directory kube-demo ARGS="--kill-director 3")

.PHONY: kube-demo
kube-demo: build ## Run the demo with Jobs in a disposable cluster, as root. Needs kube-build (ARGS="--only 7 --json")
	@tools/kube/demo.sh $(ARGS)

.PHONY: kube-fleet
kube-fleet: ## Measure 2,000 attempts on fake nodes that only report running pods, as root. Needs kube-build (FLEET=100)
	@FLEET=$(or $(FLEET),2000) tools/kube/fleet.sh

.PHONY: kube-chart kube-manifests
kube-chart: ## Test the chart with several sets of values, and its Role, on a real API server. Needs kube-build
	@tools/kube/chart-test.sh

kube-manifests: ## Regenerate deploy/kubernetes from the chart with its default values (builds helm once)
	tools/kube/manifests.sh

.PHONY: escalations
escalations: ## Render a page for every kind of question, as GitHub shows it, into RETAKE_ESCALATIONS (default bin/escalations)
	RETAKE_ESCALATIONS=$(abspath $(or $(RETAKE_ESCALATIONS),$(BIN)/escalations)) $(GO) test -count=1 -run 'TestEscalations$$' -v ./internal/director | grep pages
