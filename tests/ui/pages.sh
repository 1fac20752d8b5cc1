# Part of run-ui.sh: the HTML report of a run with markup in its paths, of two runs, of a run with many processes, and of no events.

# page NAME TRACE ARGUMENT...: writes the page of a trace and checks it.
page() {
    name="$1" trace="$2"
    shift 2
    "$analyze" "$trace" --force --html "$out/$name.html" 2>"$out/$name.said" || { cat "$out/$name.said" >&2; failed=1; }
    "$analyze" "$trace" --no-cache --format json -o "$out/$name.summary.json"
    "$here/ui/report.py" "$out/$name.html" --summary "$out/$name.summary.json" --pictures "$out/$name.page" "$@" || failed=1
}

# A directory `<` with a file `script><img ...>`: without escaping, this path would close a script element.
mkdir -p "$out/markup/<"
hostile="$out/markup/</script><img src=x onerror=document.title=1>"
mkdir -p "$(dirname "$hostile")"
cp "$out/input" "$hostile"
record markup_run native "$out/workload" "$hostile" 2 50
page markup "$out/markup_run" --holds "script><img src=x onerror=document.title=1>"
# One page of two runs.
record markup_again native "$out/workload" "$hostile" 3 60
"$analyze" "$out/markup_run" --compare "$out/markup_again" --force --html "$out/compared.html" >"$out/compared.said" 2>&1 || failed=1
"$here/ui/report.py" "$out/compared.html" --pictures "$out/compared.page" --holds "$(sed -n '1s/;.*//p' "$out/compared.said")" || failed=1
if [ -d "$out/eight" ]; then
    page eight_page "$out/eight"
fi
if [ -d "$out/trace_loader" ]; then
    page loader "$out/trace_loader"
fi
