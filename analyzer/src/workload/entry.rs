//! A value of a workload, with what tells it.

/// How sure a value is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Confidence {
    /// Nothing in the trace tells; something has to stand there.
    Guess,
    /// Inferred from a pattern that may have other causes.
    Likely,
    /// Counted, or said by spans.
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
    /// As YAML writes it, on one line or as indented ones.
    pub value: String,
    pub confidence: Confidence,
    /// What it was told by.
    pub evidence: String,
}

/// Keys in the making.
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

    /// Nothing is surer than the trace it comes from.
    pub fn limit(&mut self, confidence: Confidence) {
        self.0.iter_mut().for_each(|entry| entry.confidence = entry.confidence.min(confidence));
    }
}

/// Of a time in seconds, as many digits as tell.
pub fn seconds(ns: f64) -> String {
    let text = format!("{:.6}", ns.max(0.0) / 1e9);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() { "0".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_the_digits_that_tell() {
        assert_eq!([1.5e9, 0.0, 323_000_000.0, 1e9].map(seconds), ["1.5", "0", "0.323", "1"]);
    }
}
