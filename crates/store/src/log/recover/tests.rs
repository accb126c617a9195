//! Torn tails are cut, damage is refused and left alone.

use std::future::Future;

use cadastre_env::{Env, RealEnv, RealEnvConfig, RealFile};
use cadastre_types::Code;

use super::super::format::{Encoded, GroupBuilder};
use super::*;

const SEGMENT: u64 = 64 * 1024;

fn run<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    program: impl FnOnce(RealEnv) -> F,
) -> T {
    let dir = tempfile::tempdir().unwrap();
    let env = RealEnv::start(&RealEnvConfig {
        data_dir: dir.path().to_owned(),
        cores: 1,
        background_threads: 1,
    })
    .unwrap();
    let answer = env.block_on(program(env.clone())).unwrap();
    env.shutdown();
    answer
}

fn group(salt: u64, lsn: u64, synced: u64) -> Vec<u8> {
    let mut builder = GroupBuilder::new();
    builder.name(1, "p");
    builder.record(1, &Encoded::fence(1, lsn));
    builder.finish(salt, lsn, synced)
}

/// A segment with groups of these (LSN, synced LSN); answers where each begins.
async fn segment(env: &RealEnv, number: u64, synced: u64, groups: &[(u64, u64)]) -> Vec<u64> {
    let file = env
        .disk()
        .create(&segment_path(number), SEGMENT)
        .await
        .unwrap();
    let header = SegmentHeader {
        lane: 0,
        number,
        salt: number,
        synced_lsn: synced,
    };
    file.write_at(0, &header.encode()).unwrap();
    let mut at = SEGMENT_HEADER_LEN as u64;
    let mut starts = Vec::new();
    for (lsn, synced) in groups {
        let bytes = group(number, *lsn, *synced);
        file.write_at(at, &bytes).unwrap();
        starts.push(at);
        at += bytes.len() as u64;
    }
    starts.push(at);
    starts
}

fn lsns(found: &Recovered<RealFile>) -> Vec<u64> {
    let groups = found.index.groups_of("p");
    groups.iter().map(|group| group.at.last_lsn).collect()
}

async fn zero(env: &RealEnv, number: u64, from: u64, to: u64) {
    let file = env.disk().open(&segment_path(number)).await.unwrap();
    file.write_at(from, &vec![0; (to - from) as usize]).unwrap();
}

#[test]
fn an_empty_directory_and_unused_spares() {
    run(|env| async move {
        let found = recover(&env).await.unwrap();
        assert_eq!(
            (found.last_lsn, found.last_segment, found.index.len()),
            (0, 0, 0)
        );
        env.disk().create(&segment_path(7), SEGMENT).await.unwrap();
        let found = recover(&env).await.unwrap();
        assert_eq!((found.last_segment, found.index.len()), (7, 0));
        assert!(
            env.disk().list(DIR).unwrap().is_empty(),
            "the spare is gone"
        );
    });
}

#[test]
fn whole_segments_are_read_and_their_ends_cut() {
    run(|env| async move {
        let starts = segment(&env, 1, 0, &[(1, 0), (2, 1), (5, 2)]).await;
        segment(&env, 2, 5, &[(6, 5)]).await;
        let found = recover(&env).await.unwrap();
        // The last group, of which nobody knows that it is durable, is in a segment of its own.
        assert_eq!((found.last_lsn, found.last_segment), (6, 3));
        assert_eq!(found.lanes, BTreeMap::from([(0, 6)]));
        assert_eq!(lsns(&found), [1, 2, 5, 6]);
        let file = env.disk().open(&segment_path(1)).await.unwrap();
        assert_eq!(file.len().unwrap(), starts[3]);
        let names = env.disk().list(DIR).unwrap();
        // Again: nothing changes.
        let again = recover(&env).await.unwrap();
        assert_eq!((again.last_lsn, again.last_segment), (6, 3));
        assert_eq!(lsns(&again), [1, 2, 5, 6]);
        assert_eq!(env.disk().list(DIR).unwrap(), names);
    });
}

#[test]
fn a_hole_before_groups_that_were_never_synced_is_a_torn_tail() {
    run(|env| async move {
        let starts = segment(&env, 1, 0, &[(1, 0), (2, 1), (3, 1), (4, 1)]).await;
        zero(&env, 1, starts[1], starts[2]).await;
        let found = recover(&env).await.unwrap();
        assert_eq!(found.lanes, BTreeMap::from([(0, 1)]));
        // LSNs that were seen are not given out again.
        assert_eq!(found.last_lsn, 4);
        let file = env.disk().open(&segment_path(1)).await.unwrap();
        assert_eq!(file.len().unwrap(), starts[1], "what was behind is cut");
    });
}

#[test]
fn a_hole_in_what_was_durable_is_damage_and_stays_as_it_is() {
    run(|env| async move {
        let starts = segment(&env, 1, 0, &[(1, 0), (2, 1), (3, 2)]).await;
        zero(&env, 1, starts[1], starts[2]).await;
        let error = recover(&env).await.err().unwrap();
        assert_eq!(error.code(), Code::Corrupt);
        assert!(error.message().contains(&segment_path(1)), "{error}");
        let file = env.disk().open(&segment_path(1)).await.unwrap();
        assert_eq!(file.len().unwrap(), SEGMENT, "left as it is");
    });
}

#[test]
fn a_closed_segment_must_be_whole() {
    run(|env| async move {
        let starts = segment(&env, 1, 0, &[(1, 0), (2, 1)]).await;
        segment(&env, 2, 2, &[]).await;
        zero(&env, 1, starts[1], starts[2]).await;
        let error = recover(&env).await.err().unwrap();
        assert_eq!(error.code(), Code::Corrupt);
    });
}

#[test]
fn a_damaged_header_with_groups_behind_it_is_damage() {
    run(|env| async move {
        segment(&env, 1, 0, &[(1, 0)]).await;
        zero(&env, 1, 0, 20).await;
        assert_eq!(recover(&env).await.err().unwrap().code(), Code::Corrupt);
        zero(&env, 1, 0, 64).await;
        assert_eq!(recover(&env).await.err().unwrap().code(), Code::Corrupt);
    });
}

#[test]
fn a_torn_group_in_every_length_is_cut() {
    run(|env| async move {
        let whole = group(1, 2, 1);
        for keep in 0..whole.len() as u64 - 8 {
            for name in env.disk().list(DIR).unwrap() {
                env.disk().remove(&format!("{DIR}/{name}")).unwrap();
            }
            let starts = segment(&env, 1, 0, &[(1, 0), (2, 1)]).await;
            zero(&env, 1, starts[1] + keep, starts[2]).await;
            let found = recover(&env).await.unwrap();
            assert_eq!(found.lanes, BTreeMap::from([(0, 1)]), "{keep} bytes");
            assert_eq!(lsns(&found), [1]);
        }
    });
}

/// The tail is in a copy before it is cut: after a crash between the two nothing is there twice, and after one before the copy
/// has its name, the original counts.
#[test]
fn a_copied_tail_takes_the_place_of_its_original() {
    run(|env| async move {
        let disk = env.disk();
        let starts = segment(&env, 1, 0, &[(1, 0), (2, 1), (3, 1)]).await;
        let file = disk.open(&segment_path(1)).await.unwrap();
        let before = file.read(0, SEGMENT as usize).unwrap();
        let unfinished = format!("{}{UNFINISHED}", segment_path(2));
        disk.create(&unfinished, 100).await.unwrap();
        let found = recover(&env).await.unwrap();
        assert_eq!((found.last_lsn, found.last_segment), (3, 3));
        assert_eq!(lsns(&found), [1, 2, 3]);
        assert_eq!(file.len().unwrap(), starts[1]);
        assert!(disk.open(&unfinished).await.is_err());
        // As if it had not been cut.
        file.truncate(SEGMENT).unwrap();
        file.write_at(0, &before).unwrap();
        let found = recover(&env).await.unwrap();
        assert_eq!(found.last_segment, 3);
        assert_eq!(lsns(&found), [1, 2, 3]);
        assert_eq!(file.len().unwrap(), starts[1]);
        // The copy knows that all of it is durable.
        let copy = disk.open(&segment_path(3)).await.unwrap();
        let len = copy.len().unwrap();
        zero(&env, 3, len - 8, len).await;
        let error = recover(&env).await.err().unwrap();
        assert_eq!(error.code(), Code::Corrupt, "{error}");
    });
}

/// Groups that stand on both sides of a hole, and one that a hole goes through, are read as written.
#[test]
fn a_group_with_a_hole_in_it_is_whole() {
    run(|env| async move {
        let file = env.disk().create(&segment_path(1), SEGMENT).await.unwrap();
        let header = SegmentHeader {
            lane: 0,
            number: 1,
            salt: 1,
            synced_lsn: 0,
        };
        file.write_at(0, &header.encode()).unwrap();
        let mut builder = GroupBuilder::new();
        builder.name(1, "p");
        let row = slatedb::RowEntry {
            key: Bytes::from_static(b"key"),
            value: slatedb::ValueDeletable::Value(vec![0; 20_000].into()),
            seq: 1,
            create_ts: None,
            expire_ts: None,
        };
        builder.record(1, &Encoded::rows(1, 1, 1, &[row]));
        let bytes = builder.finish(1, 1, 0);
        // Only what is not zero is written.
        for (at, byte) in bytes.iter().enumerate().filter(|(_, byte)| **byte != 0) {
            let at = SEGMENT_HEADER_LEN as u64 + at as u64;
            file.write_at(at, &[*byte]).unwrap();
        }
        let second = group(1, 2, 1);
        let at = (SEGMENT_HEADER_LEN + bytes.len()) as u64;
        file.write_at(at, &second).unwrap();
        let found = recover(&env).await.unwrap();
        assert_eq!(found.lanes, BTreeMap::from([(0, 2)]));
        assert_eq!(lsns(&found), [1, 2]);
    });
}
