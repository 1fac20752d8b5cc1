//! Reads the few XML elements of a store's answers: texts of elements with known names.

/// Returns the text of the first element of this name.
pub fn text(xml: &str, name: &str) -> Option<String> {
    let (_, behind) = xml.split_once(&format!("<{name}>"))?;
    let (inside, _) = behind.split_once(&format!("</{name}>"))?;
    let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    Some(plain.iter().fold(inside.to_string(), |text, (escaped, plain)| text.replace(escaped, plain)))
}

/// Returns the content of each element of this name.
pub fn elements<'a>(xml: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    xml.split(open.as_str())
        .skip(1)
        .filter_map(|part| part.split_once(close.as_str()).map(|(inside, _)| inside))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_by_their_names() {
        let xml =
            "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>a &lt;b&gt; &amp;amp;</Message></Error>";
        assert_eq!(text(xml, "Code").as_deref(), Some("NoSuchKey"));
        assert_eq!(text(xml, "Message").as_deref(), Some("a <b> &amp;"));
        assert_eq!((text(xml, "Key"), text("<Code>cut", "Code")), (None, None));
        assert_eq!(elements("<a><u>1</u><u>2</u></a>", "u"), ["1", "2"]);
    }
}
