//! Renders a report as one self-contained HTML page.
//!
//! [`page`] takes the report as plain JSON values, so a new section appears as a table without any change here. The
//! verdict, tables and plots are readable without the script, which adds sorting, filters and values under the pointer.
//! [`markup`] ensures that nothing from the traced host becomes markup, and the policy in the page's head ensures that
//! the page downloads nothing.
//!
//! Reading order: [`markup`], [`values`], [`figures`], [`table`], [`plot`], [`frame`], then [`overview`] (the first
//! screen, with [`findings`], [`what_if`], [`timeline_lanes`] and [`wait_lanes`]) and [`sections`] (everything below).
//! [`comparison`] is the page of two runs.

pub mod comparison;
pub mod figures;
pub mod findings;
pub mod frame;
pub mod markup;
pub mod overview;
pub mod plot;
pub mod sections;
pub mod table;
pub mod timeline_lanes;
pub mod values;
pub mod wait_lanes;
pub mod what_if;

use serde_json::Value;

use markup::Markup;
use sections::Meaning;

/// Where else the metrics are explained.
const EXPLAINED: &str = "<code>dlio-analyze --explain</code> defines every section, <code>--show-sql SECTION</code> prints the query \
    that gives its figures.";

/// Renders the page of a report. `trace` is the analyzed path as the user gave it.
pub fn page(report: &Value, meanings: &[Meaning], trace: &str) -> String {
    let mut page = Markup::default();
    frame::open(trace, &mut page);
    let (full, empty) = sections::all(report, meanings);
    sections::contents(&overview::places(report), &full, &mut page);
    page.raw("<main>");
    overview::about(report, trace, &mut page);
    overview::verdict(report, &mut page);
    overview::numbers_of(report, &mut page);
    findings::write(report, &mut page);
    what_if::write(report, &mut page);
    overview::timeline(report, &mut page);
    overview::time_split(report, &mut page);
    overview::trust(report, &mut page);
    full.iter().for_each(|(about, value)| sections::write(about, value, report, &mut page));
    if !empty.is_empty() {
        page.element("p", &[("class", "note")], &format!("Empty for this trace: {}.", empty.join(", ")));
    }
    frame::close(EXPLAINED, &mut page);
    page.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hostile() -> Value {
        let name = "/data/<script>alert(1)</script>\"'\u{202e}.npy";
        json!({
            "verdict": ["Training waited for data: <b>x</b> trained for 1 s."],
            "time": {"start_ts": 5, "end_ts": 2000, "total_ns": 1995, "io_ns": 10},
            "timeline": {"start_ts": 0, "column_ns": 1024, "bytes_read": [1, 2], "io_ns": [5, 5], "calls": [1, 0]},
            "files": [{"path": name, "bytes_read": 3}],
            "brand_new": {"shares": [{"name": name, "share": 0.5}], "count": 3},
            "hosts": [{"host": name}],
        })
    }

    const MEANINGS: &[Meaning] = &[
        Meaning { name: "files", meaning: "By file: files." },
        Meaning { name: "brand_new", meaning: "New: what nobody knew. Now known." },
        Meaning { name: "ranks", meaning: "By rank: none." },
    ];

    #[test]
    fn names_of_the_traced_machine_never_become_markup() {
        let page = page(&hostile(), MEANINGS, "<trace>");
        assert!(!page.contains("<script>alert") && !page.contains("<b>x") && !page.contains("<trace>"));
        assert!(!page.contains('\u{202e}') && page.contains("&lt;script&gt;alert(1)"));
        assert!(!page.contains("http://") && !page.contains("https://"));
    }

    #[test]
    fn a_section_nobody_knew_of_has_its_table_and_definition() {
        let page = page(&hostile(), MEANINGS, "t");
        assert!(
            page.contains("<h2>Brand new</h2>") && page.contains("What nobody knew.") && page.contains("Now known.")
        );
        assert!(page.contains("<td class=\"n\">50 %</td>"));
    }

    #[test]
    fn a_report_of_nothing_is_a_page() {
        let page = page(&json!({"verdict": ["The trace holds no events."]}), MEANINGS, "t");
        assert!(
            page.contains("The trace holds no events.") && page.contains("not known") && page.contains("not marked")
        );
    }
}
