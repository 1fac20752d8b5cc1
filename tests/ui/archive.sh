# Part of run-ui.sh: archives of several hosts, and of a trace with a profile of torch.profiler if `make setup-torch` has installed PyTorch.

# Two hosts with different boot clocks that did the same at the same time: separate machines on one timeline.
write_out archive.zip "$out"/hosts-*.dlt
prove "$out/archive.zip" --expect "$out/hosts.figures.json" --screenshot "$out/archive.png"
"$here/ui/archive.py" --hosts 2 "$out/archive.zip" || failed=1

torch="${DLIO_TORCH_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/dlio-torch-venv}/bin/python"
if [ -x "$torch" ] && "$torch" -c 'import torch' 2>/dev/null; then
    record profiled perfetto "$torch" "$here/ui/programs/profiled.py" "$out/input" "$out/profiled.json.gz" "$out/profiled.times.json"
    write_out profiled.zip "$out/profiled" "$out/profiled.json.gz"
    "$here/ui/archive.py" "$out/profiled.zip" "$out/profiled.times.json" "$out/profiled.json.gz" --screenshot "$out/profiled.png" || failed=1
else
    echo "profiles of PyTorch in the viewer are not tested: run \`make setup-torch\` to install it" >&2
fi
