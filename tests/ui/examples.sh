# Part of run-ui.sh: checks the exported traces of the programs in examples/, with spans around calls.

examples="$here/../examples"
dd if=/dev/zero of="$out/samples" bs=64k count=4 2>/dev/null
cc -O2 -I "$here/../tracer/include" -o "$out/example_c" "$examples/c/spans.c" -ldl
c++ -O2 -std=c++17 -I "$here/../tracer/include" -o "$out/example_cpp" "$examples/c/spans.cpp" -ldl
cargo build --quiet --release --package dlio-example --manifest-path "$here/../Cargo.toml"
ln -sf "$target/release/example-spans" "$out/example_rust"

# picture NAME FIGURES: exports all processes of a run to one file and checks it.
picture() {
    write_out "example_$1.pftrace" "$out/trace_$1"
    echo "$2" > "$out/example_$1.figures.json"
    prove "$out/example_$1.pftrace" --expect "$out/example_$1.figures.json" --screenshot "$out/example_$1.png"
}

for language in c cpp rust; do
    record "trace_$language" perfetto "$out/example_$language" "$out/samples"
done
# For each span name: the depth, and the number of calls within these spans that moved bytes.
picture c '{"spans": {"epoch": [0, 8], "fetch": [1, 8]}, "processes": 1, "unfinished": 0}'
picture cpp '{"spans": {"epoch": [0, 4], "fetch": [1, 4]}, "processes": 1, "unfinished": 0}'
picture rust '{"spans": {"epoch": [0, 8], "fetch": [1, 8]}, "processes": 1, "unfinished": 0}'

# Python: a script with one process, and a loader with four workers that its parent waits for.
if wheel="$(DLIO_WHEEL_PROGRAMS=0 "$here/../python/build-wheel.sh" "$out/wheel")"; then
    python3 -m venv "$out/venv"
    "$out/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-index "$wheel"
    record trace_python perfetto "$out/venv/bin/python" "$examples/python/spans.py" "$out/samples"
    record trace_loader perfetto "$out/venv/bin/python" "$examples/python/loader.py" "$out/loader_data"
    picture python '{"spans": {"epoch": [0, 8], "fetch": [1, 8], "forward": [2, 0], "read_sample": [3, 8]}, "processes": 1, "unfinished": 0}'
    # Each item makes two reads: the second one finds the end of the file. One arrow leads to each worker, further ones to the waits of
    # the parent.
    picture loader '{"spans": {"batch": [0, 128], "item": [1, 128], "compute": [1, 0]}, "processes": 5, "flows": 4, "arrows": 1, "unfinished": 0}'
fi
