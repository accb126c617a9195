//! What fuzzers call: every decoder of bytes that the store finds on disk. They panic when a decoder breaks its word (T11).
//!
//! Only with the feature `fuzzing`; the programs are in `/fuzz`.

use bytes::Bytes;
use cadastre_types::CellType;

use crate::log;
use crate::nonces::Moment;
use crate::packed::{self, Packed};

/// A segment of the log as a start finds it, first with its checksums as they are, then with a right one over the same records.
pub fn log_segment(data: &[u8]) {
    log::fuzz_segment(data);
    log::fuzz_records(data);
}

/// Values of packed rows, of overflow cells and of nonces. A value that is read is written the same again.
pub fn row_values(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(packed) = Packed::decode(bytes.clone()) {
        let again = packed::encode(packed.overflow, &packed.cells);
        let read = Packed::decode(again).expect("what was written can be read");
        assert_eq!(read, packed);
        let both = packed::merge(packed.cells.clone(), read.cells);
        assert_eq!(both.len(), packed::merge(both.clone(), packed.cells).len());
    }
    // A refusal is as good as an answer here.
    let _ = packed::decode_overflow(Bytes::new(), 0, CellType::Put, bytes);
    let moment = Moment {
        epoch: 1,
        open_ms: 1,
    };
    let _ = moment.is_over(data);
}
