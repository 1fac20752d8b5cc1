//! Tests that common libraries read our Parquet files, and compute the sums of the summary.

mod generator;
mod support;

use dlio_analyzer::filter::Filter;
use dlio_analyzer::load::Trace;
use dlio_analyzer::scan::Progress;
use dlio_analyzer::summary::analyse;
use dlio_analyzer::tables::export::{self, ReportOptions};
use support::temp_dir;

/// Count, time and bytes of `pread`, and the number of files and processes.
const SCRIPTS: [(&str, &str); 3] = [
    (
        "pandas",
        "import pandas, sys
e = pandas.read_parquet(sys.argv[1] + '/events')
p = e[e.name == 'pread']
f = pandas.read_parquet(sys.argv[1] + '/files.parquet')
n = pandas.read_parquet(sys.argv[1] + '/processes.parquet')
print(len(p), int(p.dur.sum()), int(p.bytes.sum()), len(f), len(n), len(e))",
    ),
    (
        "polars",
        "import polars, sys
e = polars.read_parquet(sys.argv[1] + '/events/*.parquet')
p = e.filter(polars.col('name') == 'pread')
f = polars.read_parquet(sys.argv[1] + '/files.parquet')
n = polars.read_parquet(sys.argv[1] + '/processes.parquet')
print(len(p), p['dur'].sum(), p['bytes'].sum(), len(f), len(n), len(e))",
    ),
    (
        "duckdb",
        "import duckdb, sys
one = lambda sql: duckdb.sql(sql.replace('DIR', sys.argv[1])).fetchall()[0]
p = one(\"select count(*), sum(dur)::bigint, sum(bytes)::bigint from 'DIR/events/*.parquet' where name = 'pread'\")
f, n, e = (one(f\"select count(*) from 'DIR/{t}'\")[0] for t in ('files.parquet', 'processes.parquet', 'events/*.parquet'))
print(*p, f, n, e)",
    ),
];

#[test]
fn pandas_polars_and_duckdb_read_the_tables() {
    let python = std::env::var("DLIO_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
    let (folder, tables) = (temp_dir("readers"), temp_dir("readers-tables"));
    generator::generate(folder.path(), &generator::Plan::default(), &|_, _, _| ()).unwrap();
    let trace = Trace::open(&[folder.path().display().to_string()], 2).unwrap();
    let all = Filter::default();
    export::write(&trace, &all, (2, 1 << 30), &ReportOptions::default(), &Progress::default(), tables.path()).unwrap();
    let summary = analyse(&trace, &all, 2, &Progress::default()).unwrap().summary(&trace);
    let pread = summary.functions.iter().find(|function| function.name == "pread").unwrap();
    // In addition to the files of the data set there is a pipe.
    let (files, processes) = (summary.dataset.files + 1, summary.allocation.processes);
    let truth = [pread.count, pread.time_ns, pread.bytes.unwrap(), files, processes, summary.allocation.events];
    let truth = truth.map(|number| number.to_string()).join(" ");
    for (library, script) in SCRIPTS {
        let run = std::process::Command::new(&python).args(["-c", script]).arg(tables.path()).output().unwrap();
        let message = String::from_utf8_lossy(&run.stdout);
        let remedy = "tests/setup.sh test makes a Python with it, which DLIO_TEST_PYTHON names";
        assert_eq!(message.trim(), truth, "{library} ({remedy}): {}", String::from_utf8_lossy(&run.stderr));
    }
}
