# Part of run-ui.sh: the programs of examples/, each in one picture with its spans around its calls, as the command writes it.

examples="$here/../examples"
dd if=/dev/zero of="$out/samples" bs=64k count=4 2>/dev/null
cc -O2 -I "$here/../tracer/include" -o "$out/example_c" "$examples/c/spans.c" -ldl
c++ -O2 -std=c++17 -I "$here/../tracer/include" -o "$out/example_cpp" "$examples/c/spans.cpp" -ldl
cargo build --quiet --release --package dlio-example --manifest-path "$here/../Cargo.toml"
ln -sf "$target/release/example-spans" "$out/example_rust"

# picture NAME FIGURES: one file of all its processes.
picture() {
    write_out "example_$1.pftrace" "$out/trace_$1"
    echo "$2" > "$out/example_$1.figures.json"
    prove "$out/example_$1.pftrace" --expect "$out/example_$1.figures.json" --screenshot "$out/example_$1.png"
}

for language in c cpp rust; do
    record "trace_$language" perfetto "$out/example_$language" "$out/samples"
done
# Of each span: how deep it lies, and how many calls that moved bytes lie within all of its name.
picture c '{"spans": {"epoch": [0, 8], "fetch": [1, 8]}, "processes": 1, "unfinished": 0}'
picture cpp '{"spans": {"epoch": [0, 4], "fetch": [1, 4]}, "processes": 1, "unfinished": 0}'
picture rust '{"spans": {"epoch": [0, 8], "fetch": [1, 8]}, "processes": 1, "unfinished": 0}'

# Python: a script of one process, and a loader whose four workers read what their parent waits for.
if wheel="$(DLIO_WHEEL_PROGRAMS=0 "$here/../python/build-wheel.sh" "$out/wheel")"; then
    python3 -m venv "$out/venv"
    "$out/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-index "$wheel"
    record trace_python perfetto "$out/venv/bin/python" "$examples/python/spans.py" "$out/samples"
    record trace_loader perfetto "$out/venv/bin/python" "$examples/python/loader.py" "$out/loader_data"
    picture python '{"spans": {"epoch": [0, 8], "fetch": [1, 8], "forward": [2, 0], "read_sample": [3, 8]}, "processes": 1, "unfinished": 0}'
    # Each item is a read and the one that finds the end; an arrow leads to each worker, and others to the waits of the parent.
    picture loader '{"spans": {"batch": [0, 128], "item": [1, 128], "compute": [1, 0]}, "processes": 5, "flows": 4, "arrows": 1, "unfinished": 0}'
fi
