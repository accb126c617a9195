//! B5.11: a script must answer the same when it is asked again, and in another process, with other addresses and other seeds of hash
//! tables. All other rules do by themselves.
//!
//! The second process is this binary again (`rule fingerprint`, without arguments): it is given the rule's bytes and samples on its standard
//! input and answers with a number that stands for all answers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use cadastre_sharding::lint::Fingerprint;
use cadastre_sharding::{Program, limits, script};

use super::records::{self, Record};
use super::{Outcome, Stop, exit};
use crate::commands::output::Output;

/// What is said of a script that answers now so, now otherwise.
pub(super) const NOT_REPEATABLE: &str = "the script answers differently when it is asked again, or in a second process: it cannot be a rule";

/// Whether this process is the binary `cadastre`. The tests of this crate are not: started again they would run themselves.
static IS_CADASTRE: AtomicBool = AtomicBool::new(false);

/// Said by whoever runs the binary's commands.
pub(in crate::commands) fn this_is_cadastre() {
    IS_CADASTRE.store(true, Ordering::Relaxed);
}

/// This binary as a second process, if it is one that can be asked.
pub(super) fn own() -> Result<Option<Command>, Stop> {
    if !IS_CADASTRE.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let mut command = Command::new(std::env::current_exe().map_err(fault)?);
    command.args(["rule", "fingerprint"]);
    Ok(Some(command))
}

fn fault(error: std::io::Error) -> Stop {
    Stop::usage(format!("a second process: {error}"))
}

/// Refuses a script that a second process answers otherwise.
pub(super) fn ensure(program: &Program) -> Result<(), Stop> {
    let Some(command) = own()?.filter(|_| program.is_script()) else {
        return Ok(());
    };
    match Second::start(command, program)?.agrees()? {
        true => Ok(()),
        false => Err(Stop::refused(NOT_REPEATABLE)),
    }
}

/// A second process that is asked what we are asked.
pub(super) struct Second<'p> {
    program: &'p Program,
    child: Child,
    /// None once it reads no more.
    input: Option<ChildStdin>,
    ours: Fingerprint,
    /// We ourselves answered the same twice.
    same: bool,
}

impl<'p> Second<'p> {
    pub(super) fn start(mut command: Command, program: &'p Program) -> Result<Self, Stop> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(fault)?;
        let input = child.stdin.take();
        let ours = Fingerprint::of_edges(program);
        let mut second = Self {
            program,
            child,
            input,
            ours,
            same: ours == Fingerprint::of_edges(program),
        };
        let bytes = program.bytes();
        second.write(format!("{}\n", bytes.len()).as_bytes());
        second.write(bytes);
        Ok(second)
    }

    /// Who reads no more has failed, which its answer shows.
    fn write(&mut self, bytes: &[u8]) {
        if self
            .input
            .as_mut()
            .is_some_and(|it| it.write_all(bytes).is_err())
        {
            self.input = None;
        }
    }

    /// One more record that both must place alike.
    pub(super) fn sample(&mut self, record: &Record) {
        let fields = record.fields();
        let mut again = self.ours;
        self.ours.add(self.program, &fields);
        again.add(self.program, &fields);
        self.same &= self.ours == again;
        let line = format!("{}\n", records::json_of(self.program, record));
        self.write(line.as_bytes());
    }

    /// Whether all answers were the same.
    pub(super) fn agrees(mut self) -> Result<bool, Stop> {
        drop(self.input.take());
        let answer = self.child.wait_with_output().map_err(fault)?;
        let theirs = String::from_utf8_lossy(&answer.stdout);
        Ok(self.same && answer.status.success() && theirs.trim() == self.ours.to_string())
    }
}

/// What the second process does: the number of the rule and the samples on its standard input.
pub(super) fn fingerprint(output: &mut Output<'_>) -> Outcome {
    let mut input = BufReader::new(std::io::stdin());
    let malformed = || Stop::usage("standard input is no rule and samples");
    let mut line = String::new();
    // A number of 20 digits at most, and the end of its line.
    (&mut input).take(21).read_line(&mut line).map_err(fault)?;
    let length: usize = line.trim_end().parse().map_err(|_| malformed())?;
    if length > limits::CODE_BYTES_MAX {
        return Err(malformed());
    }
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes).map_err(fault)?;
    let program = cadastre_sharding::decode(&bytes)
        .and_then(|rule| Program::compile_with(rule, &script::compile))
        .map_err(|why| Stop::refused(why.to_string()))?;
    let mut all = Fingerprint::of_edges(&program);
    records::each_json(&program, input, |record| {
        all.add(&program, &record.fields());
        Ok(())
    })?;
    output.line(all);
    Ok(exit::DONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadastre_sharding::Literal;

    fn program(script: &str) -> Program {
        let text = format!(
            "rule s version 1; field id: i64; dimension n 0 to 9; script \"{script}\"; place table \"t_{{n}}\";"
        );
        Program::compile_with(cadastre_sharding::parse(&text).unwrap(), &script::compile).unwrap()
    }

    /// A process that reads everything and answers for another rule, as one whose script depends on the process would.
    fn planted(program: &Program, samples: &[Record]) -> Command {
        let mut all = Fingerprint::of_edges(program);
        for sample in samples {
            all.add(program, &sample.fields());
        }
        let mut command = Command::new("sh");
        command.args(["-c", &format!("cat > /dev/null; echo {all}")]);
        command
    }

    #[test]
    fn b5_11_a_script_that_a_second_process_answers_otherwise_is_found() {
        let one = program("modulo(id, 10)");
        let record = |id| Record::new(vec![Some(Literal::I64(id))]);
        // At the edges of its types the other answers the same; on one sample it does not.
        let other = program("if id == 123 { 0 } else { modulo(id, 10) }");
        let agrees = |command: Command, samples: &[Record]| {
            let mut second = Second::start(command, &one).unwrap();
            samples.iter().for_each(|it| second.sample(it));
            second.agrees().unwrap()
        };
        let samples = [record(5), record(123)];
        assert!(agrees(planted(&one, &[]), &[]));
        assert!(agrees(planted(&other, &[]), &[]));
        assert!(agrees(planted(&one, &samples), &samples));
        assert!(!agrees(planted(&other, &samples), &samples));
        assert!(!agrees(planted(&program("0"), &[]), &[]));
        // One that fails, reads nothing, or does not exist.
        assert!(!agrees(Command::new("false"), &samples));
        assert!(Second::start(Command::new("/nowhere"), &one).is_err());
        // This is no cadastre, so that nobody is asked.
        assert!(own().unwrap().is_none());
        ensure(&one).unwrap();
    }
}
