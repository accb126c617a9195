//! Tests of versions, by requirement number.

use std::sync::Arc;

use super::*;
use crate::enumerate::{Moves, moves};
use crate::{Column, ColumnValues, Place, PlaceId, Predicate, Program, Slot, Value};

fn program(text: &str) -> Arc<Program> {
    Arc::new(Program::parse(text).unwrap())
}

/// `id % n` over places p0, p1 …
fn modulo(version: u64, n: u32) -> Arc<Program> {
    program(&format!(
        "rule ids version {version}; field id: i64; dimension p 0 to {}; else (id % {n}); place table \"p{{p}}\";",
        n - 1
    ))
}

fn no_scripts(_: &crate::Rule, _: &str) -> Result<Box<dyn crate::ScriptBody>, crate::RuleError> {
    Err(crate::RuleError::new("no scripts here"))
}

#[test]
fn r67_the_worked_example() {
    let both = Both::new(modulo(0, 1), modulo(1, 2)).unwrap();
    let id = |place: PlaceId| both.place(place).table.as_str();
    let route = |key: i64| both.route(&[Value::I64(key)]).unwrap();
    let moves = |key| match route(key) {
        Route::Moves { from, to } => Some((id(from), id(to))),
        Route::Stays(_) => None,
    };
    // a is discarded by the copy, b moves, c arrives meanwhile and is captured, d is dropped by capture.
    let (a, b, c, d) = (0, 1, 3, 4);
    assert_eq!(moves(a), None);
    assert_eq!(moves(b), Some(("p0", "p1")));
    assert_eq!(moves(c), Some(("p0", "p1")));
    assert_eq!(moves(d), None);
    let mut diff = Diff::new(&both);
    for (key, bytes) in [(a, 10), (b, 20), (c, 30), (d, 40)] {
        diff.add(&[Value::I64(key)], 1, bytes);
    }
    let counted = |rows, bytes| Count { rows, bytes };
    assert_eq!(diff.stays(), counted(2, 50));
    assert_eq!(diff.moves(), counted(2, 50));
    let pairs: Vec<_> = diff.pairs().iter().collect();
    let [((from, to), moved)] = pairs.as_slice() else {
        panic!("{pairs:?}")
    };
    assert_eq!((id(*from), id(*to), **moved), ("p0", "p1", counted(2, 50)));
    let before = diff.old().evenness(both.old());
    assert_eq!((before.max_permille, before.places), (1000, 1));
    let after = diff.new_version().evenness(both.new_version());
    assert_eq!(
        (after.max_permille, after.min_permille, after.places),
        (1000, 1000, 2)
    );
    let hottest = diff.new_version().hottest(10);
    assert_eq!(
        hottest,
        [(Slot(0), counted(2, 50)), (Slot(1), counted(2, 50))]
    );
    // What a version refuses is told, and counted nowhere else.
    diff.add(&[Value::Null], 3, 5);
    assert_eq!(diff.old().refused().values().sum::<u64>(), 3);
    assert_eq!((diff.stays().rows, diff.has_refused()), (2, true));
}

#[test]
fn r31_a_node_between_two_others_takes_from_its_neighbour_alone_and_all_others_stay_open() {
    let ring = |version: u64, nodes: &str| {
        program(&format!(
            "rule ring version {version}; field id: i64; dimension n 0 to 9; \
             ring r {{ {nodes} }} virtual 1; else (r(xxh3(id))); place table \"node{{n}}\";"
        ))
    };
    let both = Both::new(ring(0, "1, 2, 3, 4"), ring(1, "1, 2, 3, 4, 5")).unwrap();
    let mut from_places = std::collections::BTreeSet::new();
    let mut stays = 0;
    for id in 0..20_000 {
        match both.route(&[Value::I64(id)]).unwrap() {
            Route::Stays(_) => stays += 1,
            Route::Moves { from, to } => {
                assert_eq!(both.place(to).table, "node5");
                from_places.insert(both.place(from).table.clone());
            }
        }
    }
    assert_eq!(from_places.len(), 1, "{from_places:?}");
    assert!(stays > 10_000);
}

#[test]
fn r30_a_change_of_the_map_is_known_without_looking_at_data() {
    let text = |version: u64, more: &str| {
        format!(
            "rule r version {version}; field id: i64; dimension s 0 to 15; else (id % 16); \
             place cluster \"a\" table \"t_{{s:2}}\"; {more}"
        )
    };
    let old = program(&text(1, ""));
    let new = program(&text(2, "place (3 to 4) cluster \"b\" table \"t_{s:2}\";"));
    let both = Both::new(Arc::clone(&old), new).unwrap();
    let changes = map_changes(&both).unwrap();
    assert_eq!(
        changes.iter().map(|it| it.slot).collect::<Vec<_>>(),
        [Slot(3), Slot(4)]
    );
    let to = both.place(changes[0].to);
    assert_eq!(
        *to,
        Place {
            cluster: "b".to_owned(),
            table: "t_03".to_owned()
        }
    );
    let other = program(&text(2, "").replace("id % 16", "id / 2 % 16"));
    assert_eq!(map_changes(&Both::new(old, other).unwrap()), None);
}

#[test]
fn versions_with_other_fields_do_not_pair_but_a_field_may_be_added() {
    let old = program(
        "rule r version 1; field a: i64; dimension s 0 to 1; else (a % 2); place table \"t{s}\";",
    );
    let more = program(
        "rule r version 2; field a: i64; field b: i64; dimension s 0 to 1; else (b % 2); place table \"t{s}\";",
    );
    let both = Both::new(Arc::clone(&old), more).unwrap();
    assert_eq!(both.fields(), 2);
    assert!(matches!(
        both.route(&[Value::I64(0), Value::I64(1)]),
        Ok(Route::Moves { .. })
    ));
    both.route(&[Value::I64(0)]).unwrap_err();
    let other = program(
        "rule r version 2; field a: u64; dimension s 0 to 1; else (a % 2); place table \"t{s}\";",
    );
    assert!(
        Both::new(Arc::clone(&old), other)
            .unwrap_err()
            .message
            .contains("field a")
    );
    let other = program(
        "rule x version 2; field a: i64; dimension s 0 to 1; else (a % 2); place table \"t{s}\";",
    );
    assert!(
        Both::new(old, other)
            .unwrap_err()
            .message
            .contains("different rules")
    );
}

#[test]
fn r44_batches_compare_as_single_records_do() {
    let both = Both::new(modulo(0, 4), modulo(1, 6)).unwrap();
    let ids: Vec<i64> = (-2_000..2_000).map(|it| it * 7_919).collect();
    let mut out = Comparison::default();
    both.compare(&[Column::new(ColumnValues::I64(&ids))], ids.len(), &mut out)
        .unwrap();
    let mut moved = out.moved.iter();
    for (row, id) in ids.iter().enumerate() {
        if let Route::Moves { from, to } = both.route(&[Value::I64(*id)]).unwrap() {
            assert_eq!(moved.next(), Some(&Moved { row, from, to }));
        }
    }
    assert_eq!(moved.next(), None);
    assert!(out.errors.is_empty());
}

#[test]
fn r26_to_r29_states_of_a_set() {
    let (v1, v2, v3) = (modulo(1, 2), modulo(2, 3), modulo(3, 4));
    let set = RuleSet::create(&v1);
    assert_eq!((set.revision(), set.current().version), (1, 1));
    assert!(matches!(set.state(), State::One(it) if it.version == 1));
    let offered = set.offer(1, &v1, &v2).unwrap();
    assert!(matches!(offered.state(), State::Two { next, .. } if next.version == 2));
    assert_eq!(offered.current().version, 1);
    // Two at most, numbers grow, nobody acts on what is old.
    assert_eq!(
        offered.offer(2, &v1, &v3).unwrap_err(),
        SetError::OfferOpen(2)
    );
    assert_eq!(
        set.offer(0, &v1, &v2).unwrap_err(),
        SetError::Conflict {
            expected: 0,
            actual: 1
        }
    );
    assert_eq!(
        set.offer(1, &v1, &v1).unwrap_err(),
        SetError::NotNewer {
            given: 1,
            newest: 1
        }
    );
    assert!(matches!(
        set.offer(1, &v2, &v3).unwrap_err(),
        SetError::Rule(_)
    ));
    assert_eq!(
        set.publish(1, &Acknowledgements::new(), true).unwrap_err(),
        SetError::NoOffer
    );
    // R65: taken back, nothing happened; the number is used up all the same.
    let withdrawn = offered.withdraw(2).unwrap();
    assert_eq!(withdrawn.state(), set.state());
    assert_eq!(
        withdrawn.offer(3, &v1, &v2).unwrap_err(),
        SetError::NotNewer {
            given: 2,
            newest: 2
        }
    );
    let again = withdrawn.offer(3, &v1, &v3).unwrap();
    let published = again.publish(4, &Acknowledgements::new(), false).unwrap();
    assert!(matches!(published.state(), State::One(it) if it.version == 3));
    assert_eq!(
        published
            .former()
            .iter()
            .map(|it| it.version)
            .collect::<Vec<_>>(),
        [1]
    );
    let actions: Vec<_> = published
        .history()
        .iter()
        .map(|it| (it.action, it.version))
        .collect();
    assert_eq!(
        actions,
        [
            (Action::Create, 1),
            (Action::Offer, 2),
            (Action::Withdraw, 2),
            (Action::Offer, 3),
            (Action::Publish, 3)
        ]
    );
    // Back to what was, under a new number.
    let back = published.rollback(1).unwrap();
    assert_eq!(back.version, 4);
    let back = Arc::new(Program::compile(back).unwrap());
    assert_eq!(back.logic_hash(), v1.logic_hash());
    published.offer(5, &v3, &back).unwrap();
    assert_eq!(published.rollback(2).unwrap_err(), SetError::Unknown(2));
}

#[test]
fn r71_publication_waits_until_every_live_client_has_seen_the_offer() {
    let (v1, v2) = (modulo(1, 2), modulo(2, 3));
    let mut clients = Acknowledgements::new();
    clients.seen("a", 1);
    clients.seen("b", 1);
    let offered = RuleSet::create(&v1).offer(1, &v1, &v2).unwrap();
    clients.seen("a", 2);
    let error = offered.publish(2, &clients, false).unwrap_err();
    assert_eq!(error.to_string(), "not all clients have seen revision 2: b");
    offered.publish(2, &clients, true).unwrap();
    let mut seen = clients.clone();
    seen.seen("b", 2);
    seen.seen("b", 1);
    offered.publish(2, &seen, false).unwrap();
    clients.gone("b");
    assert_eq!(clients.live(), 1);
    offered.publish(2, &clients, false).unwrap();
}

#[test]
fn a_set_survives_being_kept_and_damage_is_seen() {
    let (v1, v2, v3) = (modulo(1, 2), modulo(2, 3), modulo(3, 4));
    let set = RuleSet::create(&v1).offer(1, &v1, &v2).unwrap();
    let set = set
        .publish(2, &Acknowledgements::new(), false)
        .unwrap()
        .offer(3, &v2, &v3)
        .unwrap();
    let bytes = set.encode();
    assert_eq!(RuleSet::decode(&bytes).unwrap(), set);
    // What is not visible any more is kept, and not shown to clients.
    let visible = set.visible();
    assert_eq!((visible.state(), visible.former().len()), (set.state(), 0));
    assert_eq!(RuleSet::decode(&visible.encode()).unwrap(), visible);
    let hex: String = bytes.iter().map(|it| format!("{it:02x}")).collect();
    crate::random::golden("rule_set.hex", &format!("{hex}\n"));
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        RuleSet::decode(&damaged).unwrap_err();
        RuleSet::decode(&bytes[..at]).unwrap_err();
    }
    let View::Two(both) = View::of(&set, None, &no_scripts).unwrap() else {
        panic!()
    };
    assert_eq!(both.new_version().hash(), v3.hash());
    // What is compiled already is not compiled again.
    let view = View::Two(both);
    let published = set.publish(4, &Acknowledgements::new(), false).unwrap();
    let (View::Two(both), View::One(one)) = (
        &view,
        View::of(&published, Some(&view), &no_scripts).unwrap(),
    ) else {
        panic!()
    };
    assert!(Arc::ptr_eq(both.new_version(), &one));
}

fn target(cluster: &str) -> Target {
    Target {
        cluster: cluster.to_owned(),
        table: None,
    }
}

/// Four clusters of four slots each.
const SIXTEEN: &str = "rule r version 1; field id: i64; field day: date; dimension s 0 to 15; dimension d 1 to 7; \
    let h = xxh3(id); when id == 5 then (3, 1); else (h % 16, day_of_week(day)); \
    place cluster \"c{s / 4}\" table \"t_{s:2}_{d}\";";

fn moved_ids(old: &Arc<Program>, plan: &Plan, ids: std::ops::Range<i64>) -> Vec<(i64, Place)> {
    let new = Arc::new(Program::compile(plan.rule.clone()).unwrap());
    assert_eq!(
        Program::parse(&plan.rule.to_string()).unwrap().hash(),
        new.hash()
    );
    let both = Both::new(Arc::clone(old), new).unwrap();
    ids.filter_map(
        |id| match both.route(&[Value::I64(id), Value::Date(19_000)]).unwrap() {
            Route::Moves { to, .. } => Some((id, both.place(to).clone())),
            Route::Stays(_) => None,
        },
    )
    .collect()
}

#[test]
fn r15_r16_the_first_plan_for_growth_moves_nothing() {
    let old = program(SIXTEEN);
    let observed = Observed {
        slots: vec![1; 16 * 7],
    };
    let beyond = Some((0, crate::Literal::I64(10_000)));
    let grown = grow(&old, &observed, &[target("c4"), target("c5")], beyond).unwrap();
    assert_eq!((grown.plans.len(), grown.lacks), (2, None));
    let first = &grown.plans[0];
    assert!(first.slots_moved.is_empty());
    assert_eq!(moved_ids(&old, first, 0..10_000), []);
    // All that is new goes to the new places, evenly; exceptions stay exceptions.
    let new = moved_ids(&old, first, 10_000..12_000);
    assert_eq!(new.len(), 2_000);
    let on = |cluster: &str| {
        new.iter()
            .filter(|(_, place)| place.cluster == cluster)
            .count()
    };
    assert_eq!(on("c4") + on("c5"), 2_000);
    assert!(on("c4").abs_diff(1_000) < 100, "{}", on("c4"));
    assert_eq!(first.rule.version, 2);
}

#[test]
fn r18_evening_out_moves_no_more_than_the_new_places_share() {
    let old = program(SIXTEEN);
    let observed = Observed {
        slots: vec![10; 16 * 7],
    };
    let grown = grow(&old, &observed, &[target("c4")], None).unwrap();
    assert!(grown.lacks.is_some());
    let plan = &grown.plans[0];
    // A fifth of 16 x 70 is 224; slots of 70 fit three times.
    assert_eq!(
        (plan.load_moved, plan.slots_moved.len()),
        (210, 21),
        "{}",
        plan.reason
    );
    let moved = moved_ids(&old, plan, 0..4_000);
    assert!(
        moved
            .iter()
            .all(|(_, place)| place.cluster == "c4" && place.table.starts_with("t_"))
    );
    assert!((600..900).contains(&moved.len()), "{}", moved.len());
    let both = Both::new(
        Arc::clone(&old),
        Arc::new(Program::compile(plan.rule.clone()).unwrap()),
    )
    .unwrap();
    assert_eq!(map_changes(&both).unwrap().len(), 21);
    // A hot cluster gives, cold ones do not.
    let mut slots = vec![0; 16 * 7];
    slots[..4 * 7].fill(100);
    let grown = grow(&old, &Observed { slots }, &[target("c4")], None).unwrap();
    let plan = &grown.plans[0];
    assert!(plan.slots_moved.iter().all(|it| it.0 < 4 * 7), "{plan:?}");
}

#[test]
fn a_slot_is_moved_a_key_isolated_a_slot_split() {
    let old = program(SIXTEEN);
    let observed = Observed {
        slots: vec![1; 16 * 7],
    };
    let plan = move_slots(&old, &observed, &[3], &target("hot")).unwrap();
    assert_eq!((plan.slots_moved.len(), plan.load_moved), (7, 7));
    let moved = moved_ids(&old, &plan, 0..1_000);
    assert!(moved.iter().any(|(id, _)| *id == 5));
    assert!(
        moved
            .iter()
            .all(|(_, place)| place.cluster == "hot" && place.table.starts_with("t_03_"))
    );

    let key = [(0, crate::Literal::I64(77))];
    let plan = isolate(&old, &key, 123, &target("alone")).unwrap();
    // Its rows of each day, by whatever slot its hash gives, and what was counted of them.
    let slot = old.evaluate(&[Value::I64(77), Value::Date(0)]).unwrap();
    let first = old.shape().coordinate(slot, 0);
    let firsts = plan
        .slots_moved
        .iter()
        .map(|it| old.shape().coordinate(*it, 0));
    assert_eq!(firsts.collect::<Vec<_>>(), vec![first; 7]);
    assert_eq!(plan.load_moved, 123);
    assert_eq!(key_field(&old), Some(0));
    let moved = moved_ids(&old, &plan, 0..1_000);
    assert_eq!(moved.iter().map(|it| it.0).collect::<Vec<_>>(), [77]);
    assert_eq!(
        (moved[0].1.cluster.as_str(), &moved[0].1.table[..5]),
        ("alone", "t_16_")
    );

    // A key of two fields: those rows and no others.
    let key = [
        (0, crate::Literal::I64(77)),
        (1, crate::Literal::Date(19_000)),
    ];
    let plan = isolate(&old, &key, 1, &target("alone")).unwrap();
    assert_eq!(plan.slots_moved.len(), 1);
    assert_eq!(moved_ids(&old, &plan, 0..1_000).len(), 1);
    isolate(&old, &[], 1, &target("alone")).unwrap_err();
    isolate(&old, &[(0, crate::Literal::U64(7))], 1, &target("alone")).unwrap_err();

    let plan = split(&old, &observed, 7, &target("more")).unwrap();
    let moved = moved_ids(&old, &plan, 0..32_000);
    let before = (0..32_000).filter(|id| {
        let slot = old
            .evaluate(&[Value::I64(*id), Value::Date(19_000)])
            .unwrap();
        old.shape().coordinate(slot, 0) == 7
    });
    let before = before.count();
    assert!(
        moved.len().abs_diff(before / 2) < before / 10,
        "{} of {before}",
        moved.len()
    );
    assert!(moved.iter().all(|(_, place)| place.cluster == "more"));
}

#[test]
fn plans_that_would_put_two_slots_into_one_table_are_refused() {
    let old = program(
        "rule r version 1; field id: i64; dimension s 0 to 3; else (id % 4); place table \"t{s % 4}\";",
    );
    let key = [(0, crate::Literal::I64(7))];
    let error = isolate(&old, &key, 1, &target("")).unwrap_err();
    assert!(error.message.contains("share table t0"), "{error}");
    let own = Target {
        cluster: String::new(),
        table: Some(crate::Template::text("big")),
    };
    isolate(&old, &key, 1, &own).unwrap();
    let all = program(
        "rule r version 1; field id: i64; dimension s 0 to 3; else error; place table \"t{s}\";",
    );
    assert!(isolate(&all, &key, 1, &own).is_err());
}

#[test]
fn r18_rules_without_a_usual_slot_are_evened_out_and_it_is_said_why_not_more() {
    let rules = [
        "when id >= 0 then (id % 4); else error;",
        "when id >= 0 then (id % 4); else all;",
        "script \"modulo(id, 4)\";",
    ];
    for body in rules {
        let text = format!(
            "rule r version 1; field id: i64; dimension s 0 to 3; {body} place cluster \"c{{s / 2}}\" table \"t{{s}}\";"
        );
        let rule = crate::parse(&text).unwrap();
        let old = Program::compile_with(rule, &crate::script::compile).unwrap();
        let observed = Observed { slots: vec![3; 4] };
        let beyond = Some((0, crate::Literal::I64(100)));
        let grown = grow(&old, &observed, &[target("c2")], beyond).unwrap();
        let why = grown.lacks.unwrap();
        assert!(why.contains("cannot be continued automatically"), "{why}");
        let [plan] = grown.plans.as_slice() else {
            panic!("{:?}", grown.plans)
        };
        assert_eq!((plan.load_moved, plan.slots_moved.len()), (3, 1), "{body}");
        let beyond = Some((0, crate::Literal::U64(100)));
        grow(&old, &observed, &[target("c2")], beyond).unwrap_err();
        // A slot moves by the map alone, too.
        move_slots(&old, &observed, &[1], &target("c2")).unwrap();
        split(&old, &observed, 1, &target("c2")).unwrap_err();
    }
}

/// R1, R2 and R45 by rules: chunks of an ordered field are split and merged as versions, and nothing but the chunk is touched.
#[test]
fn r2_chunks_are_split_and_merged_as_versions() {
    let chunks = |version: u64, bounds: &str| {
        program(&format!(
            "rule c version {version}; field id: i64; dimension c 0 to 3; ranges chunk: i64 {{ 0, {bounds} }}; \
             else (chunk(id)); place table \"t{{c}}\";"
        ))
    };
    let before = chunks(1, "100 => 1, 200 => 2");
    let split = chunks(2, "100 => 1, 150 => 3, 200 => 2");
    let merged = chunks(3, "100 => 1, 150 => 3");
    for (old, new, moving, from, to) in [
        (&before, &split, 150..200, "t1", "t3"),
        (&split, &merged, 200..300, "t2", "t3"),
    ] {
        let both = Both::new(Arc::clone(old), Arc::clone(new)).unwrap();
        for id in -50..300 {
            let expected = moving.contains(&id).then_some((from, to));
            let found = match both.route(&[Value::I64(id)]).unwrap() {
                Route::Stays(_) => None,
                Route::Moves { from, to } => Some((
                    both.place(from).table.as_str(),
                    both.place(to).table.as_str(),
                )),
            };
            assert_eq!(found, expected, "{id}");
        }
        // Known without looking at rows: queries beside the chunk go on.
        for (condition, touches) in [
            (format!("id < {}", moving.start), false),
            (format!("id between 0 and {}", moving.start), true),
            (
                format!("id >= {} and id < {}", moving.start + 7, moving.end),
                true,
            ),
            ("id between 100 and 149".to_owned(), false),
        ] {
            let predicate = Predicate::parse(old.rule(), &condition, None).unwrap();
            let found = moves(&both, &predicate, 1_000);
            let expected = if touches { Moves::Some } else { Moves::None };
            assert_eq!(found, expected, "{condition}");
        }
    }
}
