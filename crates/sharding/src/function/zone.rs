//! Time zones from data that is compiled in and never changes.
//!
//! A set of data has a version (the tz database's, such as `2026f`) that is part of every rule's bytecode. A release
//! that brings newer data keeps the older sets, so a rule gives the same answer for ever; a set that this build does
//! not have is refused by name. The data of a zone is unfolded once into plain seconds and offsets; the library that
//! reads it has no part in any answer afterwards. Must not know of calendars, nor of the machine's own zone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The version of the time zone data that new rules get.
pub const ZONE_DATA_VERSION: &str = "2026f";

/// All sets of data in this build, the oldest first. A set is never changed and never removed.
const SETS: &[(&str, &[u8])] = &[(ZONE_DATA_VERSION, include_bytes!("../../zones/2026f.bin"))];

/// The first second of 2100. From here on zones repeat every 400 years: what data they have for single years ends in 2087.
const CYCLE_START: i64 = 4_102_444_800;

/// 400 years of the Gregorian calendar, seconds: 146,097 days, a whole number of weeks.
const CYCLE: i64 = 146_097 * 86_400;

/// Greatest distance of a fixed offset from UTC, minutes: ISO 8601 and the tz database stay inside.
const FIXED_MINUTES_MAX: u32 = 18 * 60;

/// Zones that were unfolded, by version and name: what never changes is read once, since every condition of a query may name a zone. No more
/// than the data has: some 600 of at most 20 KiB.
static UNFOLDED: Mutex<BTreeMap<Arc<str>, Zones>> = Mutex::new(BTreeMap::new());

/// Zones by name.
type Zones = BTreeMap<Arc<str>, Zone>;

/// Why there is no such zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ZoneFault {
    /// Not in the data, nor UTC, nor an offset such as `+08:00`.
    #[error("there is no time zone '{name}' in the time zone data {version}")]
    UnknownZone {
        /// The name asked for.
        name: String,
        /// The version of the data.
        version: String,
    },
    /// This build is older than the rule, or the version is no version at all.
    #[error("this build has no time zone data '{0}'; it has {have}", have = versions().collect::<Vec<_>>().join(", "))]
    UnknownVersion(String),
}

/// A time zone: when its clocks were, are and will be how far from UTC.
#[derive(Clone, PartialEq, Eq)]
pub struct Zone {
    name: Arc<str>,
    /// Before the first transition.
    first: i32,
    /// (the first second of it, the offset from then on in seconds), sorted, neighbours different, up to the cycle's end.
    transitions: Arc<[(i64, i32)]>,
}

impl std::fmt::Debug for Zone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Zone").field(&self.name).finish()
    }
}

impl Zone {
    /// Coordinated universal time.
    #[must_use]
    pub fn utc() -> Self {
        Self::fixed("UTC", 0)
    }

    /// A zone of [`ZONE_DATA_VERSION`]: a name of the tz database, `UTC`, or an offset `+hh:mm` or `-hh:mm`.
    ///
    /// # Errors
    /// [`ZoneFault::UnknownZone`].
    pub fn load(name: &str) -> Result<Self, ZoneFault> {
        Self::load_version(ZONE_DATA_VERSION, name)
    }

    /// A zone of another version of the data.
    ///
    /// # Errors
    /// [`ZoneFault`].
    pub fn load_version(version: &str, name: &str) -> Result<Self, ZoneFault> {
        let (_, set) = SETS
            .iter()
            .find(|(it, _)| *it == version)
            .ok_or_else(|| ZoneFault::UnknownVersion(version.to_owned()))?;
        if name == "UTC" {
            return Ok(Self::utc());
        }
        if let Some(minutes) = fixed_minutes(name) {
            return Ok(Self::fixed(name, minutes * 60));
        }
        let mut unfolded = UNFOLDED.lock().expect("nothing panics under this lock");
        let known = unfolded.entry(version.into()).or_default();
        if let Some(zone) = known.get(name) {
            return Ok(zone.clone());
        }
        let zone = Set::read(set)
            .and_then(|set| set.find(name))
            .and_then(|tzif| Self::unfold(name, tzif))
            .ok_or_else(|| ZoneFault::UnknownZone {
                name: name.to_owned(),
                version: version.to_owned(),
            })?;
        known.insert(Arc::clone(&zone.name), zone.clone());
        Ok(zone)
    }

    fn fixed(name: &str, seconds: i32) -> Self {
        Self {
            name: name.into(),
            first: seconds,
            transitions: Arc::new([]),
        }
    }

    /// From TZif (RFC 9636); `None` if it is none, which a test rules out for all that is compiled in.
    fn unfold(name: &str, tzif: &[u8]) -> Option<Self> {
        let zone = TimeZone::tzif(name, tzif).ok()?;
        let first = zone.to_offset(Timestamp::MIN).seconds();
        let mut transitions: Vec<(i64, i32)> = Vec::new();
        for transition in zone.following(Timestamp::MIN) {
            let at = transition.timestamp().as_second();
            if at >= CYCLE_START + CYCLE {
                break;
            }
            let offset = transition.offset().seconds();
            // Some transitions change only a name.
            if transitions.last().map_or(first, |(_, before)| *before) != offset {
                transitions.push((at, offset));
            }
        }
        Some(Self {
            name: name.into(),
            first,
            transitions: transitions.into(),
        })
    }

    /// The name it was loaded by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How far its clocks are ahead of UTC at a moment, both in seconds; the moment since 1970.
    #[must_use]
    pub fn offset_seconds(&self, unix_seconds: i64) -> i32 {
        let (within, _) = fold(unix_seconds);
        self.until(within)
            .checked_sub(1)
            .map_or(self.first, |at| self.transitions[at].1)
    }

    /// The first second after a moment at which the offset is another one, both in seconds since 1970.
    #[must_use]
    pub fn next_transition(&self, unix_seconds: i64) -> Option<i64> {
        let (within, cycles) = fold(unix_seconds);
        if let Some((at, _)) = self.transitions.get(self.until(within)) {
            return at.checked_add(cycles);
        }
        // The first of the next round of the cycle, unless the zone has no more of them.
        let (at, _) = self.transitions.get(self.until(CYCLE_START - 1))?;
        at.checked_add(cycles)?.checked_add(CYCLE)
    }

    /// The earliest moment at which its clocks show `local_seconds` or later (seconds since 1970 by those clocks). For
    /// a time that clocks skipped that is the moment of the jump, for one they showed twice the first of the two.
    #[must_use]
    pub fn earliest(&self, local_seconds: i64) -> i64 {
        let mut from = local_seconds.saturating_sub(OFFSET_MAX);
        loop {
            let offset = i64::from(self.offset_seconds(from));
            let next = self.next_transition(from);
            let at = local_seconds.saturating_sub(offset).max(from);
            match next {
                Some(next) if at >= next => from = next,
                _ => return at,
            }
        }
    }

    /// How many transitions are at or before a second inside the cycle.
    fn until(&self, seconds: i64) -> usize {
        self.transitions.partition_point(|(at, _)| *at <= seconds)
    }
}

/// Farther from UTC than any clock ever was (Manila and Alaska: about 16 hours), seconds.
pub(super) const OFFSET_MAX: i64 = 26 * 3_600;

/// A moment brought into the first round of the cycle, and by how much.
const fn fold(unix_seconds: i64) -> (i64, i64) {
    if unix_seconds < CYCLE_START + CYCLE {
        return (unix_seconds, 0);
    }
    let cycles = (unix_seconds - CYCLE_START) / CYCLE * CYCLE;
    (unix_seconds - cycles, cycles)
}

/// The minutes of `+hh:mm` or `-hh:mm`.
fn fixed_minutes(name: &str) -> Option<i32> {
    let (sign, rest) = match name.as_bytes() {
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let [h1, h2, b':', m1, m2] = rest else {
        return None;
    };
    let digit = |byte: &u8| char::from(*byte).to_digit(10);
    let (hours, minutes) = (digit(h1)? * 10 + digit(h2)?, digit(m1)? * 10 + digit(m2)?);
    let all = hours * 60 + minutes;
    // At most 18 hours, so it fits.
    (minutes < 60 && all <= FIXED_MINUTES_MAX).then_some(sign * all as i32)
}

/// The versions of the time zone data that this build has, the oldest first.
pub fn versions() -> impl Iterator<Item = &'static str> {
    SETS.iter().map(|(version, _)| *version)
}

/// The names of all zones of a version; none if this build does not have it.
#[must_use]
pub fn names(version: &str) -> Vec<&'static str> {
    SETS.iter()
        .find(|(it, _)| *it == version)
        .and_then(|(_, set)| Set::read(set))
        .map(|set| set.entries.iter().map(|(name, _)| *name).collect())
        .unwrap_or_default()
}

/// What a set of data begins with.
const MAGIC: &[u8] = b"CDZONES1";

/// A set of data: names and where each one's TZif lies.
struct Set {
    entries: Vec<(&'static str, &'static [u8])>,
}

impl Set {
    /// Layout: magic; u16 count; per zone u8 length, name, u32 start, u32 length; then the TZif of all, at whose first
    /// byte starts count from 0. Big-endian.
    fn read(bytes: &'static [u8]) -> Option<Self> {
        let (count, mut rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<2>()?;
        let mut places = Vec::new();
        for _ in 0..u16::from_be_bytes(*count) {
            let (length, after) = rest.split_first()?;
            let (name, after) = after.split_at_checked(usize::from(*length))?;
            let (start, after) = after.split_first_chunk::<4>()?;
            let (size, after) = after.split_first_chunk::<4>()?;
            let name = std::str::from_utf8(name).ok()?;
            places.push((name, u32::from_be_bytes(*start), u32::from_be_bytes(*size)));
            rest = after;
        }
        let entries = places
            .into_iter()
            .map(|(name, start, size)| {
                let (start, size) = (start as usize, size as usize);
                Some((name, rest.get(start..start.checked_add(size)?)?))
            })
            .collect::<Option<_>>()?;
        Some(Self { entries })
    }

    fn find(&self, name: &str) -> Option<&'static [u8]> {
        self.entries
            .iter()
            .find(|(it, _)| *it == name)
            .map(|(_, tzif)| *tzif)
    }
}

#[cfg(test)]
mod tests;
