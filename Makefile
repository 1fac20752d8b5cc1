# Thin: each target is a script or a cargo call. `make demo` and `make test` install what they miss.

# Outside the clone, so that dependencies are built once for all clones: DataFusion takes most of half an hour.
export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dlio-target
# What is built of this clone.
export DLIO_DIST ?= $(CURDIR)/target/dist
# The Python that reads what we write, made by tests/setup.sh.
export DLIO_TEST_PYTHON ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dlio-venv/bin/python
export DLIO_BIN_DIR := $(DLIO_DIST)/bin
export DLIO_PRELOAD := $(DLIO_DIST)/lib/libdliotrace.so
PREFIX ?= /usr/local

.PHONY: help own demo test fuzz test-verdict test-what-if test-torch test-stores test-mpi test-systems test-mlpstorage build build-mpi wheel bench bench-quick bench-readme bench-peers bench-objects bench-programs install uninstall clean setup-demo setup-test setup-torch setup-stores setup-mpi say-test doc lint

help:
	@echo "make demo      build, trace a small benchmark run, print the summary"
	@echo "make test      everything that is checked"
	@echo "make test-torch  installs PyTorch for its own tests (5 minutes, 6 GB) and runs them"
	@echo "make test-verdict  runs 127 small trainings whose cause of waiting is known, and compares what the report says (15 minutes);"
	@echo "               JOBS=\"decode http\" names some. Jobs with PyTorch and other libraries run where these are installed (make setup-torch)"
	@echo "make test-what-if  makes changes to the loaders of 29 small trainings, and compares them with what \`dlio-analyze --what-if\`"
	@echo "               predicts from one run (half an hour on an idle host, with PyTorch); JOBS=\"decode lock\" names some jobs"
	@echo "make test-stores  installs boto3, s3fs and others, nginx and OpenStack Swift (250 MB), and tests with them (minutes)"
	@echo "make test-mpi  installs Open MPI and libclang, builds libdlio_mpi.so and tests ranks under mpirun"
	@echo "make test-systems  runs what was built in roots of other systems (glibc 2.31 and 2.41, by debootstrap, 600 MB; as root);"
	@echo "               ROOTS=\"DIR ...\" names more of them"
	@echo "make test-mlpstorage MLPSTORAGE=COMMAND  runs MLPerf Storage's own program, which COMMAND starts, on ours"
	@echo "make fuzz      random processes that end in every way: FUZZ_RUNS, FUZZ_SEED and FUZZ_SECONDS say how many"
	@echo "make build     the programs and the library, into $(DLIO_DIST); build-mpi adds libdlio_mpi.so for an MPI"
	@echo "make wheel     the Python package, into $(DLIO_DIST)/wheel"
	@echo "make install   what was built into PREFIX=$(PREFIX), the pages of the manual, and what shells complete by;"
	@echo "               make uninstall takes it away"
	@echo "make bench     beside everyone else, up to 40 minutes; bench-quick a few, bench-peers installs the others,"
	@echo "               bench-readme puts the last full run into BENCHMARKS.md"

demo: setup-demo build
	@examples/demo.sh

# Signals do what they always do: under `nohup make test &`, or where a service runs it, some are ignored.
AS_USUAL := $(shell env --default-signal true 2>/dev/null && echo env --default-signal)

# Whatever setup-test installs is there: a test that misses it fails and does not skip.
test: export DLIO_TESTS_WHOLE := 1
STAGE := @tests/stage.sh
test: say-test setup-test
	@tests/stage.sh --begin
	$(STAGE) "format, clippy" $(MAKE) --no-print-directory lint
	$(STAGE) "build" $(MAKE) --no-print-directory build
	$(STAGE) "documents of the code" $(MAKE) --no-print-directory doc
	$(STAGE) "build of the tests" cargo test --release --workspace --exclude dlio-preload --no-run
	$(STAGE) "unit tests, traced programs" $(AS_USUAL) cargo test --release --workspace --exclude dlio-preload
	$(STAGE) "examples" $(AS_USUAL) examples/run-tests.sh
	$(STAGE) "verdicts on jobs of known cause" $(AS_USUAL) tests/jobs/verdicts.py --short --tries 3
	$(STAGE) "Python package" $(AS_USUAL) python/run-tests.sh
	$(STAGE) "instructions per call" $(AS_USUAL) tests/bench/run-tests.sh
	$(STAGE) "Perfetto UI" $(AS_USUAL) tests/run-ui.sh
	@tests/stage.sh --times

# Ranks under mpirun, by its MPI. `make test` runs these tests too where mpirun is.
test-mpi: setup-mpi build build-mpi
	cargo test --release --workspace --exclude dlio-preload --test ranks --test collectives

# The spans of PyTorch, with the real one in an environment of its own. `make test` runs them too once it is there.
test-torch: setup-torch build
	python/run-tests.sh --torch

# The verdict on jobs that clock themselves: run it on an idle machine.
test-verdict: setup-test wheel
	tests/jobs/verdicts.py $(JOBS)

# Predicted changes to loaders, and the same changes really made: run it on an idle host.
test-what-if: setup-torch wheel
	tests/jobs/what_if.py $(if $(JOBS),--jobs $(JOBS)) $(WHAT_IF_ARGUMENTS)

# Requests of other people's clients of object stores, in an environment of their own, which `make test` runs too once it is there;
# and our own client with servers of other people: nginx, and OpenStack Swift.
test-stores: setup-stores build
	python/run-tests.sh --stores
	tests/run-stores.py

# Other C libraries: in roots below the cache folder, and in those that ROOTS names.
test-systems: build
	tests/run-systems.py $(ROOTS)

# MLPerf Storage's own program types the command lines; it is no package of a registry, so it is not installed here.
test-mlpstorage: build
	@tests/run-mlpstorage.py $(MLPSTORAGE)

own:
	@examples/own.sh

# Before anything else, so that nobody waits for they know not what.
say-test:
	@echo "make test: about half an hour on two cores, after a first build of about as long."
	@echo "  In turn: format and clippy, build, documents of the code, unit tests and small traced programs (most of the"
	@echo "  time), the examples, small trainings whose cause of waiting is known, the Python package, instructions a call,"
	@echo "  the Perfetto UI in a browser. It stops at the first that fails. What it needs is installed first; nothing"
	@echo "  outside the build and cache folders is changed."

doc: own
	RUSTDOCFLAGS="--deny warnings --allow rustdoc::private-intra-doc-links" cargo doc --quiet --release --workspace --exclude dlio-preload --no-deps --document-private-items

# FUZZ_RUNS runs from FUZZ_SEED on, until FUZZ_SECONDS are over; FUZZ_KEEP names a folder for their traces.
fuzz: setup-test build
	DLIO_FUZZ_RUNS=$(or $(FUZZ_RUNS),1000) DLIO_FUZZ_SEED=$(FUZZ_SEED) DLIO_FUZZ_SECONDS=$(FUZZ_SECONDS) \
	DLIO_FUZZ_KEEP=$(FUZZ_KEEP) cargo test --release --workspace --exclude dlio-preload --test crashes \
	every_call -- --nocapture

build:
	@examples/build.sh

# What dlio loads when an MPI started it: with the mpicc on the PATH, or the one that MPICC names.
build-mpi:
	cargo build --release --locked --manifest-path benchmark/mpi/Cargo.toml --target-dir $(CARGO_TARGET_DIR)/mpi
	@examples/dist.sh

# The Python package, with the library and the programs in it.
wheel: build
	@python/build-wheel.sh

# See tests/bench/README.md. BENCH_ARGUMENTS goes to the harness: --only capture, --folder /mnt/disk.
bench: bench-programs
	@tests/bench/bench.py $(BENCH_ARGUMENTS)
	@[ -n "$(BENCH_ARGUMENTS)" ] || if command -v nginx >/dev/null; then tests/bench/objects.py; else echo "object stores: without nginx not measured"; fi

bench-quick: bench-programs
	@tests/bench/bench.py --quick $(BENCH_ARGUMENTS)

bench-readme:
	@tests/bench/readme.py

bench-peers: setup-test
	@tests/bench/peers.sh

# Clients of object stores beside one another, from nginx on this machine.
bench-objects: build
	@tests/bench/objects.py

bench-programs: setup-test wheel
	@cargo build --quiet --release --workspace --exclude dlio-preload --bins --examples

lint: own
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- --deny warnings
	@mpi=$$(tests/builds-mpi.sh && echo benchmark/mpi); \
	for crate in python tests/bench/micro $$mpi; do echo "$$crate: fmt, clippy"; \
		cargo fmt --manifest-path $$crate/Cargo.toml --check && cargo clippy --quiet --release --locked \
		--target-dir $(CARGO_TARGET_DIR)/$$(basename $$crate) --manifest-path $$crate/Cargo.toml --all-targets -- --deny warnings \
		|| exit 1; done

# What was built, whoever runs it: under sudo there may be no Rust, and another home.
install:
	@[ -e $(DLIO_DIST)/built ] || { echo "make install: nothing is built in $(DLIO_DIST); run \`make build\` first" >&2; exit 1; }
	@[ -z "$$(find analyzer benchmark cluster linking preload schemas tracer -name '*.rs' -newer $(DLIO_DIST)/built)" ] || \
		echo "make install: some sources are newer than what is installed; \`make build\` builds them" >&2
	install -D -t $(DESTDIR)$(PREFIX)/bin $(DLIO_DIST)/bin/*
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib $(DLIO_DIST)/lib/libdliotrace.so $(DLIO_DIST)/lib/libdliotrace_inline.so
	@[ ! -e $(DLIO_DIST)/lib/libdlio_mpi.so ] || install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib $(DLIO_DIST)/lib/libdlio_mpi.so
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include tracer/include/dliotrace.h
	$(DLIO_BIN_DIR)/dlio man $(DESTDIR)$(PREFIX)/share/man/man1
	$(DLIO_BIN_DIR)/dlio-analyze --man $(DESTDIR)$(PREFIX)/share/man/man1
	$(DLIO_BIN_DIR)/dlio-top --man $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|' tracer/include/dliotrace.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/dliotrace.pc
	install -d $(addprefix $(DESTDIR)$(PREFIX)/share/,$(dir $(COMPLETIONS)))
	@for place in $(COMPLETIONS); do \
		case $$place in bash-*) shell=bash ;; zsh/*) shell=zsh ;; *) shell=fish ;; esac; \
		command=$$(basename $$place .fish | sed 's/^_//'); asked=--completions; [ $$command != dlio ] || asked=completions; \
		$(DLIO_BIN_DIR)/$$command $$asked $$shell > $(DESTDIR)$(PREFIX)/share/$$place || exit 1; done

# Below share, where bash, zsh and fish look for what they load themselves.
PROGRAMS := dlio dlio-analyze dlio-top
COMPLETIONS := $(PROGRAMS:%=bash-completion/completions/%) $(PROGRAMS:%=zsh/site-functions/_%) \
	$(PROGRAMS:%=fish/vendor_completions.d/%.fish)

# What `make install` lays there, and no folder: others may use it.
uninstall:
	cd $(DESTDIR)$(PREFIX) && rm -f $(addprefix bin/,$(PROGRAMS) dlio_benchmark) lib/libdliotrace.so lib/libdliotrace_inline.so \
		lib/libdlio_mpi.so lib/pkgconfig/dliotrace.pc include/dliotrace.h share/man/man1/dlio.1 share/man/man1/dlio-*.1 \
		$(addprefix share/,$(COMPLETIONS))

setup-demo:
	@tests/setup.sh demo

setup-test:
	@tests/setup.sh test

setup-torch:
	@tests/setup.sh torch

setup-stores:
	@tests/setup.sh stores

setup-mpi:
	@tests/setup.sh mpi

clean:
	rm -rf $(CARGO_TARGET_DIR) $(DLIO_DIST)
