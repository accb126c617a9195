//! Torn tails are cut, damage is refused and left alone.

use std::future::Future;

use cadastre_env::{Env, RealEnv, RealEnvConfig};
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

async fn zero(env: &RealEnv, number: u64, from: u64, to: u64) {
    let file = env.disk().open(&segment_path(number)).await.unwrap();
    file.write_at(from, &vec![0; (to - from) as usize]).unwrap();
}

#[test]
fn an_empty_directory_and_unused_spares() {
    run(|env| async move {
        let found = recover(env.disk()).await.unwrap();
        assert_eq!(
            (found.last_lsn, found.last_segment, found.index.len()),
            (0, 0, 0)
        );
        env.disk().create(&segment_path(7), SEGMENT).await.unwrap();
        let found = recover(env.disk()).await.unwrap();
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
        let found = recover(env.disk()).await.unwrap();
        assert_eq!((found.last_lsn, found.last_segment), (6, 2));
        assert_eq!(found.lanes, BTreeMap::from([(0, 6)]));
        assert_eq!(found.index.groups_of("p").len(), 4);
        let file = env.disk().open(&segment_path(1)).await.unwrap();
        assert_eq!(file.len().unwrap(), starts[3]);
        // Again: nothing changes.
        let again = recover(env.disk()).await.unwrap();
        assert_eq!(again.last_lsn, 6);
    });
}

#[test]
fn a_hole_before_groups_that_were_never_synced_is_a_torn_tail() {
    run(|env| async move {
        let starts = segment(&env, 1, 0, &[(1, 0), (2, 1), (3, 1), (4, 1)]).await;
        zero(&env, 1, starts[1], starts[2]).await;
        let found = recover(env.disk()).await.unwrap();
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
        let error = recover(env.disk()).await.err().unwrap();
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
        let error = recover(env.disk()).await.err().unwrap();
        assert_eq!(error.code(), Code::Corrupt);
    });
}

#[test]
fn a_damaged_header_with_groups_behind_it_is_damage() {
    run(|env| async move {
        segment(&env, 1, 0, &[(1, 0)]).await;
        zero(&env, 1, 0, 20).await;
        assert_eq!(
            recover(env.disk()).await.err().unwrap().code(),
            Code::Corrupt
        );
        zero(&env, 1, 0, 64).await;
        assert_eq!(
            recover(env.disk()).await.err().unwrap().code(),
            Code::Corrupt
        );
    });
}

#[test]
fn a_torn_group_in_every_length_is_cut() {
    run(|env| async move {
        let starts = segment(&env, 1, 0, &[(1, 0), (2, 1)]).await;
        let whole = group(1, 2, 1);
        for keep in 0..whole.len() as u64 - 8 {
            let file = env.disk().open(&segment_path(1)).await.unwrap();
            file.truncate(starts[1]).unwrap();
            file.truncate(SEGMENT).unwrap();
            file.write_at(starts[1], &whole[..keep as usize]).unwrap();
            let found = recover(env.disk()).await.unwrap();
            assert_eq!(found.lanes, BTreeMap::from([(0, 1)]), "{keep} bytes");
        }
    });
}
