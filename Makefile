# The two commands of the README are `make demo` and `make test`; both do all set-up themselves.
CARGO ?= cargo
FUZZ_SECONDS ?= 20
FUZZ_SECONDS_FULL ?= 600
SOAK_SECONDS ?= 600
SOAK_SEED ?= 1
SOAK_STATE ?= target/chaos.json
PREFIX ?= /usr/local
DESTDIR ?=
# What make install puts there: make pgo builds target/pgo/programs.
BUILT ?= $${CARGO_TARGET_DIR:-target}/release

.PHONY: all help build demo check test test-full docs attacks soak interop kernels install uninstall deb deb-test rpm rpm-test dist static pgo bench lint audit loom miri fuzz man clean

all: build

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

build: ## Build the command and its libraries into target/release
	$(CARGO) build --release --locked -p manypath-cli -p manypath-preload -p manypath-sctp
	scripts/handover $${CARGO_TARGET_DIR:-target}/release/libmanypath_handover.so

demo: ## Measure scp and curl over two emulated paths, beside TCP and kernel MPTCP
	@scripts/setup build demo
	$(CARGO) build --release --locked -p manypath-cli
	$${CARGO_TARGET_DIR:-target}/release/manypath demo

check: ## Check format, lints, links of the pages and unit tests: minutes, without root, and nothing is installed
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	scripts/docs --check
	$(CARGO) test --workspace --locked --lib --bins

docs: ## Make a site of all pages, target/site/index.html
	@scripts/setup docs
	scripts/docs

test: ## Run everything that continuous integration checks
	@scripts/setup build demo test
	@-scripts/setup peers
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --workspace --locked
	bench/pieces --check
	$(MAKE) loom
	FUZZ_SEED=1 scripts/fuzz $(FUZZ_SECONDS)

# The slower checks: more random cases, longer fuzzing, the lab at speed, the demo itself.
test-full: test build ## Run the slower checks, too
	@scripts/setup full static python campaigns
	MANYPATH_CASES=20000 $(CARGO) test --release --locked -p manypath-sim
	$(CARGO) test --release --locked -p manypath-lab --test it -- --ignored throughput::
	$(CARGO) test --release --locked -p manypath-net --test it -- --ignored --test-threads 1 usrsctp::
	$(CARGO) test --release --locked -p manypath-cli --test it -- --ignored --test-threads 1 failover:: suspended:: uplinks::
	$(CARGO) test --release --locked -p manypath-cli --test it -- --ignored --nocapture --exact soak::soak soak::chaos::a_short_chaos_loses_nothing
	scripts/previous language
	scripts/previous release
	$(CARGO) test --release --locked -p manypath-cli --test it -- --ignored doctor:: service:: ssh_peers:: handover::
	$(CARGO) test --release --locked -p manypath-cli --test it -- --ignored --test-threads 1 servers:: clients:: kernel_sctp:: relayed_programs::
	MANYPATH_IN_CGROUP=1 $(CARGO) test --release --locked -p manypath-cli --test it -- --ignored --test-threads 1 servers:: clients::
	scripts/notebook
	scripts/campaigns
	packaging/container/test target/release/manypath
	scripts/static $$(uname -m)
	packaging/test/empty-root $${CARGO_TARGET_DIR:-target}/$$(uname -m)-unknown-linux-musl/dist/manypath
	$(MAKE) interop
	@scripts/setup ns3
	bench/second-simulator --quick
	@scripts/setup kernels
	scripts/kernels --only 6.12
	$(MAKE) deb-test
	$(MAKE) rpm-test
	$(MAKE) audit
	scripts/fuzz $(FUZZ_SECONDS_FULL)
	target/release/manypath-lab sim live papers/dreibholz2010/live/fig4.toml --seeds 1 --jobs 2 --tolerance 0.07
	target/release/manypath-lab sim live papers/dreibholz2010/live/fig7.toml --seeds 1 --jobs 2 --tolerance 0.07 \
		--case 'paper, fixed' --case 'paper, round robin' --case 'production' --case 'production, dynamic'
	target/release/manypath demo --json

# The tables of docs/interop.md: transfers with other SCTP implementations, 100 MB each way, minutes for each of them; and programs made for the
# kernel's SCTP.
interop: ## Transfer with other SCTP implementations, and write docs/interop.md
	@scripts/setup build
	@-scripts/setup peers full
	$(CARGO) build --release --locked -p manypath-sctp -p manypath-preload -p manypath-cli -p manypath-interop
	$${CARGO_TARGET_DIR:-target}/release/manypath-interop --write docs/interop.md

# The table of docs/platforms.md: kernels of Debian's releases in QEMU, without KVM and without root. For the arm64 column set
# MANYPATH_ARM64 to a binary for arm64, static or with Debian's C library.
kernels: ## Boot other kernels in QEMU, and write docs/platforms.md
	@scripts/setup build kernels
	$(CARGO) build --release --locked -p manypath-cli
	scripts/kernels --only 5.10 --only 6.1 --only 6.12 --only newest --write docs/platforms.md
	[ -z "$(MANYPATH_ARM64)" ] || scripts/kernels --only arm64 --manypath-arm64 "$(MANYPATH_ARM64)" --write docs/platforms.md

# Attacks against a running server, each with the figure that it must keep (docs/defences.md); needs root.
attacks: ## Attack a running server and hold each figure against its bound (root)
	@scripts/setup build demo test
	$(CARGO) build --release --locked -p manypath-cli -p manypath-attacks
	$(CARGO) test --no-run --locked -p manypath-cli --test it
	$${CARGO_TARGET_DIR:-target}/release/manypath-attacks --manypath $${CARGO_TARGET_DIR:-target}/release/manypath

# Faults of the network and of processes, with plain TCP beside manypath (docs/soak.md); each run adds a piece to SOAK_STATE. Needs root.
soak: ## Disturb transfers through manypath and by plain TCP, and compare them (root)
	@scripts/setup build demo test
	MANYPATH_CHAOS_SECONDS=$(SOAK_SECONDS) MANYPATH_CHAOS_SEED=$(SOAK_SEED) MANYPATH_CHAOS_STATE=$(abspath $(SOAK_STATE)) \
		$(CARGO) test --release --locked -p manypath-cli --test it -- --ignored --nocapture --exact soak::chaos::chaos

# PREFIX (/usr/local) and DESTDIR as usual; what `make build` has built, without building anything as root.
install: ## Install what make build has built (PREFIX, DESTDIR)
	@scripts/setup install
	PREFIX=$(PREFIX) scripts/stage "$(BUILT)" '$(if $(DESTDIR),$(abspath $(DESTDIR)))'

uninstall: ## Remove what make install has put there; settings and rules in /etc/manypath stay
	PREFIX=$(PREFIX) scripts/unstage "$(BUILT)" '$(if $(DESTDIR),$(abspath $(DESTDIR)))'

# The Debian packages, and their test in a fresh Debian with systemd.
deb: ## Build the Debian packages into target/deb
	@scripts/setup build deb
	scripts/deb

deb-test: deb ## Install, use and purge the packages in a fresh Debian (root)
	scripts/test-deb

rpm: ## Build the rpm packages into target/rpm
	@scripts/setup build rpm
	scripts/rpm

rpm-test: rpm ## Install, use and remove the rpm packages in a root file system of their own (root)
	scripts/test-packages target/rpm/*.rpm

dist: ## Build archives and packages for x86-64 and aarch64, checksums and the list of crates, into target/packages
	@scripts/setup build dist
	scripts/dist

static: ## Build static programs for x86-64 and aarch64 and print their sizes
	@scripts/setup build static
	scripts/static

pgo: ## Build the programs with a profile of their own work, into target/pgo/programs
	@scripts/setup build pgo
	scripts/pgo

# How fast the simulator is and what the engine costs; bench/README.md explains the numbers.
bench: ## Measure the simulator and what the engine costs
	@scripts/setup build
	bench/sim
	bench/engine
	bench/pieces

lint: ## Check the format and run clippy
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# Licences, duplicates, sources and known vulnerabilities of the crates that manypath is built from (deny.toml).
audit: ## Check licences and advisories of the crates in use
	@scripts/setup audit
	scripts/audit

# The orders in which the threads of crates/daemon/src/jobs.rs can run, up to three interruptions of a thread in each.
loom: ## Check the threads of the stack in all orders
	LOOM_MAX_PREEMPTIONS=3 RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=$${CARGO_TARGET_DIR:-target}/loom \
		$(CARGO) test --release --locked --manifest-path tests/loom/Cargo.toml

# Unit tests of the crates that read packets, in an interpreter that sees undefined behaviour (docs/defences.md).
miri: ## Run unit tests of the crates that read packets in Miri
	@scripts/setup miri
	scripts/miri

fuzz: ## Fuzz each target for FUZZ_SECONDS
	scripts/fuzz $(FUZZ_SECONDS)

man: build ## Write the man pages into target/man
	for program in manypath manypath-lab manypath-ssh; do target/release/$$program man target/man; done

clean: ## Remove what was built
	$(CARGO) clean
