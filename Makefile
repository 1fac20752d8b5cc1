# Each target is a script or a cargo call. `make demo` and `make test` install missing packages.

# Outside the clone, so that dependencies are built once for all clones: DataFusion takes most of half an hour.
export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dlio-target
# The build of this clone.
export DLIO_DIST ?= $(CURDIR)/target/dist
# Python with libraries that read the files dlio writes; tests/setup.sh installs it.
export DLIO_TEST_PYTHON ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dlio-venv/bin/python
export DLIO_BIN_DIR := $(DLIO_DIST)/bin
export DLIO_PRELOAD := $(DLIO_DIST)/lib/libdliotrace.so
PREFIX ?= /usr/local

.PHONY: help own demo test fuzz test-verdict test-what-if test-torch test-gpu test-stores test-trackers test-mpi test-systems test-aarch64 test-packages test-mlpstorage test-prometheus test-kubernetes build build-mpi wheel packages docs bench bench-quick bench-readme bench-peers bench-objects bench-programs install uninstall clean setup-demo setup-test setup-torch setup-stores setup-trackers setup-mpi setup-packages setup-frameworks setup-kubernetes say-test doc lint

help:
	@echo "make demo          build, trace a small benchmark run, print the report"
	@echo "make build         build programs and libraries into $(DLIO_DIST)"
	@echo "make build-mpi     also build libdlio_mpi.so for the installed MPI"
	@echo "make wheel         build the Python package into $(DLIO_DIST)/wheel"
	@echo "make packages      build a tarball, .deb, .rpm, bill of materials and checksums from the build"
	@echo "make docs          build the book into target/docs, with mdBook"
	@echo "make install       install the build, manual pages and shell completions into PREFIX=$(PREFIX); make uninstall removes them"
	@echo "make test          run all checks; the targets below install what they need"
	@echo "make test-torch    install PyTorch (5 minutes, 6 GB) and run its tests"
	@echo "make test-gpu      on a host with a GPU, compare the recorded waits of the GPU with the truth, in trainings with PyTorch"
	@echo "make test-verdict  compare reports with the timers of small trainings that wait for known causes (15 minutes);"
	@echo "                   JOBS=\"decode http\" selects some; jobs with PyTorch and other libraries need make setup-torch"
	@echo "make test-what-if  change the loaders of 29 small trainings and compare the times with the predictions of"
	@echo "                   \`dlio-analyze --what-if\` (half an hour on an idle host, with PyTorch); JOBS=\"decode lock\" selects some"
	@echo "make test-stores   install boto3, s3fs and others, nginx and OpenStack Swift (250 MB) and run their tests (minutes)"
	@echo "make test-trackers install W&B, MLflow and tensorboardX (300 MB) and run their tests (a minute)"
	@echo "make test-mpi      install Open MPI and libclang, build libdlio_mpi.so and test ranks under mpirun; also 64 ranks on 4 hosts,"
	@echo "                   which are namespaces (as root)"
	@echo "make test-systems  run the build in roots of other systems (glibc 2.31 and 2.41, by debootstrap, 600 MB; as root);"
	@echo "                   ROOTS=\"DIR ...\" adds more"
	@echo "make test-aarch64  build the library for aarch64 and compare a trace under qemu-user with one of this host"
	@echo "make test-packages build the packages, and install, run and remove each in a fresh root (as root, 350 MB)"
	@echo "make test-mlpstorage MLPSTORAGE=COMMAND  test with MLPerf Storage's program, started by COMMAND"
	@echo "make test-prometheus  unpack Prometheus (70 MB) and compare the queries of the dashboard with \`dlio top\` (half a minute)"
	@echo "make test-kubernetes  run the pods of the Kubernetes recipe in namespaces (as root)"
	@echo "make fuzz          run random processes: FUZZ_RUNS, FUZZ_SEED and FUZZ_SECONDS set how many"
	@echo "make bench         compare dlio with other tools (up to 40 minutes); bench-quick: a few minutes;"
	@echo "                   bench-peers: install the tools; bench-readme: write the last full run into BENCHMARKS.md"

demo: setup-demo build
	@examples/demo.sh

# Restores the default signal actions: under `nohup make test &` and in services, some signals are ignored.
AS_USUAL := $(shell env --default-signal true 2>/dev/null && echo env --default-signal)

# setup-test installs all dependencies, so a test that lacks one fails instead of being skipped.
test: export DLIO_TESTS_WHOLE := 1
STAGE := @tests/stage.sh
test: say-test setup-test
	@tests/stage.sh --begin
	$(STAGE) "format, clippy" $(MAKE) --no-print-directory lint
	$(STAGE) "build" $(MAKE) --no-print-directory build
	$(STAGE) "code documentation" $(MAKE) --no-print-directory doc
	$(STAGE) "build of the tests" cargo test --release --workspace --exclude dlio-preload --no-run
	$(STAGE) "unit tests, traced programs" $(AS_USUAL) cargo test --release --workspace --exclude dlio-preload
	$(STAGE) "examples" $(AS_USUAL) examples/run-tests.sh
	$(STAGE) "verdicts on jobs of known cause" $(AS_USUAL) tests/jobs/verdicts.py --short --tries 3
	$(STAGE) "Python package" $(AS_USUAL) python/run-tests.sh
	$(STAGE) "docs: links, commands, reports" $(AS_USUAL) tests/docs/run-tests.sh
	$(STAGE) "instructions per call" $(AS_USUAL) tests/bench/run-tests.sh
	$(STAGE) "Perfetto UI" $(AS_USUAL) tests/run-ui.sh
	@tests/stage.sh --times

# Ranks under mpirun that communicate through its MPI. `make test` runs these tests, too, if mpirun is installed.
test-mpi: setup-mpi build build-mpi
	cargo test --release --workspace --exclude dlio-preload --test ranks --test collectives --test mpi
	DLIO_TESTS_RANKS=64 cargo test --release --package dlio-tests --test job -- --test-threads 1
	DLIO_TESTS_RANKS=1000 cargo test --release --package dlio-analyzer --test ranks

# Spans of PyTorch, which is installed into a separate environment. `make test` runs these tests, too, once PyTorch is installed.
test-torch: setup-torch build
	python/run-tests.sh --torch

# Waits of a real GPU, which most hosts do not have.
test-gpu:
	@if tests/gpu/compare.py --check; then $(MAKE) setup-torch wheel && tests/gpu/compare.py; fi

# Verdicts on jobs that time themselves: run it on an idle host.
test-verdict: setup-test wheel
	tests/jobs/verdicts.py $(JOBS)

# Compares the predicted and the measured effect of changes to loaders: run it on an idle host.
test-what-if: setup-torch wheel
	tests/jobs/what_if.py $(if $(JOBS),--jobs $(JOBS)) $(WHAT_IF_ARGUMENTS)

# Tests traced requests of other object store clients, in a separate environment (`make test` runs these tests, too, once the
# environment is installed), and dlio's own client with other servers: nginx and OpenStack Swift.
test-stores: setup-stores build
	python/run-tests.sh --stores
	tests/run-stores.py

# Reports in W&B, MLflow and TensorBoard, offline. Tests of the callbacks of Lightning and Hugging Face need `make setup-torch` too.
test-trackers: setup-trackers build
	python/run-tests.sh --trackers

# Compares the counters of Darshan logs with Darshan's own library: DARSHAN_LOGS names a directory with .darshan files, such as a clone
# of https://github.com/darshan-hpc/darshan-logs, and DARSHAN_PYTHON a Python with the package darshan (pip install darshan).
DARSHAN_PYTHON ?= python3
test-darshan: build
	@test -n "$(DARSHAN_LOGS)" || { echo "cannot compare logs: DARSHAN_LOGS is not set; set it to a directory with .darshan files"; exit 1; }
	@$(DARSHAN_PYTHON) -c "import darshan" || { echo "cannot compare logs: the package darshan is missing; pip install darshan"; exit 1; }
	$(DARSHAN_PYTHON) tests/darshan/compare.py target/dist/bin/dlio-analyze $(DARSHAN_LOGS)

# Tests other C libraries, in roots in the cache directory and in those of ROOTS.
test-systems: build
	tests/run-systems.py $(ROOTS)

# Builds the library for another architecture, and runs a traced program under qemu.
test-aarch64: build
	tests/run-aarch64.py

# Installs, runs and removes each package in a fresh root.
test-packages: packages
	tests/run-packages.py $(PACKAGES)

# Tests with MLPerf Storage's own program. It is not in a package registry, so this target does not install it.
test-mlpstorage: build
	@tests/run-mlpstorage.py $(MLPSTORAGE)

# Prometheus scrapes a live job, and answers the queries of the dashboard.
test-prometheus: build
	tests/run-prometheus.py

# Runs the pods of the Kubernetes recipe in namespaces, as root.
test-kubernetes: setup-kubernetes build
	$${XDG_CACHE_HOME:-$$HOME/.cache}/dlio-kubernetes-venv/bin/python tests/run-kubernetes.py

own:
	@examples/own.sh

# Printed first, so that the user knows how long to wait and for what.
say-test:
	@echo "make test: about half an hour on two cores, plus about as long for the first build."
	@echo "  It runs format and clippy, build, code documentation, unit tests and small traced programs (most of the"
	@echo "  time), the examples, small trainings with known causes of waiting, the Python package, instructions per call,"
	@echo "  and the Perfetto UI in a browser. It stops at the first failure. Missing packages are installed first; nothing"
	@echo "  outside the build and cache directories is changed."

doc: own
	RUSTDOCFLAGS="--deny warnings --allow rustdoc::private-intra-doc-links" cargo doc --quiet --release --workspace --exclude dlio-preload --no-deps --document-private-items

# Starts with FUZZ_SEED and stops after FUZZ_RUNS runs or FUZZ_SECONDS; FUZZ_KEEP keeps their traces in a directory.
fuzz: setup-test build
	DLIO_FUZZ_RUNS=$(or $(FUZZ_RUNS),1000) DLIO_FUZZ_SEED=$(FUZZ_SEED) DLIO_FUZZ_SECONDS=$(FUZZ_SECONDS) \
	DLIO_FUZZ_KEEP=$(FUZZ_KEEP) cargo test --release --workspace --exclude dlio-preload --test crashes \
	every_call -- --nocapture

build:
	@examples/build.sh

# The library that dlio loads under MPI, built with the mpicc in PATH or with MPICC.
build-mpi:
	cargo build --release --locked --manifest-path benchmark/mpi/Cargo.toml --target-dir $(CARGO_TARGET_DIR)/mpi
	@examples/dist.sh

# The Python package, with the library and the programs in it.
wheel: build
	@python/build-wheel.sh

# Tarball, .deb, .rpm, wheel, installer and recipes; PACKAGES_URL is the address that recipes name, MAINTAINER the person in the .deb.
packages: setup-packages wheel
	@packaging/build.sh

# The book, into target/docs. mdBook is installed by cargo, once; `make test` checks the book without it.
docs:
	@docs/build.sh

# See tests/bench/README.md. BENCH_ARGUMENTS goes to the harness: --only capture, --folder /mnt/disk.
bench: bench-programs
	@tests/bench/bench.py $(BENCH_ARGUMENTS)
	@[ -n "$(BENCH_ARGUMENTS)" ] || if command -v nginx >/dev/null; then tests/bench/objects.py; else echo "object stores: not measured, because nginx is not installed"; fi

bench-quick: bench-programs
	@tests/bench/bench.py --quick $(BENCH_ARGUMENTS)

bench-readme:
	@tests/bench/readme.py

bench-peers: setup-test
	@tests/bench/peers.sh

# Compares object store clients, with nginx on this host.
bench-objects: build
	@tests/bench/objects.py

bench-programs: setup-test wheel
	@cargo build --quiet --release --workspace --exclude dlio-preload --bins --examples

lint: own
	python3 tests/test_plain_english.py -q
	tests/plain_english.py
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- --deny warnings
	@mpi=$$(tests/builds-mpi.sh && echo benchmark/mpi); \
	for crate in python tests/bench/micro $$mpi; do echo "$$crate: fmt, clippy"; \
		cargo fmt --manifest-path $$crate/Cargo.toml --check && cargo clippy --quiet --release --locked \
		--target-dir $(CARGO_TARGET_DIR)/$$(basename $$crate) --manifest-path $$crate/Cargo.toml --all-targets -- --deny warnings \
		|| exit 1; done

# Installs the existing build: under sudo, Rust may be missing and HOME different.
install:
	@[ -e $(DLIO_DIST)/built ] || { echo "make install: cannot install from $(DLIO_DIST): nothing is built; run \`make build\` first" >&2; exit 1; }
	@[ -z "$$(find analyzer benchmark cluster linking preload schemas tracer -name '*.rs' -newer $(DLIO_DIST)/built)" ] || \
		echo "make install: some sources are newer than the build; run \`make build\` to update it" >&2
	install -D -t $(DESTDIR)$(PREFIX)/bin $(PROGRAMS:%=$(DLIO_DIST)/bin/%)
	ln -sf dlio $(DESTDIR)$(PREFIX)/bin/dlio_benchmark
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib $(addprefix $(DLIO_DIST)/lib/,$(PRELOADED))
	@[ ! -e $(DLIO_DIST)/lib/libdlio_mpi.so ] || install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib $(DLIO_DIST)/lib/libdlio_mpi.so
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include tracer/include/dliotrace.h
	$(DLIO_BIN_DIR)/dlio man $(DESTDIR)$(PREFIX)/share/man/man1
	$(DLIO_BIN_DIR)/dlio-analyze --man $(DESTDIR)$(PREFIX)/share/man/man1
	$(DLIO_BIN_DIR)/dlio-top --man $(DESTDIR)$(PREFIX)/share/man/man1
	echo '.so man1/dlio-bench.1' > $(DESTDIR)$(PREFIX)/share/man/man1/dlio_benchmark.1
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|' tracer/include/dliotrace.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/dliotrace.pc
	install -d $(addprefix $(DESTDIR)$(PREFIX)/share/,$(dir $(COMPLETIONS)))
	@for place in $(COMPLETIONS); do \
		case $$place in bash-*) shell=bash ;; zsh/*) shell=zsh ;; *) shell=fish ;; esac; \
		command=$$(basename $$place .fish | sed 's/^_//'); option=--completions; [ $$command != dlio ] || option=completions; \
		$(DLIO_BIN_DIR)/$$command $$option $$shell > $(DESTDIR)$(PREFIX)/share/$$place || exit 1; done

# Under share, in the directories from which bash, zsh and fish load completions.
PROGRAMS := dlio dlio-analyze dlio-top
PRELOADED := libdliotrace.so libdliotrace_inline.so libdliotrace_rocm.so
COMPLETIONS := $(PROGRAMS:%=bash-completion/completions/%) $(PROGRAMS:%=zsh/site-functions/_%) \
	$(PROGRAMS:%=fish/vendor_completions.d/%.fish)

# Removes the files of `make install`, but no directories: other programs may use them.
uninstall:
	cd $(DESTDIR)$(PREFIX) && rm -f $(addprefix bin/,$(PROGRAMS) dlio_benchmark) $(addprefix lib/,$(PRELOADED)) \
		lib/libdlio_mpi.so lib/pkgconfig/dliotrace.pc include/dliotrace.h share/man/man1/dlio.1 share/man/man1/dlio-*.1 share/man/man1/dlio_benchmark.1 \
		$(addprefix share/,$(COMPLETIONS))

setup-demo:
	@tests/setup.sh demo

setup-test:
	@tests/setup.sh test

setup-torch:
	@tests/setup.sh torch

setup-stores:
	@tests/setup.sh stores

setup-trackers:
	@tests/setup.sh trackers

setup-mpi:
	@tests/setup.sh mpi

setup-packages:
	@tests/setup.sh packages

setup-frameworks:
	@tests/setup.sh frameworks

setup-kubernetes:
	@tests/setup.sh kubernetes

clean:
	rm -rf $(CARGO_TARGET_DIR) $(DLIO_DIST)
