//! Decisions that separately started ranks make together. If one rank refuses, no rank starts. Rank 0 alone does the work that
//! only one rank may do. Each failure is reported once.

use crate::failure::{Failure, Kind, Outcome};
use crate::ranks::communicator::Communicator;

/// Checks that all ranks are ready for the same run. `text` describes the run, one line per setting that may differ.
pub fn all_prepared<T>(
    communicator: &mut dyn Communicator,
    prepared: Outcome<T>,
    text: impl Fn(&T) -> String,
) -> Outcome<T> {
    let own = prepared.as_ref().map_or_else(refusal, |prepared| consent(text(prepared).as_bytes()));
    let all = communicator.exchange(&own)?;
    let (rank, failure) = match all.iter().position(|message| message.first() != Some(&CONSENT)) {
        Some(refused) => (refused, failure_of(&all[refused])),
        None => match all.iter().position(|message| *message != all[0]) {
            None => return prepared,
            Some(other) => (other, disagreement(other, &all[0][1..], &all[other][1..])),
        },
    };
    match prepared {
        Err(own) if rank as u64 == communicator.rank() => Err(own),
        Ok(_) if rank as u64 == communicator.rank() => Err(failure),
        _ => Err(Failure::new(failure.kind, "")),
    }
}

/// Sends the outcome of what rank 0 did for all ranks to the other ranks; `own` is that outcome on rank 0. Only rank 0
/// reports a failure.
pub fn broadcast(communicator: &mut dyn Communicator, own: Option<Outcome<String>>) -> Outcome<String> {
    let message = own.as_ref().map(|own| own.as_ref().map_or_else(refusal, |text| consent(text.as_bytes())));
    let all = communicator.exchange(&message.unwrap_or_default())?;
    match (own, all[0].split_first()) {
        (Some(own), _) => own,
        (None, Some((&CONSENT, text))) => Ok(String::from_utf8_lossy(text).into_owned()),
        (None, _) => Err(Failure::new(failure_of(&all[0]).kind, "")),
    }
}

/// The first byte of a message if all is well; otherwise it is the exit code.
const CONSENT: u8 = 0;

fn consent(text: &[u8]) -> Vec<u8> {
    [&[CONSENT], text].concat()
}

fn refusal(failure: &Failure) -> Vec<u8> {
    vec![failure.kind as u8]
}

fn failure_of(message: &[u8]) -> Failure {
    let kinds = [Kind::Refused, Kind::MissingData, Kind::DamagedData, Kind::Interrupted];
    let kind = kinds.into_iter().find(|kind| message.first() == Some(&(*kind as u8)));
    Failure::new(kind.unwrap_or(Kind::System), "")
}

fn disagreement(rank: usize, first: &[u8], other: &[u8]) -> Failure {
    let (first, other) = (String::from_utf8_lossy(first), String::from_utf8_lossy(other));
    let different = first.lines().zip(other.lines()).find(|(first, other)| first != other);
    let (first, other) = different.map_or(("less", "more"), |(first, other)| (first.trim(), other.trim()));
    Failure::refused(format!("rank {rank} belongs to another run than rank 0: `{other}` instead of `{first}`"))
        .remedy("start all ranks with the same arguments, in the same directory")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rank 1 of two, with the message that it receives from rank 0.
    struct Second(Vec<u8>);

    impl Communicator for Second {
        fn rank(&self) -> u64 {
            1
        }

        fn size(&self) -> u64 {
            2
        }

        fn exchange(&mut self, bytes: &[u8]) -> Outcome<Vec<Vec<u8>>> {
            Ok(vec![self.0.clone(), bytes.to_vec()])
        }
    }

    #[test]
    fn disagreement_names_the_differing_setting() {
        let mut second = Second(consent(b"epochs: 1\nbatch: 4"));
        assert_eq!(
            all_prepared(&mut second, Ok("epochs: 1\nbatch: 4"), |text| text.to_string()),
            Ok("epochs: 1\nbatch: 4")
        );
        let other = all_prepared(&mut second, Ok("epochs: 1\nbatch: 2"), |text| text.to_string()).unwrap_err();
        assert!(other.what.ends_with("`batch: 2` instead of `batch: 4`"), "{other}");
    }

    #[test]
    fn a_failure_is_printed_once() {
        let missing = Failure::new(Kind::MissingData, "no data");
        let mut second = Second(refusal(&missing));
        let silent = Err(Failure::new(Kind::MissingData, ""));
        assert_eq!(all_prepared(&mut second, Ok(""), |text| text.to_string()), silent);
        assert_eq!(all_prepared(&mut second, Err::<&str, _>(missing.clone()), |text| text.to_string()), silent);
        assert_eq!(broadcast(&mut second, None), Err(Failure::new(Kind::MissingData, "")));
        let mut alone = crate::ranks::communicator::Single;
        assert_eq!(broadcast(&mut alone, Some(Err(missing.clone()))), Err(missing));
        assert_eq!(broadcast(&mut Second(consent(b"run/1")), None), Ok("run/1".into()));
    }
}
