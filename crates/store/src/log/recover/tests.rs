//! Torn tails are cut, damage is refused and left alone.

use std::future::Future;

use cadastre_env::{Env, RealEnv, RealEnvConfig, RealFile};
use cadastre_types::Code;

use super::super::format::{Encoded, GroupBuilder, VERSION, VERSION_UNLISTED};
use super::super::registry::Registry;
use super::super::settle::{Settled, settle};
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

/// What a start does.
async fn recover(env: &RealEnv) -> Result<Settled<RealFile>> {
    settle(env, judge(env.disk(), false).await?, 1).await
}

/// A segment of a program that kept no list, with groups of these (LSN, synced LSN); answers where each begins.
async fn segment(env: &RealEnv, number: u64, synced: u64, groups: &[(u64, u64)]) -> Vec<u64> {
    write_segment(env, VERSION_UNLISTED, number, synced, groups).await
}

async fn write_segment(
    env: &RealEnv,
    version: u32,
    number: u64,
    synced: u64,
    groups: &[(u64, u64)],
) -> Vec<u64> {
    let file = env
        .disk()
        .create(&segment_path(number), SEGMENT)
        .await
        .unwrap();
    let header = SegmentHeader {
        version,
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

fn lsns(found: &Settled<RealFile>) -> Vec<u64> {
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
            let _ = env.disk().remove(registry::FILE);
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
            version: VERSION_UNLISTED,
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

/// A listed log: segment 1 is full and sealed, 2 is written to, 3 is ready. The last group of 2 is above the mark.
async fn listed(env: &RealEnv) -> Vec<u64> {
    let one = write_segment(env, VERSION, 1, 0, &[(1, 0), (2, 1)]).await;
    let two = write_segment(env, VERSION, 2, 0, &[(5, 2), (7, 5), (9, 5)]).await;
    write_segment(env, VERSION, 3, 2, &[]).await;
    let sealed = Stage::Sealed {
        end: one[2],
        last_lsn: 2,
    };
    enter(env, &[(1, sealed), (2, Stage::Open), (3, Stage::Open)], 7).await;
    two
}

async fn enter(env: &RealEnv, stages: &[(u64, Stage)], mark: u64) {
    let _ = env.disk().remove(registry::FILE);
    let entries = stages.iter().map(|(number, stage)| {
        let entry = Entry {
            lane: 0,
            salt: *number,
            len: SEGMENT,
            stage: *stage,
        };
        (*number, entry)
    });
    let segments = Segments {
        floors: BTreeMap::from([(0, 0)]),
        entries: entries.collect(),
    };
    let marks = BTreeMap::from([(0, mark)]);
    Registry::begin(env.disk(), None, segments, &marks)
        .await
        .unwrap();
}

/// Every file with its bytes.
async fn image(env: &RealEnv) -> BTreeMap<String, Bytes> {
    let mut files = BTreeMap::new();
    let names = env.disk().list(DIR).unwrap();
    let names = names.into_iter().map(|name| format!("{DIR}/{name}"));
    for name in names.chain([registry::FILE.to_owned()]) {
        let Ok(file) = env.disk().open(&name).await else {
            continue;
        };
        let bytes = file.read(0, file.len().unwrap() as usize).unwrap();
        files.insert(name, bytes);
    }
    files
}

async fn restore(env: &RealEnv, image: &BTreeMap<String, Bytes>) {
    for name in env.disk().list(DIR).unwrap() {
        env.disk().remove(&format!("{DIR}/{name}")).unwrap();
    }
    let _ = env.disk().remove(registry::FILE);
    for (name, bytes) in image {
        let file = env.disk().create(name, 0).await.unwrap();
        file.write_at(0, bytes).unwrap();
    }
}

#[test]
fn a_listed_log_is_read_and_becomes_one_without_a_tail() {
    run(|env| async move {
        let two = listed(&env).await;
        let found = recover(&env).await.unwrap();
        assert_eq!(lsns(&found), [1, 2, 5, 7, 9]);
        assert_eq!(found.lanes, BTreeMap::from([(0, 9)]));
        assert_eq!((found.last_lsn, found.last_segment), (9, 4));
        let names = env.disk().list(DIR).unwrap();
        let expected = [1, 2, 4].map(|number| segment_path(number)[DIR.len() + 1..].to_owned());
        assert_eq!(
            names, expected,
            "the spare is gone, the tail is in a segment of its own"
        );
        let file = env.disk().open(&segment_path(2)).await.unwrap();
        assert_eq!(file.len().unwrap(), two[2]);
        let before = image(&env).await;
        let again = recover(&env).await.unwrap();
        assert_eq!(lsns(&again), [1, 2, 5, 7, 9]);
        let mut after = image(&env).await;
        after.insert(registry::FILE.to_owned(), before[registry::FILE].clone());
        assert_eq!(after, before, "again: only the list is written");
    });
}

/// What no power cut does to a file, to each file of the log.
#[test]
fn c16_any_damage_of_a_listed_log_is_refused_and_left_as_it_is() {
    type Change = fn(&[u8], usize) -> Option<Vec<u8>>;
    let changes: [(&str, Change); 7] = [
        ("removed", |_, _| None),
        ("emptied", |_, _| Some(Vec::new())),
        ("zeroed", |bytes, _| Some(vec![0; bytes.len()])),
        ("the last byte cut off", |bytes, _| {
            Some(bytes[..bytes.len() - 1].to_vec())
        }),
        ("cut in the used part", |bytes, used| {
            Some(bytes[..used.min(bytes.len()) - 9].to_vec())
        }),
        ("its header zeroed", |bytes, _| {
            let mut bytes = bytes.to_vec();
            bytes[..SEGMENT_HEADER_LEN].fill(0);
            Some(bytes)
        }),
        ("all but its header zeroed", |bytes, _| {
            let mut bytes = bytes.to_vec();
            bytes[SEGMENT_HEADER_LEN..].fill(0);
            Some(bytes)
        }),
    ];
    run(move |env| async move {
        let two = listed(&env).await;
        let good = image(&env).await;
        for name in good.keys() {
            for (what, change) in &changes {
                // Nothing changes: a spare has its header only, and the list is in its second slot.
                let is_spare = *name == segment_path(3) && what.starts_with("all but");
                if is_spare || *name == registry::FILE && what.starts_with("its header") {
                    continue;
                }
                let mut damaged = good.clone();
                let old = damaged.remove(name).unwrap();
                if let Some(new) = change(&old, two[1] as usize) {
                    damaged.insert(name.clone(), new.into());
                }
                restore(&env, &damaged).await;
                let error = recover(&env).await.err();
                let error = error.unwrap_or_else(|| panic!("{name}: {what}"));
                assert_eq!(error.code(), Code::Corrupt, "{name}: {what}: {error}");
                assert!(error.message().contains(name), "{name}: {what}: {error}");
                assert_eq!(image(&env).await, damaged, "{name}: {what}");
            }
        }
    });
}

/// Of the groups above the mark of which no later group knows, a power cut may take any.
#[test]
fn a_listed_log_without_its_unsynced_tail_is_whole() {
    run(|env| async move {
        let two = listed(&env).await;
        zero(&env, 2, two[2], two[3]).await;
        let found = recover(&env).await.unwrap();
        assert_eq!(lsns(&found), [1, 2, 5, 7]);
        assert_eq!(found.lanes, BTreeMap::from([(0, 7)]));
    });
}

/// A start that died between copying a tail and entering the copy.
#[test]
fn a_copy_that_was_not_entered_does_not_count() {
    run(|env| async move {
        listed(&env).await;
        // As a copy is: its groups know themselves to be durable.
        write_segment(&env, VERSION, 4, 7, &[(9, 9)]).await;
        let found = recover(&env).await.unwrap();
        assert_eq!(lsns(&found), [1, 2, 5, 7, 9]);
        assert_eq!(found.last_segment, 5);
        // What holds records and was neither entered nor a copy is not ours to remove.
        write_segment(&env, VERSION, 6, 9, &[(11, 9)]).await;
        let error = recover(&env).await.err().unwrap();
        assert!(error.message().contains(&segment_path(6)), "{error}");
    });
}

#[test]
fn free_segments_go_and_leave_what_they_knew() {
    run(|env| async move {
        listed(&env).await;
        let free = Stage::Free { last_lsn: 2 };
        let open = [(1, free), (2, Stage::Open), (3, Stage::Open)];
        enter(&env, &open, 7).await;
        let found = recover(&env).await.unwrap();
        assert_eq!(lsns(&found), [5, 7, 9]);
        // All others, too; their removal was not noted, and is not durable.
        let free = [2, 4].map(|number| (number, Stage::Free { last_lsn: 9 }));
        enter(&env, &free, 9).await;
        env.disk().remove(&segment_path(2)).unwrap();
        let found = recover(&env).await.unwrap();
        assert!(env.disk().list(DIR).unwrap().is_empty());
        assert_eq!(found.lanes, BTreeMap::from([(0, 9)]));
        let found = recover(&env).await.unwrap();
        assert_eq!((found.lanes[&0], found.last_lsn), (9, 9));
    });
}

#[test]
fn a_list_that_is_gone_is_missed() {
    run(|env| async move {
        listed(&env).await;
        env.disk().remove(registry::FILE).unwrap();
        let error = recover(&env).await.err().unwrap();
        assert!(error.message().contains(registry::FILE), "{error}");
        for number in 1..=3 {
            env.disk().remove(&segment_path(number)).unwrap();
        }
        let error = judge(env.disk(), true).await.err().unwrap();
        assert!(error.message().contains(registry::FILE), "{error}");
        assert!(recover(&env).await.is_ok(), "a new directory");
    });
}
