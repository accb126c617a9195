//! Zones against what is known of them, against the library they were read with, and against their own digest.

use proptest::prelude::*;
use sha1::{Digest as _, Sha1};

use super::*;

/// Seconds since 1970 of a moment written as RFC 3339.
fn at(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_second()
}

#[test]
fn known_offsets() {
    let shanghai = Zone::load("Asia/Shanghai").unwrap();
    assert_eq!(shanghai.offset_seconds(at("2012-01-01T00:00:00Z")), 28_800);
    // Summer time in China, 1986 to 1991.
    assert_eq!(shanghai.offset_seconds(at("1988-07-01T00:00:00Z")), 32_400);
    assert_eq!(shanghai.next_transition(at("1992-01-01T00:00:00Z")), None);
    // Local mean time of Shanghai before 1901.
    assert_eq!(shanghai.offset_seconds(i64::MIN), 29_143);
    let new_york = Zone::load("America/New_York").unwrap();
    let jump = at("2026-03-08T07:00:00Z");
    assert_eq!(new_york.offset_seconds(jump - 1), -18_000);
    assert_eq!(new_york.offset_seconds(jump), -14_400);
    assert_eq!(new_york.next_transition(jump - 1), Some(jump));
    assert_eq!(
        new_york.next_transition(jump),
        Some(at("2026-11-01T06:00:00Z"))
    );
    // Samoa had no 30 December 2011.
    let samoa = Zone::load("Pacific/Apia").unwrap();
    let skipped = at("2011-12-30T10:00:00Z");
    assert_eq!(samoa.offset_seconds(skipped - 1), -10 * 3_600);
    assert_eq!(samoa.offset_seconds(skipped), 14 * 3_600);
    assert_eq!(Zone::utc().next_transition(0), None);
}

#[test]
fn names_that_are_none() {
    for name in [
        "",
        "Mars/Olympus",
        "asia/shanghai",
        "+8:00",
        "+18:01",
        "+08:60",
        "+0x:00",
        "LOCAL",
        "+١٢:00",
    ] {
        assert!(Zone::load(name).is_err(), "{name}");
    }
    assert_eq!(Zone::load("+08:00").unwrap().offset_seconds(0), 28_800);
    assert_eq!(Zone::load("-18:00").unwrap().offset_seconds(0), -64_800);
    let fault = Zone::load_version("1999z", "UTC").unwrap_err();
    assert_eq!(
        fault.to_string(),
        format!("this build has no time zone data '1999z'; it has {ZONE_DATA_VERSION}")
    );
}

/// Times that clocks skipped or showed twice.
#[test]
fn earliest_moments() {
    let new_york = Zone::load("America/New_York").unwrap();
    let local = |text: &str| at(&format!("{text}Z"));
    let cases = [
        ("2026-07-01T12:00:00", "2026-07-01T16:00:00Z"),
        // 02:30 does not exist: the moment of the jump.
        ("2026-03-08T02:30:00", "2026-03-08T07:00:00Z"),
        ("2026-03-08T03:00:00", "2026-03-08T07:00:00Z"),
        // 01:30 comes twice: the first.
        ("2026-11-01T01:30:00", "2026-11-01T05:30:00Z"),
        ("2026-11-01T02:00:00", "2026-11-01T07:00:00Z"),
    ];
    for (shown, moment) in cases {
        assert_eq!(new_york.earliest(local(shown)), at(moment), "{shown}");
    }
    let samoa = Zone::load("Pacific/Apia").unwrap();
    assert_eq!(
        samoa.earliest(local("2011-12-30T12:00:00")),
        at("2011-12-30T10:00:00Z")
    );
}

/// All that is compiled in loads, and unfolds to what it did when it came: the library that reads TZif may change, the
/// answers may not (R40).
#[test]
fn r40_the_data_is_what_it_was() {
    let mut digest = Sha1::new();
    let names = names(ZONE_DATA_VERSION);
    assert_eq!(names.len(), 598);
    for name in names {
        let zone = Zone::load(name).unwrap();
        digest.update(name);
        digest.update(zone.first.to_be_bytes());
        for (at, offset) in zone.transitions.iter() {
            digest.update(at.to_be_bytes());
            digest.update(offset.to_be_bytes());
        }
    }
    let hex: String = digest
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(
        hex, "662706f8a3ca07135a5f61600907800c9eef560f",
        "version {ZONE_DATA_VERSION}"
    );
}

/// No zone has data for single years behind 2099: the cycle of 400 years holds for all.
#[test]
fn every_zone_repeats() {
    for name in names(ZONE_DATA_VERSION) {
        let zone = Zone::load(name).unwrap();
        let tzif = Set::read(SETS[0].1).unwrap().find(name).unwrap();
        let library = TimeZone::tzif(name, tzif).unwrap();
        for step in 0..400 {
            // About every twenty years from 1700 to 9700, not in step with anything.
            let second = -8_520_336_000 + step * 631_152_007;
            let Ok(moment) = Timestamp::from_second(second) else {
                continue;
            };
            assert_eq!(
                zone.offset_seconds(second),
                library.to_offset(moment).seconds(),
                "{name} at {moment}"
            );
        }
    }
}

proptest! {
    #[test]
    fn nothing_panics(second: i64, name in prop::sample::select(vec!["America/New_York", "Asia/Shanghai", "Africa/Casablanca", "Europe/Dublin", "+05:45"])) {
        let zone = Zone::load(name).unwrap();
        let _ = zone.earliest(second);
        if let Some(next) = zone.next_transition(second) {
            prop_assert!(next > second);
            prop_assert_ne!(zone.offset_seconds(next), zone.offset_seconds(next - 1));
            prop_assert_eq!(zone.offset_seconds(second), zone.offset_seconds(next - 1));
        }
    }

    #[test]
    fn earliest_is_the_least_moment(second in -5_000_000_000_i64..20_000_000_000, name in prop::sample::select(vec!["America/New_York", "Asia/Shanghai", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"])) {
        let zone = Zone::load(name).unwrap();
        let shown = |moment: i64| moment + i64::from(zone.offset_seconds(moment));
        let moment = zone.earliest(second);
        prop_assert!(shown(moment) >= second);
        for before in [1, 59, 1_800, 3_600, 7_200, 86_400] {
            prop_assert!(shown(moment - before) < second);
        }
    }
}

#[test]
fn a_zone_is_unfolded_once() {
    let zone = || Zone::load("Europe/Lisbon").unwrap();
    assert!(Arc::ptr_eq(&zone().transitions, &zone().transitions));
    // 600 of these are what the constant's comment says.
    for name in names(ZONE_DATA_VERSION) {
        let bytes = size_of_val(&*Zone::load(name).unwrap().transitions);
        assert!(bytes <= 20 << 10, "{name}: {bytes}");
    }
}
