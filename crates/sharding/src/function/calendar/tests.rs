//! The calendar against published dates, against brute force and against TDDL's way of enumerating.

use proptest::prelude::*;

use super::*;
use crate::function::Runs;

fn date(year: i64, month: i64, day: i64) -> Date {
    Date { year, month, day }
}

fn day(year: i64, month: i64, of_month: i64) -> i64 {
    day_of(date(year, month, of_month)).unwrap()
}

/// Microseconds since 1970 of a moment written as RFC 3339.
fn at(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap().as_microsecond()
}

/// Known dates: Hinnant's "chrono-Compatible Low-Level Date Algorithms"; the Julian day of 1858-11-17 is 2,400,000.5.
#[test]
fn published_days() {
    let vectors = [
        (1970, 1, 1, 0),
        (1969, 12, 31, -1),
        (2000, 2, 29, 11_016),
        (2000, 3, 1, 11_017),
        (1900, 3, 1, -25_508),
        (1858, 11, 17, -40_587),
        (0, 3, 1, -719_468),
        (1, 1, 1, -719_162),
        (9999, 12, 31, 2_932_896),
        (-32_767, 1, 1, -12_687_428),
        (32_767, 12, 31, 11_248_737),
    ];
    for (year, month, of_month, number) in vectors {
        assert_eq!(
            day(year, month, of_month),
            number,
            "{year}-{month}-{of_month}"
        );
        assert_eq!(date_of(number), date(year, month, of_month));
    }
    assert_eq!(day_of(date(2001, 13, 1)), Err(Fault::OutOfRange));
    assert_eq!(day_of(date(i64::MAX, 1, 1)), Err(Fault::Overflow));
    // Beyond the month's end it counts on.
    assert_eq!(day(2001, 2, 29), day(2001, 3, 1));
}

/// ISO 8601's own examples (also Wikipedia, "ISO week date").
#[test]
fn published_weeks() {
    let vectors = [
        ((1977, 1, 1), (1976, 53, 6)),
        ((1977, 1, 2), (1976, 53, 7)),
        ((1977, 12, 31), (1977, 52, 6)),
        ((1978, 1, 1), (1977, 52, 7)),
        ((1978, 1, 2), (1978, 1, 1)),
        ((1979, 12, 31), (1980, 1, 1)),
        ((1980, 12, 28), (1980, 52, 7)),
        ((1980, 12, 29), (1981, 1, 1)),
        ((1982, 1, 3), (1981, 53, 7)),
        ((2008, 12, 29), (2009, 1, 1)),
        ((2010, 1, 3), (2009, 53, 7)),
    ];
    for ((y, m, d), (year, week, weekday)) in vectors {
        let day = day(y, m, d);
        assert_eq!(week_date(day), (year, week), "{y}-{m}-{d}");
        assert_eq!(day_of_week(day), weekday, "{y}-{m}-{d}");
    }
}

#[test]
fn parts_are_the_zones() {
    let shanghai = Zone::load("Asia/Shanghai").unwrap();
    let new_york = Zone::load("America/New_York").unwrap();
    let moment = at("2024-02-29T16:30:45Z");
    assert_eq!(part(Part::DayOfMonth, moment, &Zone::utc()), 29);
    assert_eq!(part(Part::DayOfMonth, moment, &shanghai), 1);
    assert_eq!(part(Part::Month, moment, &shanghai), 3);
    assert_eq!(part(Part::Hour, moment, &shanghai), 0);
    assert_eq!(part(Part::Minute, moment, &shanghai), 30);
    assert_eq!(part(Part::Second, moment, &shanghai), 45);
    assert_eq!(part(Part::DayOfYear, moment, &Zone::utc()), 60);
    assert_eq!(part(Part::Quarter, moment, &Zone::utc()), 1);
    // The hour from 2 to 3 does not exist on this day.
    assert_eq!(part(Part::Hour, at("2026-03-08T06:59:59Z"), &new_york), 1);
    assert_eq!(part(Part::Hour, at("2026-03-08T07:00:00Z"), &new_york), 3);
    // The last microsecond before an hour, and before 1970.
    assert_eq!(part(Part::Second, -1, &Zone::utc()), 59);
    assert_eq!(part(Part::Year, -1, &Zone::utc()), 1969);
    assert_eq!(
        index(Unit::Month, at("2026-11-30T00:00:00Z"), &Zone::utc()),
        682
    );
    assert_eq!(
        index(Unit::Week, at("1970-01-04T23:59:59Z"), &Zone::utc()),
        0
    );
    assert_eq!(
        index(Unit::Week, at("1970-01-05T00:00:00Z"), &Zone::utc()),
        1
    );
    // The year 9 has one digit, or four (B1, defect 2).
    assert_eq!(
        part(Part::Year, at("0009-06-01T00:00:00Z"), &Zone::utc()),
        9
    );
}

#[test]
fn truncation_is_the_zones() {
    let new_york = Zone::load("America/New_York").unwrap();
    let cut = |unit, text| truncate(unit, at(text), &new_york).unwrap();
    assert_eq!(
        cut(Unit::Day, "2026-03-08T15:00:00Z"),
        at("2026-03-08T05:00:00Z")
    );
    assert_eq!(
        cut(Unit::Month, "2026-03-31T23:00:00Z"),
        at("2026-03-01T05:00:00Z")
    );
    assert_eq!(
        cut(Unit::Quarter, "2026-03-31T23:00:00Z"),
        at("2026-01-01T05:00:00Z")
    );
    assert_eq!(
        cut(Unit::Year, "2026-07-31T23:00:00Z"),
        at("2026-01-01T05:00:00Z")
    );
    assert_eq!(
        cut(Unit::Week, "2026-03-08T15:00:00Z"),
        at("2026-03-02T05:00:00Z")
    );
    // The second 01:00 to 02:00 belongs to the same hour of the clock as the first.
    assert_eq!(
        cut(Unit::Hour, "2026-11-01T06:30:00Z"),
        at("2026-11-01T05:00:00Z")
    );
    assert_eq!(
        truncate(Unit::Year, i64::MIN, &Zone::utc()),
        Err(Fault::Overflow)
    );
    // A day that begins at 01:00, because midnight is skipped.
    let havana = Zone::load("America/Havana").unwrap();
    assert_eq!(
        truncate(Unit::Day, at("2024-03-10T12:00:00Z"), &havana),
        Ok(at("2024-03-10T05:00:00Z"))
    );
}

/// C2 of the fact sheet: all ranges of 0 to 119 days from all days of 2023 and 2024, the rule day of month. TDDL takes at
/// most 31 days from the start on, and loses tables in a quarter of them; here none is lost and none too many.
#[test]
fn no_table_is_lost_where_tddl_loses_them() {
    let (mut ranges, mut lost_by_tddl) = (0, 0);
    for start in day(2023, 1, 1)..=day(2024, 12, 31) {
        let mut brute = Runs::new();
        let mut tddl = Runs::new();
        for length in 0..120 {
            let end = start + length;
            let value = part_of_day(Part::DayOfMonth, end);
            brute.add(value, value);
            if length < 31 {
                tddl.add(value, value);
            }
            assert_eq!(part_image_of_days(Part::DayOfMonth, start, end), brute);
            ranges += 1;
            lost_by_tddl += u32::from(tddl != brute);
        }
    }
    assert_eq!(ranges, 87_720);
    assert_eq!(lost_by_tddl, 22_436);
}

/// Every part over every range of up to nine years, from starts all over the calendar.
#[test]
fn images_of_days_are_exact() {
    let starts = [-719_468, -25_600, -1, 0, 9_131, 11_016, 19_000, 3_000_000];
    for part in Part::ALL {
        for start in starts {
            let mut brute = Runs::new();
            for length in 0..3_300 {
                let value = part_of_day(part, start + length);
                brute.add(value, value);
                // Every length up to two years, then some.
                if length < 740 || length % 97 == 0 {
                    assert_eq!(
                        part_image_of_days(part, start, start + length),
                        brute,
                        "{part:?} of {length} days from {start}"
                    );
                }
            }
        }
    }
}

fn any_zone() -> impl Strategy<Value = Zone> {
    const NAMES: [&str; 7] = [
        "America/New_York",
        "Asia/Shanghai",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Africa/Casablanca",
        "America/Havana",
        "+05:45",
    ];
    prop::sample::select(NAMES.as_slice()).prop_map(|name| Zone::load(name).unwrap())
}

proptest! {
    #[test]
    fn dates_and_days_agree(number: i64) {
        let date = date_of(number);
        prop_assert!((1..=12).contains(&date.month) && (1..=31).contains(&date.day));
        prop_assert_eq!(day_of(date), Ok(number));
    }

    #[test]
    fn nothing_panics_and_parts_stay_in_bounds(a: i64, b: i64, zone in any_zone()) {
        for one in Part::ALL {
            let (of_moment, of_day) = (part(one, a, &zone), part_of_day(one, a));
            if let Some((low, high)) = one.bounds() {
                prop_assert!((low..=high).contains(&of_moment), "{:?}", one);
                prop_assert!((low..=high).contains(&of_day) || matches!(one, Part::Week), "{:?}", one);
            }
            let image = part_image(one, a.min(b), a.max(b), &zone);
            prop_assert!(image.contains(of_moment) && image.contains(part(one, b, &zone)));
            prop_assert!(part_image_of_days(one, a.min(b), a.max(b)).contains(of_day));
        }
        for unit in [Unit::Year, Unit::Quarter, Unit::Month, Unit::Week, Unit::Day, Unit::Hour, Unit::Minute, Unit::Second] {
            let image = index_image(unit, a.min(b), a.max(b), &zone);
            prop_assert!(image.contains(index(unit, a, &zone)));
            let _ = (index_of_day(unit, a), truncate_day(unit, a));
            if let Ok(start) = truncate(unit, a, &zone) {
                prop_assert!(start <= a);
                prop_assert_eq!(truncate(unit, start, &zone), Ok(start));
                prop_assert!(part(Part::Year, a, &zone) - part(Part::Year, start, &zone) <= 1);
            }
        }
    }

    /// Brute force by steps of 17 minutes around the moments at which clocks jump.
    #[test]
    fn images_of_moments_are_exact(near in 0_usize..400, before in 0_i64..200, length in 0_i64..400, zone in any_zone()) {
        const STEP: i64 = 17 * 60 * MICROS;
        let mut jump = -3_000_000_000;
        for _ in 0..near {
            jump = zone.next_transition(jump).unwrap_or(jump + 10_000_000);
        }
        let low = jump * MICROS - before * STEP;
        let high = low + length * STEP;
        for one in [Part::Year, Part::Month, Part::DayOfMonth, Part::DayOfYear, Part::DayOfWeek, Part::Week, Part::Hour] {
            let mut brute = Runs::new();
            for step in 0..=length {
                let value = part(one, low + step * STEP, &zone);
                brute.add(value, value);
            }
            prop_assert_eq!(&part_image(one, low, high, &zone), &brute, "{:?} in {:?}", one, &zone);
        }
        for unit in [Unit::Day, Unit::Hour, Unit::Month] {
            let mut brute = Runs::new();
            for step in 0..=length {
                let value = index(unit, low + step * STEP, &zone);
                brute.add(value, value);
            }
            prop_assert_eq!(&index_image(unit, low, high, &zone), &brute, "{:?} in {:?}", unit, &zone);
        }
    }

    #[test]
    fn truncation_keeps_the_unit(micros in -9_000_000_000_000_000_i64..90_000_000_000_000_000, zone in any_zone()) {
        for unit in [Unit::Year, Unit::Month, Unit::Day, Unit::Hour] {
            let start = truncate(unit, micros, &zone).unwrap();
            // A unit whose start was skipped begins with the moment of the jump, which is in it; hours that are shown
            // twice in half belong to the first.
            prop_assert!(index(unit, start, &zone) >= index(unit, micros, &zone));
        }
    }
}
