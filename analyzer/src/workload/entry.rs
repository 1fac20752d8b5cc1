//! A value of a workload, with its evidence.

/// How reliable a value is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Confidence {
    /// Not recorded in the trace, but a value is required.
    Guess,
    /// Inferred from a pattern that may have other causes.
    Likely,
    /// Counted, or recorded in spans.
    Certain,
}

impl Confidence {
    pub fn name(self) -> &'static str {
        match self {
            Confidence::Guess => "guess",
            Confidence::Likely => "likely",
            Confidence::Certain => "certain",
        }
    }
}

/// One key of the file.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// With dots: `reader.batch_size`.
    pub key: &'static str,
    /// In YAML, on one line or as indented lines.
    pub value: String,
    pub confidence: Confidence,
    /// The source of the value.
    pub evidence: String,
}

/// Keys being collected.
#[derive(Default, Debug)]
pub struct Entries(pub Vec<Entry>);

impl Entries {
    pub fn certain(&mut self, key: &'static str, value: impl ToString, evidence: impl Into<String>) {
        self.add(key, value, Confidence::Certain, evidence);
    }

    pub fn likely(&mut self, key: &'static str, value: impl ToString, evidence: impl Into<String>) {
        self.add(key, value, Confidence::Likely, evidence);
    }

    pub fn guess(&mut self, key: &'static str, value: impl ToString, evidence: impl Into<String>) {
        self.add(key, value, Confidence::Guess, evidence);
    }

    pub fn add(
        &mut self,
        key: &'static str,
        value: impl ToString,
        confidence: Confidence,
        evidence: impl Into<String>,
    ) {
        self.0.push(Entry { key, value: value.to_string(), confidence, evidence: evidence.into() });
    }

    /// Limits the confidence of all values: none can be more reliable than the trace.
    pub fn limit(&mut self, confidence: Confidence) {
        self.0.iter_mut().for_each(|entry| entry.confidence = entry.confidence.min(confidence));
    }
}

/// Formats a time in seconds with its significant digits.
pub fn seconds(ns: f64) -> String {
    let text = format!("{:.6}", ns.max(0.0) / 1e9);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() { "0".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_keep_significant_digits() {
        assert_eq!([1.5e9, 0.0, 323_000_000.0, 1e9].map(seconds), ["1.5", "0", "0.323", "1"]);
    }
}
