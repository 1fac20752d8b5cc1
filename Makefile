# Thin: each target is a script or a cargo call. `make demo` and `make test` install what they miss.

# Outside the clone, so that dependencies are built once for all clones: DataFusion alone takes a quarter of an hour.
export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dlio-target
export DLIO_DIST := $(CARGO_TARGET_DIR)/dist
# The Python that reads what we write, made by tests/setup.sh.
export DLIO_TEST_PYTHON ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dlio-venv/bin/python
export DLIO_BIN_DIR := $(DLIO_DIST)/bin
export DLIO_PRELOAD := $(DLIO_DIST)/lib/libdliotrace.so
PREFIX ?= /usr/local

.PHONY: help demo test build wheel bench bench-quick bench-readme bench-peers bench-programs install clean setup-demo setup-test lint

help:
	@echo "make demo      build, trace a small benchmark run, print the summary"
	@echo "make test      everything that is checked"
	@echo "make build     the programs and the library, into $(DLIO_DIST)"
	@echo "make wheel     the Python package, into $(DLIO_DIST)/wheel"
	@echo "make install   the same into PREFIX=$(PREFIX)"
	@echo "make bench     beside everyone else, up to 40 minutes; bench-quick a few, bench-peers installs the others,"
	@echo "               bench-readme puts the last full run into README.md"

demo: setup-demo build
	@examples/demo.sh

test: setup-test lint build
	cargo test --release --workspace --exclude dlio-preload
	examples/run-tests.sh
	python/run-tests.sh
	tests/bench/run-tests.sh
	tests/run-ui.sh

build:
	cargo build --release --workspace --exclude dlio-preload --bins
	cargo build --profile preload --package dlio-preload
	@examples/dist.sh

# The Python package, with the library and the programs in it.
wheel: build
	@python/build-wheel.sh

# See tests/bench/README.md. BENCH_ARGUMENTS goes to the harness: --only capture, --folder /mnt/disk.
bench: bench-programs
	@tests/bench/bench.py $(BENCH_ARGUMENTS)

bench-quick: bench-programs
	@tests/bench/bench.py --quick $(BENCH_ARGUMENTS)

bench-readme:
	@tests/bench/readme.py

bench-peers: setup-test
	@tests/bench/peers.sh

bench-programs: setup-test wheel
	@cargo build --quiet --release --workspace --exclude dlio-preload --bins --examples

lint:
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- --deny warnings

install: build
	install -D -t $(DESTDIR)$(PREFIX)/bin $(DLIO_DIST)/bin/*
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib $(DLIO_DIST)/lib/libdliotrace.so
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include tracer/include/dliotrace.h
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|' tracer/include/dliotrace.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/dliotrace.pc

setup-demo:
	@tests/setup.sh demo

setup-test:
	@tests/setup.sh test

clean:
	rm -rf $(CARGO_TARGET_DIR)
