//! Rules of the simulated disk, looked at on the drive itself.

use super::*;
use rand::SeedableRng;

fn drive(seed: u64) -> Drive {
    let rng = cadastre_env::Rng::seed_from_u64(seed);
    Drive::new(DiskConfig::default(), rng)
}

fn sync(drive: &mut Drive, inode: u64) -> io::Result<()> {
    let begun = drive.begin_sync(inode)?;
    drive.finish_sync(begun)
}

fn sync_dir(drive: &mut Drive, dir: &str) -> io::Result<()> {
    let begun = drive.begin_sync_dir(dir)?;
    drive.finish_sync_dir(begun)
}

#[test]
fn synced_bytes_of_a_synced_name_survive_every_cut() {
    for seed in 0..50 {
        let mut drive = drive(seed);
        let file = drive.create("log/1", 0).unwrap();
        drive.write(file, 0, b"kept").unwrap();
        sync(&mut drive, file).unwrap();
        sync_dir(&mut drive, "log").unwrap();
        drive.write(file, 2, b"XX").unwrap();
        drive.cut_power();
        let found = drive.find("log/1").unwrap();
        let bytes = drive.read(found, 0, 100).unwrap();
        assert!(matches!(&bytes[..], b"kept" | b"keXX"), "{bytes:?}");
    }
}

#[test]
fn a_name_is_lost_or_kept_until_its_directory_is_synced() {
    let survived = (0..100)
        .filter(|seed| {
            let mut drive = drive(*seed);
            let file = drive.create("log/1", 0).unwrap();
            sync(&mut drive, file).unwrap();
            drive.cut_power();
            drive.find("log/1").is_ok()
        })
        .count();
    assert!((20..80).contains(&survived), "{survived} of 100");
}

#[test]
fn a_slow_sync_of_a_directory_takes_nothing_back() {
    for seed in 0..50 {
        let mut drive = drive(seed);
        drive.create("log/1", 0).unwrap();
        let slow = drive.begin_sync_dir("log").unwrap();
        drive.create("log/2", 0).unwrap();
        sync_dir(&mut drive, "log").unwrap();
        drive.finish_sync_dir(slow).unwrap();
        drive.cut_power();
        assert!(drive.find("log/1").is_ok() && drive.find("log/2").is_ok());
    }
}

#[test]
fn a_removal_is_undone_or_kept_until_its_directory_is_synced() {
    let back = (0..100)
        .filter(|seed| {
            let mut drive = drive(*seed);
            let file = drive.create("a", 0).unwrap();
            drive.write(file, 0, b"bytes").unwrap();
            sync(&mut drive, file).unwrap();
            sync_dir(&mut drive, "").unwrap();
            drive.remove("a").unwrap();
            assert!(drive.find("a").is_err());
            drive.cut_power();
            let found = drive.find("a");
            if let Ok(file) = &found {
                assert_eq!(&drive.read(*file, 0, 9).unwrap()[..], b"bytes");
            }
            found.is_ok()
        })
        .count();
    assert!((20..80).contains(&back), "{back} of 100");
}

#[test]
fn sectors_are_kept_or_lost_one_by_one() {
    let mut torn = 0;
    for seed in 0..50 {
        let mut drive = drive(seed);
        let file = drive.create("a", 0).unwrap();
        sync_dir(&mut drive, "").unwrap();
        drive.write(file, 100, &[7; 4000]).unwrap();
        drive.cut_power();
        let bytes = drive.read(file, 0, 10_000).unwrap();
        let mut whole = vec![0; 4100];
        for (at, byte) in bytes.iter().enumerate().skip(100) {
            whole[at] = *byte;
        }
        let sectors: Vec<&[u8]> = whole.chunks(512).collect();
        for sector in &sectors[1..] {
            assert!(sector.iter().all(|b| *b == sector[0]), "a sector is one");
        }
        let kept = sectors[1..].iter().filter(|s| s[0] == 7).count();
        torn += usize::from(kept > 0 && kept < sectors.len() - 1);
    }
    assert!(torn > 10, "torn in {torn} of 50");
}

#[test]
fn a_failed_sync_dooms_its_bytes_though_a_later_one_succeeds() {
    for seed in 0..50 {
        let mut drive = drive(seed);
        let file = drive.create("a", 0).unwrap();
        sync(&mut drive, file).unwrap();
        sync_dir(&mut drive, "").unwrap();
        drive.write(file, 0, b"doomed").unwrap();
        drive.fail_next_sync();
        assert!(sync(&mut drive, file).is_err());
        sync(&mut drive, file).unwrap();
        assert_eq!(&drive.read(file, 0, 6).unwrap()[..], b"doomed");
        drive.write(file, 6, b" and after").unwrap();
        drive.process_ended();
        assert_eq!(
            &drive.read(file, 0, 99).unwrap()[..],
            b"\0\0\0\0\0\0 and after"
        );
    }
    let lost = (0..50).filter(|seed| {
        let mut drive = drive(*seed);
        let file = drive.create("a", 0).unwrap();
        sync_dir(&mut drive, "").unwrap();
        drive.write(file, 0, b"doomed").unwrap();
        drive.fail_next_sync();
        assert!(sync(&mut drive, file).is_err());
        sync(&mut drive, file).unwrap();
        drive.cut_power();
        drive.read(file, 0, 6).unwrap() != b"doomed"[..]
    });
    assert!(lost.count() > 10);
}

#[test]
fn space_ends() {
    let mut drive = drive(1);
    let capacity = DiskConfig::default().capacity_bytes;
    let full = drive.create("a", capacity + 1).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    assert!(drive.find("a").is_err(), "a failed creation leaves nothing");
    let file = drive.create("a", 0).unwrap();
    drive.set_full(true);
    let full = drive.write(file, 0, b"x").unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    drive.set_full(false);
    drive.write(file, 0, b"x").unwrap();
    assert_eq!(drive.free_bytes(), capacity - 1);
}

#[test]
fn paths_stay_inside() {
    let mut drive = drive(1);
    for outside in ["../x", "/etc/passwd", "a/../../x"] {
        assert!(drive.create(outside, 0).is_err(), "{outside}");
    }
    drive.create("a/b", 0).unwrap();
    drive.create("a/c/d", 0).unwrap();
    assert_eq!(drive.list("a").unwrap(), ["b", "c"]);
    assert_eq!(drive.list("").unwrap(), ["a"]);
    assert!(drive.list("none").unwrap().is_empty());
    assert!(drive.create("a/b", 0).is_err(), "a second creation");
}
