//! How far a long command has come: rows, rate and the time that is left, on standard error and only if that is a terminal.
//!
//! The share that is done is known from positions, not from counting first: bytes of a file, or where a row lies among the table's
//! regions. Pure parts: [`Track`], [`time_left`].

use std::time::Duration;

use bytes::Bytes;
use cadastre_env::Clock;
use indicatif::{ProgressBar, ProgressStyle};

use super::output::rate;

/// How often the line changes.
const EVERY: Duration = Duration::from_millis(200);

/// Steps of the bar: finer than any terminal shows.
const STEPS: u64 = 10_000;

/// A pass over a table's rows in order, measured by its regions: each is taken for as large as the others, and its keys for evenly
/// spread, which is as good as can be told without reading.
#[derive(Debug, Clone)]
pub(super) struct Track {
    /// Where each part begins, ascending; never empty.
    starts: Vec<Bytes>,
    /// Where the last part ends, empty for the open end.
    end: Bytes,
}

impl Track {
    /// The part of the regions with these start keys that lies in a range; an empty end is the open one.
    pub(super) fn new(region_starts: &[Bytes], from: &Bytes, end: &Bytes) -> Self {
        let mut starts = vec![from.clone()];
        let inside = region_starts
            .iter()
            .filter(|start| *start > from && (end.is_empty() || *start < end));
        starts.extend(inside.cloned());
        starts.sort();
        Self {
            starts,
            end: end.clone(),
        }
    }

    /// The share that lies before a row, 0 to 1.
    pub(super) fn share(&self, row: &[u8]) -> f64 {
        let behind = self.starts.partition_point(|start| &start[..] <= row);
        let at = behind.saturating_sub(1);
        let end = self.starts.get(at + 1).unwrap_or(&self.end);
        (at as f64 + inside(&self.starts[at], end, row)) / self.starts.len() as f64
    }
}

/// The share of the keys between two that lies before a row; an empty `high` is above all keys.
fn inside(low: &[u8], high: &[u8], row: &[u8]) -> f64 {
    let same = if high.is_empty() {
        0
    } else {
        low.iter().zip(high).take_while(|(a, b)| a == b).count()
    };
    // The first bytes that differ decide. Where they are digits they count as such: of all bytes these ten are the tenth that comes.
    let parts = [low, high, row].map(|key| key.get(same..).unwrap_or(&[]));
    let is_digits = |key: &&[u8]| key.iter().take(6).all(u8::is_ascii_digit);
    let (base, zero) = if parts.iter().all(is_digits) {
        (10.0, b'0')
    } else {
        (256.0, 0)
    };
    let number = |key: &[u8]| {
        (0..6).fold(0.0, |sum, at| {
            let byte = key.get(at).copied().unwrap_or(zero);
            sum * base + f64::from(byte.saturating_sub(zero))
        })
    };
    let [low, end, row] = parts;
    let top = if high.is_empty() {
        f64::powi(base, 6)
    } else {
        number(end)
    };
    let (from, at) = (number(low), number(row));
    if top <= from {
        return 0.0;
    }
    ((at - from) / (top - from)).clamp(0.0, 1.0)
}

/// Time for the rest, if the share done since `began` took `spent`.
pub(super) fn time_left(spent: Duration, began: f64, share: f64) -> Option<Duration> {
    /// Of less than this nothing can be told.
    const SHARE_MIN: f64 = 0.001;
    /// Longer than anybody waits.
    const LONGEST_S: f64 = 1e9;
    let done = share - began;
    (done >= SHARE_MIN).then(|| {
        let left = spent.as_secs_f64() * (1.0 - share).max(0.0) / done;
        Duration::from_secs_f64(left.min(LONGEST_S))
    })
}

fn time_text(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// The line on standard error.
pub(super) struct Meter<C: Clock> {
    clock: C,
    began: Duration,
    told: Duration,
    /// The share that was done before, when something is resumed.
    share_before: f64,
    bar: ProgressBar,
}

impl<C: Clock> Meter<C> {
    /// Shows nothing yet, and never anything when standard error is no terminal.
    pub(super) fn new(clock: C, has_share: bool, share_before: f64) -> Self {
        let template = if has_share {
            "{bar:30} {percent:>3} %  {msg}"
        } else {
            "{spinner} {msg}"
        };
        let style = ProgressStyle::with_template(template).expect("a fixed template");
        let now = clock.mono();
        Self {
            clock,
            began: now,
            told: now,
            share_before,
            bar: ProgressBar::new(STEPS).with_style(style),
        }
    }

    /// Whether anybody sees it: what costs requests is only asked for then.
    pub(super) fn is_seen() -> bool {
        std::io::IsTerminal::is_terminal(&std::io::stderr())
    }

    /// So many rows are done; the share is only worked out when it is shown.
    pub(super) fn tell(&mut self, rows: u64, share: impl FnOnce() -> Option<f64>) {
        let now = self.clock.mono();
        if now.saturating_sub(self.told) < EVERY {
            return;
        }
        self.told = now;
        let spent = now.saturating_sub(self.began);
        let mut text = rate(rows, spent.as_secs_f64());
        if let Some(share) = share() {
            // Between 0 and 1, so it fits.
            self.bar.set_position((share * STEPS as f64) as u64);
            if let Some(left) = time_left(spent, self.share_before, share) {
                text.push_str(", ");
                text.push_str(&time_text(left));
                text.push_str(" left");
            }
        }
        self.bar.set_message(text);
        self.bar.tick();
    }

    /// Takes the line away; gives the seconds since the beginning.
    pub(super) fn end(self) -> f64 {
        self.bar.finish_and_clear();
        (self.clock.mono().saturating_sub(self.began)).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    #[test]
    fn a_row_s_place_among_the_regions_tells_the_share() {
        let starts = ["", "g", "p"].map(bytes);
        let track = Track::new(&starts, &Bytes::new(), &Bytes::new());
        let share = |row: &str| (track.share(row.as_bytes()) * 100.0).round();
        assert_eq!([share(""), share("g"), share("p")], [0.0, 33.0, 67.0]);
        assert_eq!(share("\u{7f}~"), 67.0 + 3.0);
        assert!(share("k") > share("h") && share("zz") > share("q"));
        let part = Track::new(&starts, &bytes("h"), &bytes("q"));
        assert_eq!(part.share(b"h"), 0.0);
        assert_eq!(part.share(b"p"), 0.5);
        assert_eq!(part.share(b"q"), 1.0);
        assert_eq!(part.share(b"a"), 0.0, "before the range");
        let none = Track::new(&[], &Bytes::new(), &Bytes::new());
        assert_eq!(none.share(b"\x80"), 0.5);
        // Keys with a long common beginning.
        let deep = Track::new(&[], &bytes("user-1000"), &bytes("user-2000"));
        assert!((deep.share(b"user-1500") - 0.5).abs() < 0.1);
    }

    #[test]
    fn the_time_left_follows_from_the_share() {
        let spent = Duration::from_secs(10);
        assert_eq!(time_left(spent, 0.0, 0.0), None);
        assert_eq!(time_left(spent, 0.0, 0.5), Some(spent));
        assert_eq!(time_left(spent, 0.5, 0.75), Some(spent));
        assert_eq!(time_left(spent, 0.0, 1.0), Some(Duration::ZERO));
        assert_eq!(time_text(Duration::from_secs(5)), "5 s");
        assert_eq!(time_text(Duration::from_secs(125)), "2 min 5 s");
        assert_eq!(time_text(Duration::from_secs(7300)), "2 h 1 min");
    }
}
