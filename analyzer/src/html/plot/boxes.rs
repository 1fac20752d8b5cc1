//! Box plots side by side on a logarithmic axis: minimum, middle half, median, 99th percentile and maximum.

use super::lanes::mark;
use super::scale::powers;
use crate::html::figures::Kind;
use crate::html::markup::Markup;
use crate::summary::figures::quantiles::Quantiles;

/// One distribution.
pub struct Spread {
    pub name: String,
    /// The style class that sets its color.
    pub class: &'static str,
    pub values: Quantiles,
}

pub fn write(title: &str, kind: Kind, spreads: &[Spread], page: &mut Markup) {
    let positive = |value: f64| value.max(1.0);
    let least = spreads.iter().map(|spread| positive(spread.values.min)).fold(f64::INFINITY, f64::min);
    let most = spreads.iter().map(|spread| positive(spread.values.max)).fold(1.0, f64::max).max(least * 10.0);
    if spreads.is_empty() {
        return;
    }
    let place = |value: f64| 100.0 * (positive(value).log10() - least.log10()) / (most.log10() - least.log10());
    page.open("div", &[("class", "boxes"), ("role", "group"), ("aria-label", title)]);
    for spread in spreads {
        spread.write(kind, &place, page);
    }
    page.raw("<div class=\"lane\"><div class=\"name\"></div><svg class=\"axis\" width=\"100%\" height=\"20\" aria-hidden=\"true\">");
    powers(least, most).into_iter().for_each(|tick| mark(place(tick), &kind.number(tick), page));
    page.raw("</svg></div>");
    page.raw(
        "<p class=\"note\">Line: minimum to maximum. Box: the middle half. Thick mark: median. Thin mark: 99 \
        %.</p></div>\n",
    );
}

impl Spread {
    fn write(&self, kind: Kind, place: &impl Fn(f64) -> f64, page: &mut Markup) {
        let number = |value: f64| kind.number(value);
        let Quantiles { min, p25, median, p75, p99, max, .. } = self.values;
        let title = format!(
            "{}: {} to {}, median {}, half between {} and {}, 99 % below {}",
            self.name,
            number(min),
            number(max),
            number(median),
            number(p25),
            number(p75),
            number(p99)
        );
        page.raw("<div class=\"lane\"><div class=\"name\">").text(&self.name).raw(" ").element(
            "small",
            &[],
            &number(median),
        );
        page.raw("</div><svg role=\"img\" width=\"100%\" height=\"20\">").element("title", &[], &title);
        let x = |value: f64| format!("{:.2}%", place(value));
        page.open("line", &[("class", "whisker"), ("x1", &x(min)), ("x2", &x(max)), ("y1", "10"), ("y2", "10")])
            .close("line");
        let width = format!("{:.2}%", (place(p75) - place(p25)).max(0.3));
        page.open("rect", &[("class", self.class), ("x", &x(p25)), ("width", &width), ("y", "4"), ("height", "12")])
            .close("rect");
        for (class, value) in [("median", median), ("last", p99)] {
            page.open("line", &[("class", class), ("x1", &x(value)), ("x2", &x(value)), ("y1", "2"), ("y2", "18")])
                .close("line");
        }
        page.raw("</svg></div>");
    }
}
