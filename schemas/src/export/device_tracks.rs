//! The tracks of GPUs. Spans of a GPU are drawn there, and not on the thread that recorded them, in which they would
//! overlap.

use super::exporter::Call;
use crate::event::devices::{DATA_WAIT, DEVICE, STEP, STREAM, is_of_device};
use crate::event::ops::Op;
use crate::event::record::MetaKind;
use crate::native::names::Names;

/// A track of a process: one stream of a GPU, with its single pieces of work or its steps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct DeviceTrack {
    pub(crate) device: i64,
    pub(crate) stream: i64,
    /// Steps contain work, but by other times: drawn on one track, they would cross.
    is_of_steps: bool,
}

impl DeviceTrack {
    /// Returns the track of a span; `None` if it is not one of a GPU.
    #[inline]
    pub(crate) fn of(call: &Call, names: &Names) -> Option<DeviceTrack> {
        // Calls have no metadata, and most spans of programs have none.
        if call.op != Op::SPAN || call.metadata.is_empty() {
            return None;
        }
        let (_, category) = names.get(u32::try_from(call.fd).ok()?).filter(|(_, category)| is_of_device(category))?;
        let number = |key: &str| {
            let is_it = |id: u32| names.get(id).is_some_and(|(_, text)| text == key.as_bytes());
            let is_int = |kind: i32| MetaKind::from_fd(kind) == Some(MetaKind::Int);
            call.metadata.iter().find(|meta| is_int(meta.kind) && is_it(meta.key)).map(|meta| meta.value)
        };
        let is_of_steps = [STEP, DATA_WAIT].iter().any(|known| known.as_bytes() == category);
        Some(DeviceTrack { device: number(DEVICE)?, stream: number(STREAM).unwrap_or(0), is_of_steps })
    }

    /// Returns the name of the GPU.
    pub(crate) fn gpu(&self) -> String {
        format!("GPU {}", self.device)
    }

    /// Returns the name of the track below its GPU. Work that overlaps other work of the stream has further lanes.
    pub(crate) fn name(&self, lane: usize) -> String {
        let what = if self.is_of_steps { "steps of stream" } else { "stream" };
        let which = if lane == 0 { String::new() } else { format!(" ({})", lane + 1) };
        format!("{what} {}{which}", self.stream)
    }
}

/// Returns an image of two threads that recorded work of two GPUs: two kernels of one stream at the same time, a kernel of the
/// other GPU, and a step.
#[cfg(test)]
pub(crate) fn example() -> crate::native::file::Image {
    use crate::event::clock::Anchor;
    use crate::event::devices::KERNEL;
    use crate::event::record::{Record, word};
    use crate::native::file::{Image, Leftover};
    use crate::native::names::NameKind;

    let mut image = Image::default();
    let mut name = |kind, text: &str| image.names.push(kind, text.as_bytes());
    let [device, stream] = [DEVICE, STREAM].map(|key| name(NameKind::Text, key));
    let [kernel, step] = [KERNEL, STEP].map(|category| name(NameKind::Category, category));
    let sgemm = name(NameKind::Span, "sgemm");
    image.anchors = vec![Anchor { ticks: 1, boot_ns: 5_000_001, real_ns: 1_700_000_000_005_000_001 }];
    for (tid, work) in
        [(43, vec![(kernel, 0, 100, 50), (kernel, 0, 120, 60)]), (44, vec![(kernel, 1, 130, 20), (step, 1, 90, 200)])]
    {
        let mut left = Leftover { tid, ..Leftover::default() };
        for (category, on, start, dur) in work {
            let meta =
                |key, a| Record { word: word(Op::META, 0, true, 0), start, file: key, fd: 0, a, ..Record::default() };
            left.events.push(&meta(device, on));
            left.events.push(&meta(stream, 7));
            let span = Record { word: word(Op::SPAN, 0, false, dur), start, file: sgemm, ..Record::default() };
            left.events.push(&Record { fd: category as i32, ..span });
        }
        image.leftovers.push(left);
    }
    image
}
