//! Tests one stored file of every version ever written. Both were left by one program, killed the first time: it
//! opens `sample`, starts the span `epoch` (7) and in it `fetch` (samples = 3) around three reads of 8 bytes; since
//! version 2 also around a `poll` that times out.

use dlio_schemas::native::block::Opener;
use dlio_schemas::native::columns::Events;
use dlio_schemas::native::fields::{Ending, key};
use dlio_schemas::native::file::{Image, decode};
use dlio_schemas::native::ring::Ring;
use dlio_schemas::ops::Op;
use dlio_schemas::record::{STEP_NONE, unpack_steps};

fn stored(name: &str) -> Vec<u8> {
    let path = dlio_tests::home().join("formats").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn check(image: &Image, events: &Events) {
    assert!(image.damage.is_empty());
    let all = |op: Op| (0..events.len()).filter(|&i| Op(events.op[i]) == op).collect::<Vec<_>>();
    let one = |op: Op| all(op)[0];
    let reads: Vec<_> = all(Op::READ).into_iter().map(|i| (events.a[i], events.b[i], events.ret[i])).collect();
    assert_eq!(reads, [(0, 8, 8), (8, 8, 8), (16, 8, 8)]);
    assert_eq!(image.names.text(events.file[one(Op::OPEN)]).unwrap(), "/data/sample");
    let (fetch, meta) = (one(Op::SPAN), one(Op::META));
    assert_eq!((image.names.text(events.file[fetch]).unwrap().as_ref(), events.depth[fetch]), ("fetch", 1));
    assert_eq!((image.names.text(events.file[meta]).unwrap().as_ref(), events.a[meta]), ("samples", 3));
}

fn polls(events: &Events) -> usize {
    (0..events.len()).filter(|&i| Op(events.op[i]) == Op::POLL).count()
}

fn native_file_is_read(name: &str) -> Events {
    let bytes = stored(name);
    let image = Image::from_dlt(&bytes).unwrap();
    let mut events = Events::default();
    decode(&image.blocks[0], &bytes, &mut Opener::default(), &mut events).unwrap();
    check(&image, &events);
    assert_eq!((image.fields.ending(), image.fields.get(key::PROGRAM)), (Ending::Exit(0), Some("reader")));
    events
}

#[test]
fn native_files_of_every_version_are_read() {
    assert_eq!(polls(&native_file_is_read("v1.dlt")), 0);
    assert_eq!(polls(&native_file_is_read("v2.dlt")), 1);
}

#[test]
fn a_ring_of_version_1_is_read() {
    check_ring("v1.ring");
}

#[test]
fn a_ring_of_version_2_is_read() {
    check_ring("v2.ring");
}

fn check_ring(name: &str) {
    let image = Image::from_ring(&Ring::parse(&stored(name)).unwrap());
    check(&image, &image.leftovers[0].events);
    assert_eq!(image.fields.ending(), Ending::Killed);
    let [epoch] = image.open_spans[..] else { panic!("one open span") };
    assert_eq!(image.names.text(epoch.name).unwrap(), "epoch");
    assert_eq!(unpack_steps(epoch.steps), (7, STEP_NONE));
}
