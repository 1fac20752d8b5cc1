//! Markup that is safe by its type: text is escaped, and only the program's own literals are written unchanged.
//!
//! Names come from the traced host and may contain anything. Computed text can enter a page only through
//! [`Markup::text`], an attribute value or [`Markup::data`], all of which escape it.

use std::fmt::Write;

use serde_json::Value;

use crate::text_table::is_obeyed;

/// A fragment of a page.
#[derive(Clone, Default, Debug, PartialEq)]
pub struct Markup(String);

/// Returns displayable text: replaces characters that change the writing direction or control a terminal.
pub fn tame(text: &str) -> String {
    text.chars().map(|c| if is_obeyed(c) { '\u{fffd}' } else { c }).collect()
}

impl Markup {
    /// Appends literal markup.
    pub fn raw(&mut self, made: &'static str) -> &mut Markup {
        self.0.push_str(made);
        self
    }

    /// Appends text, escaped.
    pub fn text(&mut self, text: &str) -> &mut Markup {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c if is_obeyed(c) => self.0.push('\u{fffd}'),
                c => self.0.push(c),
            }
        }
        self
    }

    /// Opens an element.
    pub fn open(&mut self, tag: &'static str, attributes: &[(&'static str, &str)]) -> &mut Markup {
        let _ = write!(self.0, "<{tag}");
        for (name, value) in attributes {
            let _ = write!(self.0, " {name}=\"");
            self.text(value);
            self.0.push('"');
        }
        self.0.push('>');
        self
    }

    pub fn close(&mut self, tag: &'static str) -> &mut Markup {
        let _ = write!(self.0, "</{tag}>");
        self
    }

    /// Appends an element that contains only text.
    pub fn element(&mut self, tag: &'static str, attributes: &[(&'static str, &str)], text: &str) -> &mut Markup {
        self.open(tag, attributes).text(text).close(tag)
    }

    pub fn append(&mut self, other: &Markup) -> &mut Markup {
        self.0.push_str(&other.0);
        self
    }

    /// Embeds values for the script of the page.
    pub fn data(&mut self, id: &str, value: &Value) -> &mut Markup {
        self.open("script", &[("type", "application/json"), ("id", id)]);
        // The escapes keep text in the data from closing the element or opening a comment.
        self.0.push_str(&tamed(value).to_string().replace('<', "\\u003c"));
        self.close("script").raw("\n")
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

fn tamed(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(tame(text)),
        Value::Array(values) => values.iter().map(tamed).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (tame(name), tamed(value))).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        let mut page = Markup::default();
        page.open("a", &[("title", "\"><script>'&")]).text("<b>\u{202e}x\u{0}</b>").close("a");
        let expected = "<a title=\"&quot;&gt;&lt;script&gt;&#39;&amp;\">&lt;b&gt;\u{fffd}x\u{fffd}&lt;/b&gt;</a>";
        assert_eq!(page.into_string(), expected);
    }

    #[test]
    fn data_cannot_end_its_element() {
        let mut page = Markup::default();
        let hostile = "</script><img src=x onerror=alert(1)><!--\u{2066}";
        page.data("d", &serde_json::json!({ hostile: [hostile, 1, null] }));
        let page = page.into_string();
        assert_eq!(page.matches('<').count(), 2, "{page}");
        let from = page.find('>').unwrap() + 1;
        let read: Value = serde_json::from_str(&page[from..page.rfind("</script>").unwrap()]).unwrap();
        let tamed = hostile.replace('\u{2066}', "\u{fffd}");
        assert_eq!(read, serde_json::json!({ &tamed: [tamed, 1, null] }));
    }
}
