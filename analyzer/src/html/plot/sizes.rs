//! Calls by transfer size: the share of all calls, bytes and time that each size has.

use serde_json::Value;

use crate::html::figures::Kind;
use crate::html::markup::Markup;
use crate::html::plot::lanes::{Axis, Lane, Lanes};
use crate::html::values::{number, text};
use crate::summary::figures::units::power_of_two;

/// The number of bins, one per power of two; the last bin also counts larger calls.
const PLACES: usize = 64;

/// Writes a plot for reads and one for writes. Rows have `class`, `from`, `to`, `count`, `bytes` and `time_ns`.
pub fn write(rows: &[Value], page: &mut Markup) {
    for (id, class, title, colour) in
        [("sizes-read", "read", "Reads by size", "read"), ("sizes-write", "write", "Writes by size", "written")]
    {
        let own: Vec<&Value> = rows.iter().filter(|row| text(row, "class") == Some(class)).collect();
        if own.len() > 1 {
            one(id, title, colour, &own, page);
        }
    }
}

/// Returns the index of the bin that starts at a size: 0, 1, 2, 4 and so on.
fn place(from: f64) -> usize {
    if from < 1.0 { 0 } else { (from.log2() as usize + 1).min(PLACES - 1) }
}

fn one(id: &'static str, title: &str, class: &'static str, rows: &[&Value], page: &mut Markup) {
    let places = || rows.iter().map(|row| place(number(row, "from").unwrap_or(0.0)));
    let (Some(first), Some(last)) = (places().min(), places().max()) else { return };
    let lane = |(name, field): (&str, &str)| {
        let mut values = vec![0.0; last - first + 1];
        for (row, place) in rows.iter().zip(places()) {
            values[place - first] += number(row, field).unwrap_or(0.0);
        }
        let whole: f64 = values.iter().sum();
        values.iter_mut().for_each(|value| *value /= whole.max(1.0));
        Lane { name: name.into(), class, kind: Kind::Share, values, full: None }
    };
    let lanes = [("of the calls", "count"), ("of the bytes", "bytes"), ("of the time", "time_ns")].map(lane);
    page.element("h3", &[], title);
    let marks = (first..=last).map(mark).collect();
    Lanes { id, title, moments: vec![], first: vec![], pieces: vec![], lanes: lanes.into(), axis: Axis::Marks(marks) }
        .write(page);
}

fn mark(place: usize) -> String {
    match place {
        0 => "nothing".into(),
        1 => "1 B".into(),
        place => format!("from {}", power_of_two(1 << (place - 1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sizes_have_places_in_order() {
        assert_eq!([0.0, 1.0, 2.0, 4096.0].map(place), [0, 1, 2, 13]);
        assert_eq!([0, 1, 13, 21].map(mark), ["nothing", "1 B", "from 4 KiB", "from 1 MiB"]);
        let row = |from: u64, count: u64| json!({"class": "read", "from": from, "to": 2 * from, "count": count, "bytes": from * count, "time_ns": count});
        let mut page = Markup::default();
        write(&[row(4096, 3), row(16384, 1)], &mut page);
        assert!(page.into_string().contains("[\"of the calls\",\"share\",[0.75,0,0.25]]"));
    }
}
