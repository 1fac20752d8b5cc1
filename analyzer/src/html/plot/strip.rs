//! A bar whose parts add up to a whole.

use crate::html::figures::{Kind, percent};
use crate::html::markup::Markup;

/// A part of a bar.
pub struct Part {
    pub name: String,
    /// The style class that sets its color and pattern.
    pub class: &'static str,
    pub value: f64,
}

/// Writes a bar with its legend; writes nothing if all parts are empty.
pub fn write(title: &str, kind: Kind, parts: &[Part], page: &mut Markup) {
    write_within(title, kind, parts, parts.iter().map(|part| part.value).sum(), page);
}

/// Like [`write()`], but on a scale that ends at `full`, so that several bars can be compared.
pub fn write_within(title: &str, kind: Kind, parts: &[Part], full: f64, page: &mut Markup) {
    let whole: f64 = parts.iter().map(|part| part.value).sum();
    let parts: Vec<&Part> = parts.iter().filter(|part| part.value > 0.0).collect();
    if whole <= 0.0 || full <= 0.0 {
        return;
    }
    let label = |part: &Part| format!("{} {} ({})", part.name, kind.number(part.value), percent(part.value / whole));
    let all = parts.iter().map(|part| label(part)).collect::<Vec<_>>().join(", ");
    page.raw("<div class=\"strip\">").element("h3", &[], title);
    page.raw("<svg role=\"img\" width=\"100%\" height=\"26\">").element("title", &[], title);
    page.element("desc", &[], &format!("{title}: {all}"));
    let mut x = 0.0;
    for part in &parts {
        let width = 100.0 * part.value / full;
        let (from, width) = (format!("{x:.3}%"), format!("{width:.3}%"));
        let sides = [("x", from.as_str()), ("width", width.as_str()), ("height", "26")];
        page.open("rect", &[&[("class", part.class)][..], &sides].concat());
        page.element("title", &[], &label(part)).close("rect");
        if hatched(part.class) {
            page.open("rect", &[&[("fill", "url(#hatch)"), ("pointer-events", "none")][..], &sides].concat())
                .close("rect");
        }
        x += 100.0 * part.value / full;
    }
    page.raw("</svg><ul class=\"legend\">");
    for part in &parts {
        page.raw("<li>");
        key(part.class, page);
        page.text(&part.name).raw(" ").element("b", &[], &kind.number(part.value)).raw(" ");
        page.text(&percent(part.value / whole)).raw("</li>");
    }
    page.raw("</ul></div>\n");
}

/// Writes a square in the color of a class.
pub fn key(class: &'static str, page: &mut Markup) {
    page.raw("<svg class=\"key\" width=\"12\" height=\"12\" aria-hidden=\"true\">");
    page.open("rect", &[("class", class), ("width", "12"), ("height", "12")]).close("rect");
    if hatched(class) {
        page.raw("<rect width=\"12\" height=\"12\" fill=\"url(#hatch)\"></rect>");
    }
    page.raw("</svg> ");
}

/// Returns `true` if the class is hatched, as a second cue besides color.
pub fn hatched(class: &str) -> bool {
    matches!(class, "wait" | "wait-io" | "written")
}

/// Writes the patterns that bars refer to, once per page.
pub fn patterns(page: &mut Markup) {
    page.raw(
        "<svg class=\"away\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs><pattern id=\"hatch\" width=\"6\" height=\"6\" \
         patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><path d=\"M0 0V6\" stroke=\"#fff\" \
         stroke-opacity=\".45\" stroke-width=\"3\"/></pattern></defs></svg>\n",
    );
}
