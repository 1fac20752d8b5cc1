//! Formats a similarity for readers.

use super::{Distance, FeatureOfBoth, Head, Similarity};
use crate::summary::figures::units::{bytes, grouped, many};
use crate::summary::report::layout::{heading, wrapped};
use crate::text_table::Grid;

/// Features that differ by more are listed first.
const TELLING: f64 = 0.15;

pub fn print(similarity: &Similarity, width: usize) -> String {
    let mut out: String = answer(similarity).iter().map(|sentence| wrapped(sentence, width)).collect();
    heading("Features", &mut out);
    let mut grid = Grid::new(&["<", "before", "after", "difference"]);
    similarity.features.iter().for_each(|feature| grid.row(row(feature)));
    grid.print_within(width, &mut out);
    if !similarity.distances.is_empty() {
        heading("Distances of distributions, from 0 (equal) to 1", &mut out);
        let mut grid = Grid::new(&["<", "distance", "calls before", "after"]);
        similarity.distances.iter().for_each(|distance| grid.row(distance_row(distance)));
        grid.print_within(width, &mut out);
    }
    out
}

fn answer(similarity: &Similarity) -> Vec<String> {
    let mut differing: Vec<_> = similarity.features.iter().filter(|feature| feature.difference > TELLING).collect();
    differing.sort_by(|a, b| b.difference.total_cmp(&a.difference));
    let named: Vec<_> = differing.iter().map(|it| format!("{} ({:.0} %)", it.feature, it.difference * 100.0)).collect();
    let features = many(similarity.features.len() as u64, "feature", "features");
    let said = match named.len() {
        0 => format!("The cosine of {features} is {:.4}; none differs by more than 15 %.", similarity.cosine),
        _ => format!(
            "The cosine of {features} is {:.4}. Features that differ by more than 15 %: {}.",
            similarity.cosine,
            named.join(", ")
        ),
    };
    let sides = [("before", &similarity.before), ("after", &similarity.after)];
    std::iter::once(said).chain(sides.into_iter().filter_map(|(side, head)| remark(side, head))).collect()
}

fn remark(side: &str, head: &Head) -> Option<String> {
    let small = (head.small_files > 0).then(|| {
        let small = many(head.small_files, "file that contains", "files that contain");
        format!("{small} no data ({}) left out", bytes(head.small_bytes as f64))
    });
    let lost = (head.lost > 0)
        .then(|| format!("{} lost; their content is unknown", many(head.lost, "event is", "events are")));
    let said: Vec<String> = small.into_iter().chain(lost).collect();
    (!said.is_empty()).then(|| format!("{}, {side}: {}.", head.trace, said.join("; ")))
}

fn row(feature: &FeatureOfBoth) -> Vec<String> {
    let shown = |value: f64| feature.unit.shown(value);
    let difference = format!("{:.1} %", feature.difference * 100.0);
    vec![feature.feature.into(), shown(feature.before), shown(feature.after), difference]
}

fn distance_row(distance: &Distance) -> Vec<String> {
    let calls = |count: u64| if count == 0 { "-".into() } else { grouped(count) };
    vec![
        distance.distribution.into(),
        format!("{:.3}", distance.distance),
        calls(distance.before_calls),
        calls(distance.after_calls),
    ]
}
