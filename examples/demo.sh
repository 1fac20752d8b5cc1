#!/bin/sh
# Traces a small training run and prints the report.
set -eu
bin=${DLIO_DIST:?set by the Makefile}/bin
folder=$(mktemp -d "${TMPDIR:-/tmp}/dlio-demo.XXXXXX")
cd "$folder"
echo "A small training run (unet3d: 16 samples of 2 MiB, 2 epochs), traced:"
"$bin/dlio" bench workload=unet3d ++workload.dataset.num_files_train=16 \
    ++workload.dataset.record_length_bytes=2097152 ++workload.dataset.record_length_bytes_stdev=0 \
    ++workload.workflow.generate_data=True ++workload.train.epochs=2 ++workload.train.computation_time=0.05 \
    ++workload.dataset.data_folder="$folder/data" ++workload.checkpoint.checkpoint_folder="$folder/checkpoints" \
    ++hydra.run.dir="$folder/run" --trace="$folder/trace"
echo
echo "The trace is in $folder/trace. Next:"
echo "  $bin/dlio-analyze $folder/trace --sql \"select name, count(*) n, sum(bytes) b from events group by name order by n desc\""
echo "  $bin/dlio-analyze $folder/trace --findings                 # what to change, and the time it can save"
echo "  $bin/dlio-analyze $folder/trace --export all.pftrace       # for ui.perfetto.dev"
