//! The frame of every page: style, script, and the content security policy that forbids any download.

use super::markup::Markup;
use super::plot::strip;

/// Includes the content security policy that forbids any download.
const HEAD: &str = include_str!("head.html");
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

pub fn open(title: &str, page: &mut Markup) {
    page.raw(HEAD);
    page.element("title", &[], &format!("{title} – dlio report"))
        .raw("<style>")
        .raw(STYLE)
        .raw("</style></head><body>\n");
    page.raw("<a class=\"skip\" href=\"#verdict\">Skip to the verdict</a>");
    strip::patterns(page);
}

/// Closes the page; `more` is where else its metrics are explained.
pub fn close(more: &'static str, page: &mut Markup) {
    page.raw("</main><footer><p>Made by ").text(concat!("dlio-analyze ", env!("CARGO_PKG_VERSION")));
    page.raw(". A single file without external resources. ").raw(more).raw("</p></footer>\n");
    page.raw("<script>").raw(SCRIPT).raw("</script></body></html>\n");
}
