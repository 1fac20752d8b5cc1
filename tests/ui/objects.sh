# Part of run-ui.sh: requests of `dlio bench` to an object store, and of boto3 and s3fs if `make test-stores` has installed them. A
# request in flight overlaps other work of its thread, so it needs a separate track.

cargo build --quiet --release --workspace --exclude dlio-preload --example test_store --manifest-path "$here/../Cargo.toml"
mkfifo "$out/told" "$out/said"
"$target/release/examples/test_store" < "$out/told" > "$out/said" &
store=$!
exec 8> "$out/told" 9< "$out/said"
read -r port <&9

tell() {
    echo "$*" >&8
    read -r _ <&9
}

# asking RUN TRACKS PROGRAM...: checks that the requests of a program are in flight on TRACKS tracks or more.
asking() {
    run="objects_$1" tracks="$2"
    shift 2
    record "$run" perfetto "$@"
    write_out "$run.pftrace" "$out/$run"
    echo "{\"in_flight\": {\"object.get\": $tracks}}" > "$out/$run.figures.json"
    prove "$out/$run.pftrace" --expect "$out/$run.figures.json" --screenshot "$out/$run.png"
}

export AWS_ENDPOINT_URL="http://127.0.0.1:$port" AWS_ACCESS_KEY_ID=AKIDTESTSTORE AWS_SECRET_ACCESS_KEY=not-to-be-seen-anywhere
export AWS_DEFAULT_REGION=us-east-1
# The store responds late, so that requests overlap on any host.
tell latency 20
dlio="$(dirname "$analyze")/dlio"
words="workload=unet3d ++workload.storage.storage_type=s3 ++workload.storage.storage_root=bucket ++workload.dataset.data_folder=data
    ++workload.dataset.num_files_train=16 ++workload.dataset.record_length_bytes=40000 ++workload.dataset.record_length_bytes_stdev=0
    ++workload.workflow.checkpoint=false ++workload.reader.batch_size=4 ++workload.reader.read_threads=0 ++workload.train.epochs=1
    ++workload.train.computation_time=0.005 ++workload.storage.storage_options.prefetch_window=3 ++hydra.run.dir=$out/objects_run"
# shellcheck disable=SC2086 # a list of words
"$dlio" bench --quiet $words ++workload.workflow.generate_data=true ++workload.workflow.train=false
# shellcheck disable=SC2086
asking bench 4 "$dlio" bench $words
stores="${DLIO_STORES_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/dlio-stores-venv}"
if [ -e "$stores/.installed" ] && [ -x "$out/venv/bin/python" ]; then
    "$stores/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
        > "$("$out/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/stores.pth"
    for number in 0 1 2 3 4 5 6 7; do
        tell put "samples/$number" 100000
    done
    # Four threads with one request each; eight requests at the same time on one thread, whose own track shows one of them.
    asking boto3 4 "$out/venv/bin/python" "$here/ui/programs/boto3_threads.py"
    asking s3fs 7 "$out/venv/bin/python" "$here/ui/programs/s3fs_batches.py"
else
    echo "boto3 and s3fs in the viewer are not tested: run \`make test-stores\` to install them" >&2
fi
unset AWS_ENDPOINT_URL AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_DEFAULT_REGION
exec 8>&- 9<&-
wait "$store"
