//! Work of GPUs: a track per GPU, and below it one per stream.
//!
//! The packets of a span are in the sequence of the thread that recorded it, so readers find it there.

use super::event::{Thread, put_on_track};
use super::process_packets::{Process, put_packet};
use crate::export::device_tracks::DeviceTrack;
use crate::export::exporter::Call;
use crate::native::names::Names;
use crate::perfetto::layout::child_uuid;
use crate::perfetto::proto::{Message, field};

/// Writes a span of a GPU, on a lane of its track.
#[cold]
pub(super) fn put_work(
    out: &mut Message,
    owner: &Process,
    thread: &mut Thread,
    (track, lane): (DeviceTrack, usize),
    call: &Call,
    names: &Names,
) {
    let gpu = child_uuid(owner.uuid, "gpu", &track.device.to_le_bytes());
    let (gpu_name, name) = (track.gpu(), track.name(lane));
    let uuid = child_uuid(gpu, "stream", name.as_bytes());
    describe(out, thread, [(gpu, owner.uuid, &gpu_name), (uuid, gpu, &name)]);
    put_on_track(out, thread, call, uuid, names);
}

/// Describes tracks, with their parents and names, once in the sequence of a thread.
fn describe(out: &mut Message, thread: &mut Thread, tracks: [(u64, u64, &str); 2]) {
    let (head, state) = (thread.head, thread.state.as_mut().expect("introduced"));
    for (uuid, parent, name) in tracks.into_iter().filter(|(uuid, ..)| state.tracks.insert(*uuid)) {
        put_packet(out, head, |packet| {
            packet.nested(field::packet::TRACK, |track| {
                track.number(field::track::UUID, uuid);
                track.number(field::track::PARENT, parent);
                track.text(field::track::NAME, name.as_bytes());
            });
        });
    }
}
