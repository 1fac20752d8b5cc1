//! The findings: what to change first, how much that can save, and the evidence.

use serde::Deserialize;
use serde_json::{Value, json};

use super::figures::{Kind, capital};
use super::markup::Markup;
use super::values::{list, number, text};
use crate::summary::count::kinds::OBJECT;
use crate::summary::figures::units::many;
use crate::summary::report::findings::{NO_CALLS, OVERLAP, Savings};

/// The number of findings shown in full; the rest are folded.
const SHOWN: usize = 5;

/// Writes the findings that fired, largest saving first; writes nothing if the report has no findings.
pub fn write(report: &Value, page: &mut Markup) {
    let all = list(report, "findings");
    if all.is_empty() {
        return;
    }
    let fired: Vec<&Value> = all.iter().filter(|finding| text(finding, "state") == Some("fired")).collect();
    let silent = all.len() - fired.len();
    page.raw("<section id=\"findings\"><h2>What to change</h2>\n");
    if fired.is_empty() {
        let is_request = |span: &Value| text(span, "cat") == Some(OBJECT);
        let has = |section: &str| !list(report, section).is_empty();
        let told = has("functions") || has("past_files") || list(report, "spans").iter().any(is_request);
        let none = if told { "No rule fired.".into() } else { capital(NO_CALLS) + "." };
        page.element("p", &[], &none);
    }
    fired.iter().take(SHOWN).for_each(|finding| one(finding, page));
    if fired.len() > SHOWN {
        let more = many((fired.len() - SHOWN) as u64, "finding with smaller savings", "findings with smaller savings");
        page.raw("<details>").element("summary", &[], &more);
        fired[SHOWN..].iter().for_each(|finding| one(finding, page));
        page.raw("</details>");
    }
    let saves = |finding: &&&Value| {
        number(finding, "worth_ns").is_some() || finding.get("at_most_wait") == Some(&Value::Bool(true))
    };
    if fired.iter().filter(saves).count() > 1 {
        page.element("p", &[("class", "note")], OVERLAP);
    }
    if silent > 0 {
        let rules = many(silent as u64, "rule", "rules");
        page.raw("<p class=\"note\">").text(&format!("{rules} did not fire or could not be evaluated: "));
        page.raw("<a href=\"#s-findings\">measurements and thresholds</a>.</p>");
    }
    page.raw("</section>\n");
}

fn one(finding: &Value, page: &mut Markup) {
    let of = |field: &str| text(finding, field).unwrap_or("");
    let severity = of("severity");
    let mark = match severity {
        "critical" => "▲ critical",
        "warning" => "◆ warning",
        "good" => "✓ good",
        _ => "● note",
    };
    page.open("article", &[("class", "finding"), ("data-severity", severity)]).raw("<h3>");
    page.element("span", &[("class", "badge")], mark).raw(" ").text(&capital(of("says"))).raw("</h3>");
    page.raw("<p class=\"note\">");
    let savings = Savings::deserialize(finding).ok().and_then(|savings| savings.text());
    if let Some(savings) = savings {
        page.element("b", &[], &capital(&savings)).text(" · ");
    }
    page.text(&format!("{} · ", of("confidence"))).element("code", &[], of("id"));
    if finding.get("exposed") == Some(&Value::Bool(false)) && number(finding, "worth_ns").is_some() {
        page.text(" · without compute spans it is unknown whether compute hid this");
    }
    page.raw("</p>");
    if !of("remedy").is_empty() {
        page.raw("<p><b>Change:</b> ").text(of("remedy")).raw("</p>");
    }
    let evidence = list(finding, "evidence");
    let measures = list(finding, "measures");
    page.raw("<details><summary>Evidence</summary><ul>");
    evidence.iter().filter_map(Value::as_str).for_each(|line| {
        page.element("li", &[], line);
    });
    measures.iter().for_each(|measure| {
        page.element("li", &[], &measured(measure));
    });
    page.raw("</ul></details>");
    if !of("verify").is_empty() {
        page.raw("<p class=\"note\">Verify: ").element("code", &[], of("verify")).raw("</p>");
    }
    page.raw("</article>\n");
}

/// Formats a measured value and its limit.
fn measured(measure: &Value) -> String {
    let kind = match text(measure, "unit") {
        Some("share") => Kind::Share,
        Some("bytes") => Kind::Bytes,
        Some("ns") => Kind::Time,
        Some("count") => Kind::Count,
        _ => Kind::Plain,
    };
    let value = number(measure, "value").map_or("not measured".into(), |value| kind.number(value));
    let limit = number(measure, "limit").map_or(String::new(), |limit| kind.number(limit));
    let way = if measure.get("below") == Some(&Value::Bool(true)) { "below" } else { "at least" };
    format!("{}: {value} (threshold: {way} {limit})", text(measure, "what").unwrap_or(""))
}

/// Returns whether a condition is met, if it was measured.
fn holds(measure: &Value) -> Option<bool> {
    let (value, limit) = number(measure, "value").zip(number(measure, "limit"))?;
    Some(if measure.get("below") == Some(&Value::Bool(true)) { value < limit } else { value >= limit })
}

/// Returns all rules as table rows.
pub fn rules(findings: &[Value]) -> Vec<Value> {
    let row = |finding: &Value| {
        let is_quiet = text(finding, "state") == Some("quiet");
        let marked = |measure: &Value| {
            let mark = if is_quiet && holds(measure) == Some(false) { "✗ " } else { "" };
            format!("{mark}{}", self::measured(measure))
        };
        let measured: Vec<_> = list(finding, "measures").iter().map(marked).collect();
        let of = |field: &str| finding.get(field).cloned().unwrap_or(Value::Null);
        json!({
            "rule": of("id"), "state": of("state"), "severity": of("severity"),
            "worth_ns": of("worth_ns"), "says": of("says"), "measured (✗: condition not met)": measured.join("; "), "suppressed by": of("silenced_by"),
        })
    };
    findings.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fired_is_told_with_its_worth_and_the_rest_is_listed() {
        let measure =
            json!({"key": "x", "what": "<wait>", "value": 0.5, "limit": 0.05, "unit": "share", "below": false});
        let fired = json!({
            "id": "input-bound", "state": "fired", "severity": "critical", "confidence": "exact", "says": "waits <b>.",
            "worth_ns": 3_100_000_000u64, "worth_share": 0.31, "exposed": true, "measures": [measure], "evidence": ["<i>"],
            "remedy": "num_workers=8", "verify": "dlio-analyze a --compare b",
        });
        let quiet = json!({"id": "hot-file", "state": "quiet", "says": "", "measures": []});
        let report = json!({"findings": [fired, quiet]});
        let mut page = Markup::default();
        write(&report, &mut page);
        let page = page.into_string();
        for text in [
            "Waits &lt;b&gt;.",
            "<b>Saves up to 3.10 s (31 % of the run)</b>",
            "num_workers=8",
            "&lt;wait&gt;: 50 % (threshold: at least 5.0 %)",
            "1 rule did not fire or could not be evaluated",
        ] {
            assert!(page.contains(text), "{text} in {page}");
        }
        assert_eq!(rules(list(&report, "findings")).len(), 2);
        let measure = json!({"what": "a part", "value": 0.01, "limit": 0.05, "unit": "share", "below": false});
        let quiet = json!({"id": "hot-file", "state": "quiet", "measures": [measure]});
        let rows = rules(&[quiet]);
        assert_eq!(rows[0]["measured (✗: condition not met)"], "✗ a part: 1.0 % (threshold: at least 5.0 %)");
    }
}
