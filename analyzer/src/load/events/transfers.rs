//! Bytes that one call moved from one file to another inside the kernel.

use crate::argument_key::ArgumentKey;
use crate::batch::{Arg, Batch, Value};
use crate::catalog::{Catalog, FILE_NONE, is_stored};

/// The key of the object that a file was sent to.
pub const SENT_TO: &str = ArgumentKey::SentTo.name();

/// Records where the bytes of row `place` came from; `target` is where they went. A file sent to a socket or into a
/// pipe was read, and no other file was accessed: the row becomes a read of it, with the call's time. With `says`, its
/// arguments contain the destination.
pub fn note_source(batch: &mut Batch, place: u32, (source, target): (u32, u32), says: bool, catalog: &Catalog) {
    let is_file = |file: u32| file != FILE_NONE && is_stored(&catalog.path(file));
    if target == FILE_NONE || !is_file(source) || is_file(target) {
        batch.sources.push((place, source));
        return;
    }
    if says {
        let value = Value::Text(catalog.text(&catalog.path(target)));
        batch.args.push(Arg { row: place, key: ArgumentKey::SentTo.number(), value });
    }
    batch.sent.push((place, target));
    let kind = &mut batch.kind[place as usize];
    *kind = catalog.reading(*kind);
    // A column that is not requested is empty.
    batch.file.get_mut(place as usize).into_iter().for_each(|file| *file = source);
}

#[cfg(test)]
mod tests {
    use dlio_schemas::ops::{Class, Op};

    use super::*;
    use crate::batch::Row;

    #[test]
    fn a_file_that_is_sent_is_read() {
        let catalog = Catalog::default();
        let [data, copy, socket] = ["/data", "/copy", "<tcp 127.0.0.1:1 127.0.0.1:2>"].map(|path| catalog.file(path));
        let sendfile = Catalog::kind_of_op(Op::SENDFILE).unwrap();
        let mut batch = Batch::default();
        for (place, target) in [(0, socket), (1, copy)] {
            batch.push(&Row { file: target, ..Row::new(10, 5, sendfile) });
            note_source(&mut batch, place, (data, target), true, &catalog);
        }
        let kinds = catalog.kinds();
        let classes: Vec<_> = batch.kind.iter().map(|kind| kinds[*kind as usize].class).collect();
        assert_eq!((classes, &batch.file[..]), (vec![Class::Read, Class::Write], &[data, copy][..]));
        assert_eq!((&batch.sources[..], &batch.sent[..]), (&[(1, data)][..], &[(0, socket)][..]));
        let to = catalog.text("<tcp 127.0.0.1:1 127.0.0.1:2>");
        assert_eq!((batch.args.len(), batch.args[0].value.clone()), (1, Value::Text(to)));
    }
}
