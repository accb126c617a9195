//! The Gregorian calendar, extended in both directions without end (ISO 8601), in an explicit time zone.
//!
//! Moments are microseconds since 1970 in UTC, dates are days since 1970; every 64-bit number is one. Months, quarters,
//! weeks and days count from 1, Monday is day 1 of the week (TDDL's quarters and half-years count from 0 beside months
//! from 1, and its years have two digits: B1, defect 2). Must not know of rules or of where zones come from.

use super::{Fault, Zone};

/// Microseconds of a second.
const MICROS: i64 = 1_000_000;

/// Seconds of a day.
const DAY: i64 = 86_400;

/// How many stretches of one offset each an image is put together from. Zones change twice a year, so this is the
/// exact image of 2,000 years; of more the image is one run from the least to the greatest.
const STRETCHES_MAX: usize = 4_096;

/// A part of a date or a time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The year; the one before the year 1 is the year 0.
    Year,
    /// 1 to 4.
    Quarter,
    /// 1 to 12.
    Month,
    /// 1 to 31.
    DayOfMonth,
    /// 1 (Monday) to 7.
    DayOfWeek,
    /// 1 to 366.
    DayOfYear,
    /// 1 to 53, by ISO 8601: the week belongs to the year of its Thursday.
    Week,
    /// The year that [`Part::Week`] belongs to.
    WeekYear,
    /// 0 to 23.
    Hour,
    /// 0 to 59.
    Minute,
    /// 0 to 59.
    Second,
}

/// A span that moments are counted in and cut down to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Calendar years.
    Year,
    /// Calendar quarters.
    Quarter,
    /// Calendar months.
    Month,
    /// Weeks that begin on Mondays.
    Week,
    /// Calendar days.
    Day,
    /// Hours of the clock.
    Hour,
    /// Minutes of the clock.
    Minute,
    /// Seconds of the clock.
    Second,
}

/// A date of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    /// Year; 0 is the one before the year 1.
    pub year: i64,
    /// Month, 1 to 12.
    pub month: i64,
    /// Day, 1 to 31.
    pub day: i64,
}

/// The date of a day since 1970 (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
#[must_use]
pub const fn date_of(day: i64) -> Date {
    // Counted from 1 March of the year 0, in eras of 400 years; i128 because any day is allowed.
    let day = day as i128 + 719_468;
    let era = day.div_euclid(146_097) as i64;
    let of_era = day.rem_euclid(146_097) as i64;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    Date {
        year: era * 400 + year_of_era + (month <= 2) as i64,
        month,
        day: of_year - (153 * from_march + 2) / 5 + 1,
    }
}

/// The day since 1970 of a date. A day beyond the month's end counts on into the next months.
///
/// # Errors
/// [`Fault::OutOfRange`] if the month is not from 1 to 12, [`Fault::Overflow`].
pub fn day_of(date: Date) -> Result<i64, Fault> {
    if !(1..=12).contains(&date.month) {
        return Err(Fault::OutOfRange);
    }
    i64::try_from(wide_day_of(date)).map_err(|_| Fault::Overflow)
}

/// [`day_of`] of a month from 1 to 12, without end.
fn wide_day_of(date: Date) -> i128 {
    let year = i128::from(date.year) - i128::from(date.month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = i128::from((date.month + 9) % 12);
    let of_year = (153 * from_march + 2) / 5 + i128::from(date.day) - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    era * 146_097 + of_era - 719_468
}

/// The first day since 1970 of a month, months counted from 1970's first.
fn first_of_month(month: i64) -> i128 {
    wide_day_of(Date {
        year: 1970 + month.div_euclid(12),
        month: month.rem_euclid(12) + 1,
        day: 1,
    })
}

/// How many months lie between 1970's first and the one of a day.
fn month_of(day: i64) -> i64 {
    let date = date_of(day);
    (date.year - 1970) * 12 + date.month - 1
}

/// Weeks from Monday, 29 December 1969, to a day's.
const fn week_of(day: i64) -> i64 {
    // Thursday, 1 January 1970, is three days behind its Monday; no overflow by adding after dividing.
    day.div_euclid(7) + (day.rem_euclid(7) >= 4) as i64
}

/// 1 (Monday) to 7 of a day since 1970.
#[must_use]
pub const fn day_of_week(day: i64) -> i64 {
    (day.rem_euclid(7) + 3) % 7 + 1
}

/// The year and week by ISO 8601 of a day since 1970.
#[must_use]
pub fn week_date(day: i64) -> (i64, i64) {
    // The week's Thursday decides; far from any overflow only by way of wider numbers.
    let thursday = i128::from(day) + i128::from(4 - day_of_week(day));
    let thursday = thursday.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    let date = date_of(thursday);
    (date.year, (day_in_year(thursday, date.year) - 1) / 7 + 1)
}

/// 1 to 366: where a day since 1970 lies in its year.
fn day_in_year(day: i64, year: i64) -> i64 {
    let first = first_of_month((year - 1970) * 12);
    // Within one year.
    (i128::from(day) - first) as i64 + 1
}

/// A part of a day's date; of its first second for parts of a time of day.
#[must_use]
pub fn part_of_day(part: Part, day: i64) -> i64 {
    match part {
        Part::Year => date_of(day).year,
        Part::Quarter => (date_of(day).month - 1) / 3 + 1,
        Part::Month => date_of(day).month,
        Part::DayOfMonth => date_of(day).day,
        Part::DayOfWeek => day_of_week(day),
        Part::DayOfYear => day_in_year(day, date_of(day).year),
        Part::Week => week_date(day).1,
        Part::WeekYear => week_date(day).0,
        Part::Hour | Part::Minute | Part::Second => 0,
    }
}

/// A part of what a zone's clocks and calendars show at a moment.
#[must_use]
pub fn part(part: Part, micros: i64, zone: &Zone) -> i64 {
    part_of_local(part, local(micros, zone))
}

/// How many whole units lie between the first one of 1970 (for weeks the one that holds 1 January) and a moment's.
#[must_use]
pub fn index(unit: Unit, micros: i64, zone: &Zone) -> i64 {
    index_of_local(unit, local(micros, zone))
}

/// How many whole units lie between the first one of 1970 and a day; for a unit below a day, to its first second.
///
/// # Errors
/// [`Fault::Overflow`] for units below a day.
pub fn index_of_day(unit: Unit, day: i64) -> Result<i64, Fault> {
    let per_day = match unit {
        Unit::Year => return Ok(date_of(day).year - 1970),
        Unit::Quarter => return Ok(month_of(day).div_euclid(3)),
        Unit::Month => return Ok(month_of(day)),
        Unit::Week => return Ok(week_of(day)),
        Unit::Day => return Ok(day),
        Unit::Hour => 24,
        Unit::Minute => 1_440,
        Unit::Second => DAY,
    };
    day.checked_mul(per_day).ok_or(Fault::Overflow)
}

/// The earliest moment that is in the same unit by the zone's calendar and clocks.
///
/// # Errors
/// [`Fault::Overflow`] near the least of all moments.
pub fn truncate(unit: Unit, micros: i64, zone: &Zone) -> Result<i64, Fault> {
    let seconds = local(micros, zone);
    let start = match unit {
        Unit::Second => seconds,
        Unit::Minute => seconds - seconds.rem_euclid(60),
        Unit::Hour => seconds - seconds.rem_euclid(3_600),
        Unit::Day | Unit::Week | Unit::Month | Unit::Quarter | Unit::Year => {
            // Days of a 64-bit number of microseconds are far from any overflow.
            truncate_day(unit, seconds.div_euclid(DAY))? * DAY
        }
    };
    zone.earliest(start)
        .checked_mul(MICROS)
        .ok_or(Fault::Overflow)
}

/// The first day of a day's unit; the day itself for a unit below a day.
///
/// # Errors
/// [`Fault::Overflow`] near the least of all days.
pub fn truncate_day(unit: Unit, day: i64) -> Result<i64, Fault> {
    let first = |month: i64| i64::try_from(first_of_month(month)).map_err(|_| Fault::Overflow);
    match unit {
        Unit::Year => first((date_of(day).year - 1970) * 12),
        Unit::Quarter => first(month_of(day).div_euclid(3) * 3),
        Unit::Month => first(month_of(day)),
        Unit::Week => day.checked_sub(day_of_week(day) - 1).ok_or(Fault::Overflow),
        Unit::Day | Unit::Hour | Unit::Minute | Unit::Second => Ok(day),
    }
}

/// Seconds since 1970 as a zone's clocks show them.
fn local(micros: i64, zone: &Zone) -> i64 {
    let seconds = micros.div_euclid(MICROS);
    // Microseconds fill 64 bits, so seconds are far from any overflow.
    seconds + i64::from(zone.offset_seconds(seconds))
}

fn part_of_local(part: Part, seconds: i64) -> i64 {
    match part {
        Part::Hour => seconds.div_euclid(3_600).rem_euclid(24),
        Part::Minute => seconds.div_euclid(60).rem_euclid(60),
        Part::Second => seconds.rem_euclid(60),
        _ => part_of_day(part, seconds.div_euclid(DAY)),
    }
}

fn index_of_local(unit: Unit, seconds: i64) -> i64 {
    match unit {
        Unit::Second => seconds,
        Unit::Minute => seconds.div_euclid(60),
        Unit::Hour => seconds.div_euclid(3_600),
        // No overflow: units of a day and more never have one.
        _ => index_of_day(unit, seconds.div_euclid(DAY)).unwrap_or(i64::MAX),
    }
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 11] = [
        Self::Year,
        Self::Quarter,
        Self::Month,
        Self::DayOfMonth,
        Self::DayOfWeek,
        Self::DayOfYear,
        Self::Week,
        Self::WeekYear,
        Self::Hour,
        Self::Minute,
        Self::Second,
    ];

    /// The least and the greatest value there can be; `None` for years, which have no end.
    #[must_use]
    pub const fn bounds(self) -> Option<(i64, i64)> {
        Some(match self {
            Self::Year | Self::WeekYear => return None,
            Self::Quarter => (1, 4),
            Self::Month => (1, 12),
            Self::DayOfMonth => (1, 31),
            Self::DayOfWeek => (1, 7),
            Self::DayOfYear => (1, 366),
            Self::Week => (1, 53),
            Self::Hour => (0, 23),
            Self::Minute | Self::Second => (0, 59),
        })
    }
}

mod image;

pub use image::{index_image, part_image, part_image_of_days};

#[cfg(test)]
mod tests;
