//! MPI calls. File calls (MPI-IO) are events in a separate layer; all other calls are communication spans.

use dlio_schemas::native::fields::key;
use dlio_schemas::native::names::NameKind;
use dlio_schemas::ops::{Layer, Op};

use crate::calls::call::Done;
use crate::life::lifecycle;
use crate::process::process_info;
use crate::recording::image;
use crate::spans::library_calls::{self, Number, OpenCall, counted};
use crate::thread::local::local;

/// The operations of this layer.
const OPS: std::ops::RangeInclusive<u16> = Op::MPI_FILE_OPEN.0..=Op::MPI_TESTSOME.0;
const COUNT: usize = (Op::MPI_TESTSOME.0 - Op::MPI_FILE_OPEN.0) as usize + 1;
static NAMES: [Number; COUNT] = [const { Number::new() }; COUNT];
static CATEGORY: Number = Number::new();
static COMMUNICATION: Number = Number::new();
static BYTES: Number = Number::new();
static RANKS: Number = Number::new();

/// A call of MPI that has started. Calls of MPI inside it are not recorded.
pub struct MpiCall(OpenCall);

/// Starts a call on a file; `None` if it is not recorded.
#[inline]
pub fn begin(op: Op) -> Option<MpiCall> {
    if !is_recorded() || !OPS.contains(&op.0) {
        return None;
    }
    let name = NAMES[(op.0 - OPS.start()) as usize].get(NameKind::Span, op.info()?.name);
    Some(enter(name, CATEGORY.get(NameKind::Category, Layer::Mpi.name())))
}

/// Starts a call in which ranks communicate; `None` if it is not recorded.
#[inline]
pub fn begin_communication(number: &Number, name: &str) -> Option<MpiCall> {
    if !is_recorded() {
        return None;
    }
    Some(enter(number.get(NameKind::Span, name), COMMUNICATION.get(NameKind::Category, "communication")))
}

/// Returns `true` if calls of MPI are recorded, and this thread is not inside one.
#[inline]
pub fn is_recorded() -> bool {
    // SAFETY: the line is this thread's own.
    library_calls::records(Layer::Mpi) && unsafe { (*local()).in_mpi } == 0
}

fn enter(name: u32, category: u32) -> MpiCall {
    // SAFETY: the line is this thread's own.
    unsafe { (*local()).in_mpi = 1 };
    MpiCall(OpenCall::start(name, category))
}

impl MpiCall {
    /// Ends the call.
    #[inline]
    pub fn end(&self) -> Done {
        // SAFETY: the line is this thread's own.
        unsafe { (*local()).in_mpi = 0 };
        self.0.end()
    }

    /// Records a call in which ranks communicated: the bytes that this rank gave or received, and the number of
    /// ranks (zero if it is unknown).
    pub fn record_communication(&self, done: Done, bytes: Option<i64>, ranks: i64) {
        let bytes = bytes.map(|bytes| counted(&BYTES, "bytes", bytes));
        let ranks = (ranks > 0).then(|| counted(&RANKS, "ranks", ranks));
        match (bytes, ranks) {
            (Some(bytes), Some(ranks)) => self.0.record_span(done, &[bytes, ranks]),
            (one, other) => self.0.record_span(done, one.or(other).as_slice()),
        }
    }
}

/// Records rank and number of ranks, unless the launcher has set variables that contain them.
pub fn note_rank(rank: i64, ranks: i64) {
    if process_info::has_rank() || !lifecycle::records_anything() {
        return;
    }
    for (key, number) in [(key::RANK, rank), (key::RANKS, ranks)] {
        let mut digits = [0; 20];
        image::describe_more(key.as_bytes(), dlio_schemas::decimal::decimal(number, &mut digits));
    }
}
