//! Decoders of ZooKeeper's frames against arbitrary bytes; the fuzz target `zookeeper_frame` goes deeper, and damage near real frames is
//! tried beside the code.

mod entry;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decoders_never_panic(opcode in prop_oneof![-12..30_i8, 98..110_i8], frame in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut data = vec![opcode.cast_unsigned()];
        data.extend(frame);
        entry::zookeeper_frame(&data);
    }
}
