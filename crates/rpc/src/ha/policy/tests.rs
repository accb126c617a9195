//! Every row of the table (hadoop-ha-rpc.md B.3), delays (B.4), several failures at once (B.5).

use std::sync::Arc;

use cadastre_types::{Code, Error};
use proptest::prelude::*;

use super::*;
use crate::ha::Executed;

const MARKS: [Mark; 3] = [Mark::Idempotent, Mark::AtMostOnce, Mark::Neither];

const CLASSES: &[Class] = &[
    C::Sasl,
    C::Refused,
    C::UnknownHost,
    C::NoRoute,
    C::ConnectTimeout,
    C::NotSent,
    C::Eof,
    C::Standby,
    C::ObserverRetryOnActive,
    C::Retriable,
    C::InvalidToken,
    C::AccessControl,
    C::Socket,
    C::CallTimeout,
    C::OtherIo,
    C::SafeMode,
    C::Remote,
    C::Other,
    C::MasterNotRunning,
    C::ServerNotRunningYet,
    C::MasterStopped,
    C::Fenced,
    C::PleaseHold,
    C::Overloaded,
];

/// The compiler asks for a new class here, the test below for its row.
fn listed(class: Class) -> bool {
    match class {
        C::Sasl
        | C::Refused
        | C::UnknownHost
        | C::NoRoute
        | C::ConnectTimeout
        | C::NotSent
        | C::Eof
        | C::Standby
        | C::ObserverRetryOnActive
        | C::Retriable
        | C::InvalidToken
        | C::AccessControl
        | C::Socket
        | C::CallTimeout
        | C::OtherIo
        | C::SafeMode
        | C::Remote
        | C::Other
        | C::MasterNotRunning
        | C::ServerNotRunningYet
        | C::MasterStopped
        | C::Fenced
        | C::PleaseHold
        | C::Overloaded => CLASSES.contains(&class),
    }
}

fn counts(retries: u32, failovers: u32) -> Counts {
    Counts { retries, failovers }
}

/// `half` of chance: delays as they are before chance.
fn decide(class: Class, counts: Counts, mark: Mark) -> Action {
    Policy::failover(Failover::default()).decide(class, counts, mark, 0.5)
}

#[test]
fn every_class_has_one_row_and_every_row_a_class() {
    for class in CLASSES {
        assert!(listed(*class));
        let rows = TABLE.iter().filter(|row| row.when == Is(*class)).count();
        assert_eq!(rows, 1, "{class:?}");
    }
    for row in TABLE {
        match row.when {
            Is(class) => assert!(listed(class)),
            When::Cancelled | When::FailoversUsedUp | When::RetriesUsedUp => {}
        }
    }
    assert!(TABLE.iter().map(|row| row.id).is_sorted_by(|a, b| a != b));
    assert_eq!(TABLE.len(), CLASSES.len() + 3);
}

#[test]
fn the_documentation_has_the_same_table() {
    let text = include_str!("../../../../../docs/ha-proxy.md");
    let is_row = |line: &&str| {
        let last = line.rsplit('|').nth(1).unwrap_or_default().trim();
        ["Nothing", "Failovers", "Retries"].contains(&last)
    };
    let documented: Vec<&str> = text.lines().filter(is_row).collect();
    let rows: Vec<String> = (TABLE.iter())
        .map(|row| {
            format!(
                "| {} | {:?} | {:?} | {:?} | {:?} | {:?} |",
                row.id, row.when, row.idempotent, row.at_most_once, row.neither, row.delay
            )
        })
        .collect();
    assert_eq!(documented, rows);
}

/// What the fact sheet says, written down once more by hand: id, class, then what happens for the three marks, and the delay after
/// three earlier tries of which two were failovers (base 500: 4000 ms by retries, 2000 ms by failovers).
#[test]
fn rows() {
    const F: Decision = Fail;
    const R: Decision = Retry;
    const O: Decision = FailOver;
    let expected: &[(&str, Class, [Decision; 3], u64)] = &[
        ("3", C::Sasl, [F, F, F], 0),
        ("4a", C::Refused, [O, O, O], 2000),
        ("4b", C::UnknownHost, [O, O, O], 2000),
        ("4c", C::NoRoute, [O, O, O], 2000),
        ("4d", C::ConnectTimeout, [O, O, O], 2000),
        ("4d'", C::NotSent, [O, O, O], 2000),
        ("4e", C::Eof, [O, O, F], 2000),
        ("4f, 4g", C::Standby, [O, O, O], 2000),
        ("4g'", C::ObserverRetryOnActive, [O, O, O], 2000),
        ("5", C::Retriable, [R, R, R], 4000),
        ("6", C::InvalidToken, [F, F, F], 0),
        ("7", C::AccessControl, [F, F, F], 0),
        ("8a", C::Socket, [O, O, F], 4000),
        ("8b", C::CallTimeout, [O, O, F], 4000),
        ("8c", C::OtherIo, [O, O, F], 4000),
        ("9a", C::Remote, [F, F, F], 0),
        ("9a'", C::SafeMode, [F, F, F], 0),
        ("9b", C::Other, [F, F, F], 0),
        ("H1", C::MasterNotRunning, [O, O, O], 2000),
        ("H2", C::ServerNotRunningYet, [O, O, O], 2000),
        ("H3", C::MasterStopped, [O, O, O], 2000),
        ("H4", C::Fenced, [O, O, F], 4000),
        ("H5", C::PleaseHold, [R, R, R], 4000),
        ("H6", C::Overloaded, [R, R, R], 4000),
    ];
    assert_eq!(expected.len(), CLASSES.len());
    for (id, class, decisions, delay_ms) in expected {
        for (mark, decision) in MARKS.iter().zip(decisions) {
            let action = decide(*class, counts(3, 2), *mark);
            assert_eq!((action.row, action.decision), (*id, *decision), "{mark:?}");
            let delay_ms = if *decision == F { 0 } else { *delay_ms };
            assert_eq!(action.delay, Duration::from_millis(delay_ms), "{id}");
            assert_eq!(action.reason, None);
        }
    }
}

#[test]
fn the_first_failover_is_at_once() {
    for class in [C::Refused, C::Standby, C::Socket, C::CallTimeout, C::Eof] {
        let action = decide(class, counts(0, 0), Mark::AtMostOnce);
        let at_once = (FailOver, Duration::ZERO);
        assert_eq!((action.decision, action.delay), at_once, "{class:?}");
    }
    // So is the first retry here.
    assert_eq!(
        decide(C::Retriable, counts(0, 0), Mark::Idempotent).delay,
        Duration::ZERO
    );
}

#[test]
fn limits_come_first() {
    for class in CLASSES {
        for mark in MARKS {
            let action = decide(*class, counts(15, 15), mark);
            assert_eq!((action.decision, action.row), (Fail, "1"));
            let text = "failovers (15) exceeded maximum allowed (15)";
            assert_eq!(action.reason.unwrap().to_string(), text);
            let action = decide(*class, counts(13, 2), mark);
            assert_eq!((action.decision, action.row), (Fail, "2"));
            let text = "retries (11) exceeded maximum allowed (10)";
            assert_eq!(action.reason.unwrap().to_string(), text);
        }
    }
    assert_eq!(decide(C::Standby, counts(14, 14), MARKS[0]).row, "4f, 4g");
    assert_eq!(decide(C::Retriable, counts(12, 2), MARKS[0]).row, "5");
}

#[test]
fn no_failovers_allowed_means_no_retries_either() {
    let policy = Policy::failover(Failover {
        failovers_max: 0,
        ..Failover::default()
    });
    let action = policy.decide(C::Retriable, counts(0, 0), Mark::Idempotent, 0.0);
    assert_eq!((action.decision, action.row), (Fail, "1"));
}

#[test]
fn delays() {
    let numbers = Failover::default();
    let at = |n, chance| delay(&numbers, n, chance).as_millis();
    assert_eq!((at(0, 0.0), at(0, 0.999)), (0, 0));
    assert_eq!((at(1, 0.0), at(1, 1.0)), (500, 1500));
    assert_eq!((at(2, 0.0), at(2, 1.0)), (1000, 3000));
    assert_eq!((at(3, 0.0), at(3, 1.0)), (2000, 6000));
    assert_eq!((at(4, 0.0), at(4, 1.0)), (4000, 12_000));
    // The maximum comes before chance.
    assert_eq!((at(5, 0.0), at(5, 1.0)), (7500, 22_500));
    assert_eq!((at(63, 0.0), at(64, 1.0)), (7500, 22_500));
    assert_eq!(at(u32::MAX, 0.5), 15_000);
    // Standby for ever: fifteen failovers, 165 s in the mean.
    let sum: u128 = (0..15).map(|n| at(n, 0.5)).sum();
    assert_eq!(sum, 165_000);
}

#[test]
fn the_fallback_decides_on_the_servers_own_exceptions() {
    let fallback = Policy::Exponential {
        tries: 3,
        base_ms: 100,
    };
    let policy = Policy::FailoverOnNetwork(Failover::default(), Box::new(fallback));
    let action = policy.decide(C::Remote, counts(0, 0), Mark::Idempotent, 0.5);
    assert_eq!((action.decision, action.row), (Retry, "9a"));
    assert_eq!(action.delay, Duration::from_millis(200));
    assert_eq!(
        policy
            .decide(C::Remote, counts(2, 0), Mark::Idempotent, 0.5)
            .decision,
        Fail
    );
    // Not on those that have a row of their own.
    assert_eq!(
        policy.decide(C::Sasl, counts(0, 0), Mark::Idempotent, 0.5),
        Action::fail("3")
    );
}

#[test]
fn linear_random() {
    let default = LinearRandom::default();
    assert_eq!(LinearRandom::parse("10000,6,60000,10"), Some(default));
    for bad in ["", "1", "1,2,3", "0,1", "1,-1", "a,b", "1,4294967296"] {
        assert_eq!(LinearRandom::parse(bad), None, "{bad}");
    }
    let policy = Policy::Plain(LinearRandom::default());
    let at = |retries| {
        let action = policy.decide(C::Refused, counts(retries, 0), Mark::Neither, 0.5);
        (action.decision, action.delay.as_millis())
    };
    // Seven of the first, then ten of the second, then the end.
    for retries in 0..7 {
        assert_eq!(at(retries), (Retry, 10_000));
    }
    for retries in 7..17 {
        assert_eq!(at(retries), (Retry, 60_000));
    }
    assert_eq!(at(17), (Fail, 0));
    // Of the server's own exceptions only safe mode is waited for.
    let decision = |class, mark| policy.decide(class, counts(0, 0), mark, 0.5).decision;
    assert_eq!(decision(C::Remote, Mark::Idempotent), Fail);
    assert_eq!(decision(C::SafeMode, Mark::Idempotent), Retry);
    assert_eq!(decision(C::Retriable, Mark::Neither), Retry);
    assert_eq!(decision(C::Socket, Mark::AtMostOnce), Retry);
    assert_eq!(decision(C::Socket, Mark::Neither), Fail);
}

#[test]
fn of_several_failures_the_greatest_decision_counts() {
    let failure = |class| {
        let error = Error::new(Code::Io, "x");
        Failure::new(class, Executed::No, &Arc::from("s"), error)
    };
    let policy = Policy::failover(Failover::default());
    let all = |classes: &[Class]| {
        let failures: Vec<Failure> = classes.iter().copied().map(failure).collect();
        policy.decide_all(&failures, counts(2, 1), Mark::Idempotent, || 0.5)
    };
    // Not found on one, standby on the other: the other is asked again.
    let (action, at) = all(&[C::Remote, C::Standby]);
    assert_eq!((action.decision, at), (FailOver, 1));
    // The longest delay of those that go on: 2 earlier tries, 1 failover.
    let (action, at) = all(&[C::Standby, C::Retriable]);
    assert_eq!((action.decision, at), (FailOver, 0));
    assert_eq!(action.delay, Duration::from_millis(2000));
    // All fail: the first tells.
    let (action, at) = all(&[C::Remote, C::Sasl]);
    assert_eq!((action.decision, at), (Fail, 0));
    assert_eq!(action.delay, Duration::ZERO);
}

proptest! {
    /// A call always ends: whatever fails in whatever order, the policy says so after a bounded number of tries.
    #[test]
    fn every_call_ends(failures in prop::collection::vec(0..CLASSES.len(), 200)) {
        let policy = Policy::failover(Failover::default());
        let mut counts = Counts::default();
        for at in failures {
            let action = policy.decide(CLASSES[at], counts, Mark::AtMostOnce, 0.3);
            prop_assert!(action.delay <= Duration::from_millis(22_500));
            counts.retries += 1;
            match action.decision {
                Fail => return Ok(()),
                Retry => {}
                FailOver => counts.failovers += 1,
            }
        }
        prop_assert!(false, "200 tries and no end");
    }
}
