//! Exact images of ranges of moments and days under the calendar's functions: ranges are cut at the parent unit (year
//! for months, month for days, day for hours) and the runs joined until the image is full (rules-and-migration.md, C3).
//!
//! Must not enumerate a range value by value: it may be all of time.

use super::{
    DAY, MICROS, Part, STRETCHES_MAX, Unit, date_of, day_in_year, first_of_month, index_of_local,
    month_of, part_of_local, week_date,
};
use crate::function::{Runs, Zone};

/// The image of all moments from `low` to `high` (microseconds, both included) under [`super::part`]: exact, but for years
/// over more than 2,000 years, which are one run from the least to the greatest.
#[must_use]
pub fn part_image(part: Part, low: i64, high: i64, zone: &Zone) -> Runs {
    over_stretches(
        low,
        high,
        zone,
        |from, to| local_image(part, from, to),
        |image| {
            part.bounds()
                .is_some_and(|(low, high)| image.covers(low, high))
        },
    )
}

/// The image of all moments from `low` to `high` (microseconds, both included) under [`super::index`]: exact, but over
/// more than 2,000 years one run from the least to the greatest.
#[must_use]
pub fn index_image(unit: Unit, low: i64, high: i64, zone: &Zone) -> Runs {
    over_stretches(
        low,
        high,
        zone,
        |from, to| Runs::of(index_of_local(unit, from), index_of_local(unit, to)),
        |_| false,
    )
}

/// The exact image of all days from `low` to `high` (since 1970, both included) under [`super::part_of_day`].
#[must_use]
pub fn part_image_of_days(part: Part, low: i64, high: i64) -> Runs {
    let mut image = Runs::new();
    if low <= high {
        days(part, low, high, &mut image);
    }
    image
}

/// Joins the images of the stretches of one offset each. Clocks that are put back show times twice, calendars skip days:
/// so neither end of a range bounds what lies between, but each stretch is a plain range of local time.
fn over_stretches(
    low: i64,
    high: i64,
    zone: &Zone,
    of: impl Fn(i64, i64) -> Runs,
    is_full: impl Fn(&Runs) -> bool,
) -> Runs {
    let mut image = Runs::new();
    if low > high {
        return image;
    }
    let (mut from, last) = (low.div_euclid(MICROS), high.div_euclid(MICROS));
    for _ in 0..STRETCHES_MAX {
        let offset = i64::from(zone.offset_seconds(from));
        let next = zone.next_transition(from).filter(|next| *next <= last);
        let to = next.map_or(last, |next| next - 1);
        image.join(&of(from + offset, to + offset));
        match next {
            Some(next) if !is_full(&image) => from = next,
            _ => return image,
        }
    }
    // The rest as one stretch, as wide as any offset can make it.
    image.join(&of(
        from - super::super::zone::OFFSET_MAX,
        last + super::super::zone::OFFSET_MAX,
    ));
    hull(&image)
}

/// One run from the least to the greatest.
fn hull(image: &Runs) -> Runs {
    let (Some(first), Some(last)) = (image.as_slice().first(), image.as_slice().last()) else {
        return Runs::new();
    };
    Runs::of(first.low, last.high)
}

/// The image of a range of local seconds.
fn local_image(part: Part, from: i64, to: i64) -> Runs {
    let mut image = Runs::new();
    let cyclic = |image: &mut Runs, unit: i64| {
        let whole_units = to.div_euclid(unit) - from.div_euclid(unit);
        let (first, last) = (part_of_local(part, from), part_of_local(part, to));
        wrap(image, part, whole_units, first, last);
    };
    match part {
        Part::Hour => cyclic(&mut image, 3_600),
        Part::Minute => cyclic(&mut image, 60),
        Part::Second => cyclic(&mut image, 1),
        _ => days(part, from.div_euclid(DAY), to.div_euclid(DAY), &mut image),
    }
    image
}

/// A range that goes `steps` steps round the values of a part, from one to another.
fn wrap(image: &mut Runs, part: Part, steps: i64, first: i64, last: i64) {
    let Some((least, greatest)) = part.bounds() else {
        return image.add(first, last);
    };
    if steps >= greatest - least {
        image.add(least, greatest);
    } else if first <= last {
        image.add(first, last);
    } else {
        image.add(first, greatest);
        image.add(least, last);
    }
}

fn days(part: Part, low: i64, high: i64, image: &mut Runs) {
    let ends = (
        super::part_of_day(part, low),
        super::part_of_day(part, high),
    );
    match part {
        Part::Year | Part::WeekYear => image.add(ends.0, ends.1),
        Part::Month => wrap(image, part, month_of(high) - month_of(low), ends.0, ends.1),
        Part::Quarter => {
            let steps = month_of(high).div_euclid(3) - month_of(low).div_euclid(3);
            wrap(image, part, steps, ends.0, ends.1);
        }
        Part::DayOfWeek => wrap(image, part, high.saturating_sub(low), ends.0, ends.1),
        Part::DayOfMonth => by_parent(part, low, high, image, |day| {
            let month = month_of(day);
            let first = first_of_month(month);
            let place = i128::from(day) - first + 1;
            // A day in its month, and a month's length.
            (place as i64, (first_of_month(month + 1) - first) as i64)
        }),
        Part::DayOfYear => by_parent(part, low, high, image, |day| {
            let year = date_of(day).year;
            let length = first_of_month((year - 1969) * 12) - first_of_month((year - 1970) * 12);
            (day_in_year(day, year), length as i64)
        }),
        Part::Week => weeks(low, high, image),
        Part::Hour | Part::Minute | Part::Second => image.add(0, 0),
    }
}

/// Cuts a range of days at the parent unit, in which the part counts days from 1. Months repeat within four and years
/// within nine (1896 to 1904 has a leap year at both ends only), so the image is full after a few cuts.
fn by_parent(
    part: Part,
    low: i64,
    high: i64,
    image: &mut Runs,
    place_and_length: impl Fn(i64) -> (i64, i64),
) {
    let full = part.bounds().unwrap_or((i64::MIN, i64::MAX));
    let mut from = low;
    loop {
        let (place, length) = place_and_length(from);
        let left = high.abs_diff(from);
        let rest = (length - place).unsigned_abs();
        if left <= rest {
            // Within one parent.
            image.add(place, place + left as i64);
            return;
        }
        image.add(place, length);
        if image.covers(full.0, full.1) {
            return;
        }
        // At most `high`.
        from += rest as i64 + 1;
    }
}

/// Weeks of ISO 8601: years have 52 or 53, and one of 53 comes within any seven.
fn weeks(low: i64, high: i64, image: &mut Runs) {
    let (last_year, last_week) = week_date(high);
    let (mut year, mut week) = week_date(low);
    loop {
        if year == last_year {
            return image.add(week, last_week);
        }
        image.add(week, weeks_of(year));
        if image.covers(1, 53) {
            return;
        }
        (year, week) = (year + 1, 1);
    }
}

/// 52 or 53: a year has the week that its 28 December lies in.
fn weeks_of(year: i64) -> i64 {
    let december = first_of_month((year - 1970) * 12 + 11) + 27;
    i64::try_from(december).map_or(52, |day| week_date(day).1)
}
