//! Stacked columns: how each step was spent.

use std::fmt::Write;

use serde_json::json;

use super::lanes::{close, open};
use super::strip::key;
use crate::html::figures::Kind;
use crate::html::markup::Markup;

/// A part that all columns have.
pub struct Layer {
    pub name: &'static str,
    /// The style class that sets its color and pattern.
    pub class: &'static str,
    pub values: Vec<f64>,
}

/// Writes columns side by side; `marks` contains their names.
pub fn write(id: &'static str, title: &str, kind: Kind, layers: &[Layer], marks: &[String], page: &mut Markup) {
    let layers: Vec<&Layer> = layers.iter().filter(|layer| layer.values.iter().any(|value| *value > 0.0)).collect();
    let columns = marks.len();
    let height = |at: usize| layers.iter().map(|layer| layer.values[at]).sum::<f64>();
    let most = (0..columns).map(height).fold(0.0, f64::max);
    if columns == 0 || most <= 0.0 {
        return;
    }
    open(id, title, page);
    page.raw("<div class=\"lane\"><div class=\"name\">").text(title).raw(" ").element(
        "small",
        &[],
        &format!("to {}", kind.number(most)),
    );
    let frame = format!("0 0 {columns} 100");
    page.raw("</div>").open(
        "svg",
        &[("role", "img"), ("viewBox", &frame), ("preserveAspectRatio", "none"), ("width", "100%"), ("height", "150")],
    );
    let means: Vec<_> = layers
        .iter()
        .map(|layer| format!("{} {}", layer.name, kind.number(layer.values.iter().sum::<f64>() / columns as f64)))
        .collect();
    page.element("title", &[], title).element(
        "desc",
        &[],
        &format!("Average of {columns} columns: {}", means.join(", ")),
    );
    let mut base = vec![0.0; columns];
    for layer in &layers {
        let top: Vec<f64> = base.iter().zip(&layer.values).map(|(base, value)| base + value).collect();
        let path = band(&base, &top, most);
        page.open("path", &[("class", layer.class), ("d", &path)]).close("path");
        base = top;
    }
    page.raw("</svg></div>");
    page.open("div", &[("class", "lane")]).raw("<div class=\"name\"></div><div class=\"ends\">");
    page.element("span", &[], &marks[0]).element("span", &[], &marks[columns - 1]).raw("</div></div>");
    close(page);
    page.raw("<ul class=\"legend\">");
    for layer in &layers {
        page.raw("<li>");
        key(layer.class, page);
        page.text(layer.name).raw("</li>");
    }
    page.raw("</ul>");
    let rows: Vec<_> = layers
        .iter()
        .map(|layer| {
            json!([layer.name, kind.name(), layer.values.iter().map(|value| value.round()).collect::<Vec<_>>()])
        })
        .collect();
    page.data(&format!("{id}-data"), &json!({ "columns": columns, "marks": marks, "lanes": rows }));
}

/// Returns the band between two step functions.
fn band(base: &[f64], top: &[f64], most: f64) -> String {
    let y = |value: &f64| format!("{:.1}", 100.0 - 98.0 * value / most);
    let mut path = format!("M0 {}", y(&base[0]));
    for (at, value) in top.iter().enumerate() {
        let _ = write!(path, "V{}H{}", y(value), at + 1);
    }
    for (at, value) in base.iter().enumerate().rev() {
        let _ = write!(path, "V{}H{at}", y(value));
    }
    path + "Z"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_upon_each_other() {
        assert_eq!(band(&[0.0, 0.0], &[50.0, 100.0], 100.0), "M0 100.0V51.0H1V2.0H2V100.0H1V100.0H0Z");
        let layer = |name, class, values| Layer { name, class, values };
        let layers = [
            layer("compute", "compute", vec![2.0, 3.0]),
            layer("wait", "wait", vec![2.0, 0.0]),
            layer("none", "other", vec![0.0, 0.0]),
        ];
        let mut page = Markup::default();
        write("steps", "Steps", Kind::Time, &layers, &["step 1".into(), "step 2".into()], &mut page);
        let page = page.into_string();
        assert!(
            page.contains("compute 2.50 ns, wait 1.00 ns") || page.contains("compute 2.50 ns, wait 1 ns"),
            "{page}"
        );
        assert_eq!(page.matches("<path").count(), 2);
    }
}
