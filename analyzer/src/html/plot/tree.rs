//! The process tree, with the lifetime and role of each process.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::lanes::mark;
use super::scale::ticks;
use super::strip::key;
use crate::html::figures::Kind;
use crate::html::markup::Markup;
use crate::html::values::{number, text};
use crate::summary::figures::units::{bytes, many, time};

/// The number of processes to draw: the most important ones and their ancestors.
const DRAWN: usize = 40;

/// The largest number of generations that are indented.
const DEPTH_MAX: usize = 12;

/// The roles of processes and their style classes.
const ROLES: [(&str, &str); 3] = [("trainer", "compute"), ("reader", "read"), ("other", "other")];

struct Node<'a> {
    process: &'a Value,
    parent: Option<i64>,
    /// Start of the process, relative to the start of the run.
    from: f64,
    to: f64,
}

fn whole(process: &Value, field: &str) -> Option<i64> {
    process.get(field)?.as_i64()
}

fn node(process: &Value, start_ts: i64) -> Option<(i64, Node<'_>)> {
    let from = (whole(process, "first_ts")? - start_ts) as f64;
    let to = from + number(process, "span_ns").unwrap_or(0.0);
    Some((whole(process, "proc")?, Node { process, parent: whole(process, "parent"), from, to }))
}

fn role(process: &Value) -> (&'static str, &'static str) {
    let named = text(process, "role").unwrap_or("other");
    ROLES.into_iter().find(|(role, _)| *role == named).unwrap_or(ROLES[2])
}

/// Draws the processes over the run time; returns `false` if there is only one, or if no lifetime is known.
pub fn write(processes: &[Value], start_ts: i64, total_ns: f64, page: &mut Markup) -> bool {
    let nodes: BTreeMap<i64, Node> = processes.iter().filter_map(|process| node(process, start_ts)).collect();
    if nodes.len() < 2 || total_ns <= 0.0 {
        return false;
    }
    let drawn = chosen(&nodes);
    let rows = in_order(&nodes, &drawn);
    page.open("div", &[("class", "boxes tree"), ("role", "group"), ("aria-label", "Processes and their lifetimes")]);
    rows.iter().for_each(|(depth, node)| row(*depth, node, total_ns, page));
    page.raw("<div class=\"lane\"><div class=\"name\"></div><svg class=\"axis\" width=\"100%\" height=\"20\" aria-hidden=\"true\">");
    ticks(total_ns).into_iter().for_each(|tick| mark(100.0 * tick / total_ns, &time(tick), page));
    page.raw("</svg></div></div><ul class=\"legend\">");
    for (name, class) in ROLES.iter().filter(|shown| rows.iter().any(|(_, node)| role(node.process) == **shown)) {
        page.raw("<li>");
        key(class, page);
        page.text(name).raw("</li>");
    }
    page.raw("</ul>");
    let rest = processes.len() - rows.len();
    if rest > 0 {
        let others = many(rest as u64, "other is", "others are");
        let note = format!("Shown: processes with a role or most I/O, and their parents; {others} in the table.");
        page.element("p", &[("class", "note")], &note);
    }
    true
}

/// Selects trainers and readers, then the processes with the most file I/O, each with its ancestors.
fn chosen(nodes: &BTreeMap<i64, Node>) -> BTreeSet<i64> {
    let io = |process: &Value| -> f64 {
        ["read_ns", "write_ns", "metadata_ns", "sync_ns"].iter().filter_map(|field| number(process, field)).sum()
    };
    let mut order: Vec<(i64, bool, f64)> =
        nodes.iter().map(|(proc, node)| (*proc, role(node.process).0 == "other", -io(node.process))).collect();
    order.sort_by(|a, b| a.1.cmp(&b.1).then(a.2.total_cmp(&b.2)));
    let mut drawn = BTreeSet::new();
    for (proc, _, _) in order {
        let above = |proc: &i64| nodes.get(proc)?.parent.filter(|parent| nodes.contains_key(parent));
        let family: Vec<i64> = std::iter::successors(Some(proc), above).take(DEPTH_MAX).collect();
        if drawn.len() + family.iter().filter(|proc| !drawn.contains(*proc)).count() > DRAWN {
            break;
        }
        drawn.extend(family);
    }
    drawn
}

/// Orders each process below its parent, by start time.
fn in_order<'a>(nodes: &'a BTreeMap<i64, Node<'a>>, drawn: &BTreeSet<i64>) -> Vec<(usize, &'a Node<'a>)> {
    let mut below: BTreeMap<Option<i64>, Vec<i64>> = BTreeMap::new();
    for proc in drawn {
        let parent = nodes[proc].parent.filter(|parent| drawn.contains(parent) && parent != proc);
        below.entry(parent).or_default().push(*proc);
    }
    below.values_mut().for_each(|list| list.sort_by(|a, b| nodes[b].from.total_cmp(&nodes[a].from)));
    let mut rows = Vec::new();
    let mut open: Vec<(usize, i64)> =
        below.remove(&None).unwrap_or_default().into_iter().map(|proc| (0, proc)).collect();
    while let Some((depth, proc)) = open.pop() {
        rows.push((depth, &nodes[&proc]));
        open.extend(below.remove(&Some(proc)).unwrap_or_default().into_iter().map(|child| (depth + 1, child)));
    }
    rows
}

fn row(depth: usize, node: &Node, total_ns: f64, page: &mut Markup) {
    let process = node.process;
    let name =
        text(process, "name").filter(|name| !name.is_empty()).or_else(|| text(process, "program")).unwrap_or("?");
    let rank = number(process, "rank").map_or(String::new(), |rank| format!(" rank {rank}"));
    let pid = whole(process, "pid").unwrap_or(0);
    let of = |field: &str| number(process, field).unwrap_or(0.0);
    let (what, class) = role(process);
    let said = format!(
        "{name}{rank} ({pid}), {what}: from {} to {}, read {}, wrote {}, {}",
        time(node.from.max(0.0)),
        time(node.to),
        bytes(of("bytes_read")),
        bytes(of("bytes_written")),
        text(process, "ended").unwrap_or("")
    );
    // Indented by blanks, which need no extra style.
    let indent = "\u{2003}".repeat(depth.min(DEPTH_MAX));
    page.raw("<div class=\"lane\"><div class=\"name\">").text(&format!("{indent}{name}{rank}")).raw(" ");
    page.element("small", &[], &Kind::Number.number(pid as f64)).raw("</div>");
    page.raw("<svg role=\"img\" width=\"100%\" height=\"14\">").element("title", &[], &said);
    let (x, width) = (100.0 * node.from / total_ns, 100.0 * (node.to - node.from) / total_ns);
    let (x, width) = (format!("{x:.2}%"), format!("{:.2}%", width.max(0.2)));
    page.open("rect", &[("class", class), ("x", &x), ("width", &width), ("y", "2"), ("height", "10")]).close("rect");
    page.raw("</svg></div>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn process(proc: i64, parent: Option<i64>, from: i64, role: Option<&str>, read_ns: i64) -> Value {
        json!({
            "proc": proc, "parent": parent, "pid": 100 + proc, "name": format!("p<{proc}>"), "role": role, "first_ts": 1000 + from,
            "span_ns": 50, "read_ns": read_ns, "ended": "exit 0",
        })
    }

    #[test]
    fn each_stands_below_the_one_that_started_it() {
        let processes = [
            process(3, Some(1), 30, Some("reader"), 9),
            process(1, Some(7), 0, Some("trainer"), 0),
            process(2, Some(1), 10, Some("reader"), 9),
            process(4, Some(3), 40, None, 0),
        ];
        let nodes: BTreeMap<i64, Node> = processes.iter().filter_map(|process| node(process, 1000)).collect();
        let drawn = chosen(&nodes);
        let rows: Vec<_> = in_order(&nodes, &drawn).iter().map(|(depth, node)| (*depth, node.from)).collect();
        assert_eq!(rows, [(0, 0.0), (1, 10.0), (1, 30.0), (2, 40.0)]);
        let mut page = Markup::default();
        assert!(write(&processes, 1000, 100.0, &mut page));
        let page = page.into_string();
        assert!(page.contains("p&lt;2&gt; (102), reader: from 10 ns to 60 ns") && !page.contains("p<2>"), "{page}");
        assert!(!write(&processes[..1], 1000, 100.0, &mut Markup::default()));
    }

    #[test]
    fn of_many_those_are_drawn_that_matter_and_rings_have_an_end() {
        let many: Vec<_> = (0..1000).map(|at| process(at, Some((at + 1) % 1000), at, None, at)).collect();
        let nodes: BTreeMap<i64, Node> = many.iter().filter_map(|process| node(process, 1000)).collect();
        let drawn = chosen(&nodes);
        assert!(drawn.len() <= DRAWN && drawn.contains(&999));
        assert!(in_order(&nodes, &drawn).len() <= drawn.len());
    }
}
