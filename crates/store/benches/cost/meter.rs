//! Processor time of the whole process and latencies, as lines of a Markdown table. Knows nothing of what is measured.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// How long one line is measured.
const LINE: Duration = Duration::from_secs(2);

/// Processor time of the process.
pub(crate) fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Measures operations, each of which may count for several.
pub(crate) struct Meter {
    begun: Instant,
    cpu: Duration,
    latencies: Vec<Duration>,
    /// Processor and real time of the steps alone, where something else goes on between them.
    steps: Option<(Duration, Duration)>,
}

impl Meter {
    pub(crate) fn start() -> Self {
        Self {
            begun: Instant::now(),
            cpu: cpu(),
            latencies: Vec::new(),
            steps: None,
        }
    }

    /// Measures one step; what goes on between steps is not counted.
    pub(crate) async fn step<T>(&mut self, work: impl Future<Output = T>) -> T {
        let (begun, spent) = (Instant::now(), cpu());
        let done = work.await;
        self.lap(begun);
        let (all_spent, all_wall) = self.steps.get_or_insert_default();
        *all_spent += cpu() - spent;
        *all_wall += begun.elapsed();
        done
    }

    pub(crate) fn goes_on(&self) -> bool {
        self.begun.elapsed() < LINE
    }

    pub(crate) fn lap(&mut self, since: Instant) {
        self.latencies.push(since.elapsed());
    }

    /// Prints the line: processor time per `each` of an operation's `units`.
    pub(crate) fn print(mut self, what: &str, units: u32) {
        let whole = (cpu() - self.cpu, self.begun.elapsed());
        let (spent, wall) = self.steps.unwrap_or(whole);
        let operations = u32::try_from(self.latencies.len()).unwrap().max(1);
        self.latencies.sort_unstable();
        let at = |part: f64| {
            let index = ((self.latencies.len() as f64 * part) as usize)
                .min(self.latencies.len().saturating_sub(1));
            self.latencies.get(index).copied().unwrap_or_default()
        };
        println!(
            "| {what} | {:.2} | {:.2} | {:.1} | {:.1} | {:.0} |",
            micros(spent) / f64::from(operations) / f64::from(units),
            micros(wall) / f64::from(operations) / f64::from(units),
            micros(at(0.5)),
            micros(at(0.99)),
            f64::from(operations) * f64::from(units) / wall.as_secs_f64(),
        );
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

pub(crate) fn head(title: &str) {
    println!("\n### {title}\n");
    println!("| what | CPU µs/unit | wall µs/unit | p50 µs/op | p99 µs/op | units/s |");
    println!("| --- | --- | --- | --- | --- | --- |");
}
