//! Proposals for the next version (R14 to R18, R36): each is a whole rule that a person looks at, compares with `diff` and
//! publishes, or not. Nothing is ever applied from here. The first proposal for growth moves nothing.

use std::collections::BTreeMap;

use crate::{
    Comparison, Literal, Options, PlaceLine, Predicate, Program, Rule, RuleError, Slot, Template,
    Type, enumerate,
    rule::{Binary, Body, Expr, Function, Otherwise, Statement},
};

/// A place to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The cluster; empty if there is but one.
    pub cluster: String,
    /// The table's template; none: as the rule's slots have it already.
    pub table: Option<Template>,
}

/// What was observed of every slot: bytes, rows or accesses, whichever is short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// By number of the slot.
    pub slots: Vec<u64>,
}

/// A proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What it does, in a line.
    pub title: String,
    /// Why one would, and what it costs.
    pub reason: String,
    /// The next version.
    pub rule: Rule,
    /// Slots of the version in force whose rows move, all or some of them.
    pub slots_moved: Vec<Slot>,
    /// How much of what was observed moves, at most.
    pub load_moved: u64,
}

/// Proposals for growth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposals {
    /// The one that moves nothing first, if there is one.
    pub plans: Vec<Plan>,
    /// Why none of them moves nothing; none if one does.
    pub lacks: Option<String>,
}

/// Growth: new clusters join. If a field grows with time (an id, a date), `beyond` names it and a bound above all that
/// exist: then the first proposal sends what is new to the new places and moves nothing (R15, R16). It cannot cure a hot
/// spot that is there already (R17): for that the last proposal evens out with as little movement as can be. That one
/// needs only the map, so that it is there for every rule, of scripts, too.
///
/// # Errors
/// No target, or a bound that is none of its field's type.
pub fn grow(
    program: &Program,
    observed: &Observed,
    targets: &[Target],
    beyond: Option<(u16, Literal)>,
) -> Result<Proposals, RuleError> {
    if targets.is_empty() {
        return Err(RuleError::new("growth needs at least one new place"));
    }
    let mut plans = Vec::new();
    let mut lacks = None;
    match beyond {
        None => lacks = Some("no field is known that only grows".to_owned()),
        Some((field, bound)) => {
            bounds(program.rule(), field, &bound)?;
            match new_to_new(program, targets, field, bound) {
                Ok(plan) => plans.push(plan),
                Err(fault) => lacks = Some(fault.message),
            }
        }
    }
    plans.push(even_out(program, observed, targets)?);
    Ok(Proposals { plans, lacks })
}

/// The field whose rows of one value lie together: the first that the first dimension looks at.
pub fn key_field(program: &Program) -> Option<u16> {
    let rule = program.rule();
    let slots: Vec<&Vec<Expr>> = match &rule.body {
        Body::Statements(statements, otherwise) => {
            let usual = match otherwise {
                Otherwise::Slot(slot) => Some(slot),
                Otherwise::Error | Otherwise::All => None,
            };
            let exceptions = statements.iter().filter_map(|it| match it {
                Statement::When { slot, .. } => Some(slot),
                Statement::Let { .. } => None,
            });
            usual.into_iter().chain(exceptions).collect()
        }
        Body::Script(_) => Vec::new(),
    };
    let firsts = slots.into_iter().filter_map(|it| it.first());
    firsts
        .map(|it| inlined(it, rule))
        .find_map(|it| first_field(&it))
        .or_else(|| program.used_fields().first().copied())
}

/// Whether a bound can be one of the field.
fn bounds(rule: &Rule, field: u16, bound: &Literal) -> Result<(), RuleError> {
    let declared = rule
        .fields
        .get(usize::from(field))
        .ok_or_else(|| RuleError::new(format!("there is no field {field}")))?;
    match bound.ty() == declared.ty {
        true => Ok(()),
        false => Err(RuleError::new(format!(
            "the bound is {}, field {} is {}",
            bound.ty(),
            declared.name,
            declared.ty
        ))),
    }
}

/// What is observed of each value of the first dimension: the unit in which slots move, so that the tables of one
/// database stay together.
fn by_first(program: &Program, observed: &Observed) -> Result<BTreeMap<i64, u64>, RuleError> {
    let slots = program.map().slots();
    if observed.slots.len() != slots as usize {
        return Err(RuleError::new(format!(
            "{} slots observed, the rule has {slots}",
            observed.slots.len()
        )));
    }
    let mut loads = BTreeMap::new();
    for (slot, load) in (0..slots).map(Slot).zip(&observed.slots) {
        let first = program.shape().coordinate(slot, 0);
        let sum: &mut u64 = loads.entry(first).or_default();
        *sum = sum.saturating_add(*load);
    }
    Ok(loads)
}

fn slots_of(program: &Program, first: i64) -> impl Iterator<Item = Slot> + '_ {
    let slots = (0..program.map().slots()).map(Slot);
    slots.filter(move |slot| program.shape().coordinate(*slot, 0) == first)
}

fn next_version(program: &Program) -> Rule {
    let mut rule = program.rule().clone();
    rule.version += 1;
    rule
}

/// Sends what lies at or beyond a bound to new slots; everything that exists stays where it is.
fn new_to_new(
    program: &Program,
    targets: &[Target],
    field: u16,
    bound: Literal,
) -> Result<Plan, RuleError> {
    let mut rule = next_version(program);
    let name = rule.fields[usize::from(field)].name.clone();
    let slot = base_slot(&rule)?;
    let first_new = extend(&mut rule, targets.len())?;
    let count = i64::try_from(targets.len()).unwrap_or(i64::MAX);
    let mut new_slot = slot.clone();
    new_slot[0] = spread(program, &slot[0], first_new, count)?;
    insert_before_else(
        &mut rule,
        Statement::When {
            condition: binary(
                Binary::GreaterEqual,
                Expr::Field(field),
                Expr::Literal(bound.clone()),
            ),
            slot: new_slot,
        },
    )?;
    for (at, target) in (0..count).zip(targets) {
        place(&mut rule, first_new + at, target)?;
    }
    finish(
        program,
        rule,
        format!("new rows go to {} new places", targets.len()),
        format!(
            "rows whose {name} is {bound} or beyond go to the new places, all others stay: nothing moves, as long as no row \
             lies beyond already. What is hot now stays as hot as it is."
        ),
        Vec::new(),
        0,
    )
}

/// Moves as little as can be until all clusters hold about the same.
fn even_out(program: &Program, observed: &Observed, targets: &[Target]) -> Result<Plan, RuleError> {
    let loads = by_first(program, observed)?;
    let mut clusters: BTreeMap<String, Vec<(u64, i64)>> = BTreeMap::new();
    for (first, load) in &loads {
        let Some(slot) = slots_of(program, *first).next() else {
            continue;
        };
        let cluster = program.map().place(slot).cluster.clone();
        clusters.entry(cluster).or_default().push((*load, *first));
    }
    let total: u64 = loads.values().fold(0, |sum, it| sum.saturating_add(*it));
    let fair = total / (clusters.len() + targets.len()) as u64;
    // What each new place may still take, and what each old one has too much.
    let mut wanting: Vec<(u64, usize)> = (0..targets.len()).map(|at| (fair, at)).collect();
    let mut rule = next_version(program);
    let mut moved = Vec::new();
    let mut load_moved = 0;
    for slots in clusters.values_mut() {
        let mut surplus = slots
            .iter()
            .map(|it| it.0)
            .sum::<u64>()
            .saturating_sub(fair);
        // The largest that fit first: fewest moves.
        slots.sort_by(|a, b| b.cmp(a));
        for &(load, first) in slots.iter() {
            let Some(most) = wanting.iter_mut().max_by_key(|it| it.0) else {
                break;
            };
            // It must bring the old place nearer to its fair share, and the new one not beyond.
            if load == 0 || load >= surplus.saturating_mul(2) || load > most.0 {
                continue;
            }
            surplus = surplus.saturating_sub(load);
            most.0 -= load;
            load_moved += load;
            moved.extend(slots_of(program, first));
            let target = targets[most.1].clone();
            move_line(&mut rule, program, first, &target)?;
        }
    }
    moved.sort();
    finish(
        program,
        rule,
        format!("{} slots move to {} new places", moved.len(), targets.len()),
        format!(
            "evens out: {load_moved} of {total} move, about {fair} for each of {} places in the end",
            clusters.len() + targets.len()
        ),
        moved,
        load_moved,
    )
}

/// Moves whole values of the first dimension to a place.
pub fn move_slots(
    program: &Program,
    observed: &Observed,
    first: &[i64],
    target: &Target,
) -> Result<Plan, RuleError> {
    let loads = by_first(program, observed)?;
    let mut rule = next_version(program);
    let mut moved = Vec::new();
    let mut load_moved = 0_u64;
    for &at in first {
        move_line(&mut rule, program, at, target)?;
        moved.extend(slots_of(program, at));
        load_moved = load_moved.saturating_add(loads.get(&at).copied().unwrap_or(0));
    }
    moved.sort();
    let title = match first {
        [only] => format!("slot {only} moves to {}", target.cluster),
        _ => format!("{} slots move to {}", moved.len(), target.cluster),
    };
    finish(
        program,
        rule,
        title,
        "only the map changes, so what moves is known exactly".to_owned(),
        moved,
        load_moved,
    )
}

/// The rows of one key get a slot of their own (R42: "seller 2000 goes to a special machine"): those whose fields have
/// these values. `load` is what was observed of them.
pub fn isolate(
    program: &Program,
    key: &[(u16, Literal)],
    load: u64,
    target: &Target,
) -> Result<Plan, RuleError> {
    let mut rule = next_version(program);
    let mut names = Vec::new();
    for (field, value) in key {
        bounds(&rule, *field, value)?;
        names.push(format!("{} {value}", rule.fields[usize::from(*field)].name));
    }
    let name = names.join(", ");
    let equals = |(field, value): &(u16, Literal)| {
        let value = Expr::Literal(value.clone());
        binary(Binary::Equal, Expr::Field(*field), value)
    };
    let condition = key
        .iter()
        .map(equals)
        .reduce(|all, it| binary(Binary::And, all, it))
        .ok_or_else(|| RuleError::new("a key of no field cannot be alone"))?;
    let moved = slots_of_key(program, key)?;
    let mut slot: Vec<Expr> = base_slot(&rule)?
        .iter()
        .map(|it| inlined(it, &rule))
        .collect();
    let new = extend(&mut rule, 1)?;
    slot[0] = Expr::Literal(Literal::I64(new));
    if let Body::Statements(statements, _) = &mut rule.body {
        // Before everything else, since nothing else may claim it.
        statements.insert(0, Statement::When { condition, slot });
    }
    place(&mut rule, new, target)?;
    finish(
        program,
        rule,
        format!("{name} alone"),
        format!(
            "all rows with {name} move to a slot of their own, nothing else does: only these rows of the slots that hold them"
        ),
        moved,
        load,
    )
}

/// The slots of the version in force that can hold rows of a key.
fn slots_of_key(program: &Program, key: &[(u16, Literal)]) -> Result<Vec<Slot>, RuleError> {
    let equals = key
        .iter()
        .map(|(field, value)| Predicate::Compare(*field, Comparison::Equal, value.clone()));
    // Under the policy `allow` nothing is refused.
    enumerate(
        program,
        &Predicate::And(equals.collect()),
        Options::default(),
    )
    .map(|it| it.slots)
    .map_err(|refused| RuleError::new(refused.to_string()))
}

/// Half of the rows of a slot go to a new one, by another hash than the rule's own.
pub fn split(
    program: &Program,
    observed: &Observed,
    first: i64,
    target: &Target,
) -> Result<Plan, RuleError> {
    let loads = by_first(program, observed)?;
    let mut rule = next_version(program);
    let slot = base_slot(&rule)?;
    let field = first_field(&inlined(&slot[0], &rule))
        .ok_or_else(|| RuleError::new("the slot does not depend on a field"))?;
    let ty = type_of_slot(program, &slot[0])?;
    let new = extend(&mut rule, 1)?;
    // The rule may hash the same field; the version as a seed makes the halves independent of it.
    let seed = Expr::Literal(Literal::U64(rule.version));
    let hash = Expr::Call(Function::Xxh3, vec![Expr::Field(field), seed]);
    let odd = binary(
        Binary::Equal,
        binary(Binary::Modulo, hash, Expr::Literal(Literal::U64(2))),
        Expr::Literal(Literal::U64(1)),
    );
    let here = binary(
        Binary::Equal,
        slot[0].clone(),
        Expr::Literal(integer(first, ty)?),
    );
    let mut new_slot = slot.clone();
    new_slot[0] = Expr::Literal(Literal::I64(new));
    insert_before_else(
        &mut rule,
        Statement::When {
            condition: binary(Binary::And, here, odd),
            slot: new_slot,
        },
    )?;
    place(&mut rule, new, target)?;
    let load = loads.get(&first).copied().unwrap_or(0);
    let moved = slots_of(program, first).collect();
    finish(
        program,
        rule,
        format!("slot {first} is split"),
        format!(
            "about half of the rows of slot {first} move to slot {new}; a single hot key does not get cooler by it"
        ),
        moved,
        load / 2,
    )
}

/// The slot of what no exception claims.
fn base_slot(rule: &Rule) -> Result<Vec<Expr>, RuleError> {
    match &rule.body {
        Body::Statements(_, Otherwise::Slot(slot)) => Ok(slot.clone()),
        _ => Err(RuleError::new(
            "a rule that ends in `else error`, `else all` or a script cannot be continued automatically",
        )),
    }
}

/// Adds values at the end of the first dimension; the first of them.
fn extend(rule: &mut Rule, by: usize) -> Result<i64, RuleError> {
    let by = i64::try_from(by).unwrap_or(i64::MAX);
    let dimension = rule
        .dimensions
        .first_mut()
        .ok_or_else(|| RuleError::new("the rule has no dimension"))?;
    let first_new = dimension.last.checked_add(1);
    let last = dimension.last.checked_add(by);
    let (Some(first_new), Some(last)) = (first_new, last) else {
        return Err(RuleError::new("the first dimension cannot grow"));
    };
    dimension.last = last;
    Ok(first_new)
}

fn binary(operator: Binary, a: Expr, b: Expr) -> Expr {
    Expr::Binary(operator, Box::new(a), Box::new(b))
}

fn integer(value: i64, ty: Type) -> Result<Literal, RuleError> {
    match ty {
        Type::U64 => u64::try_from(value)
            .map(Literal::U64)
            .map_err(|_| RuleError::new("a negative slot of an unsigned expression")),
        _ => Ok(Literal::I64(value)),
    }
}

fn type_of_slot(program: &Program, expr: &Expr) -> Result<Type, RuleError> {
    let scope = crate::rule::check(program.rule())?;
    Ok(scope.type_of(expr)?)
}

/// `first + expr % count`, in the expression's type.
fn spread(program: &Program, expr: &Expr, first: i64, count: i64) -> Result<Expr, RuleError> {
    let ty = type_of_slot(program, expr)?;
    let modulo = binary(
        Binary::Modulo,
        expr.clone(),
        Expr::Literal(integer(count, ty)?),
    );
    Ok(binary(
        Binary::Add,
        modulo,
        Expr::Literal(integer(first, ty)?),
    ))
}

fn insert_before_else(rule: &mut Rule, statement: Statement) -> Result<(), RuleError> {
    match &mut rule.body {
        Body::Statements(statements, _) => {
            statements.push(statement);
            Ok(())
        }
        Body::Script(_) => Err(RuleError::new("a script cannot be changed automatically")),
    }
}

/// The expression with every let in its place.
fn inlined(expr: &Expr, rule: &Rule) -> Expr {
    let lets: Vec<&Expr> = match &rule.body {
        Body::Statements(statements, _) => statements
            .iter()
            .filter_map(|it| match it {
                Statement::Let { value, .. } => Some(value),
                Statement::When { .. } => None,
            })
            .collect(),
        Body::Script(_) => Vec::new(),
    };
    inline(expr, &lets)
}

fn inline(expr: &Expr, lets: &[&Expr]) -> Expr {
    if let Expr::Local(at) = expr
        && let Some(value) = lets.get(usize::from(*at))
    {
        // Lets name earlier ones only, so this ends.
        return inline(value, &lets[..usize::from(*at)]);
    }
    let children = expr
        .children()
        .into_iter()
        .map(|it| inline(it, lets))
        .collect();
    expr.with_children(children).unwrap_or_else(|| expr.clone())
}

fn first_field(expr: &Expr) -> Option<u16> {
    match expr {
        Expr::Field(at) => Some(*at),
        other => other.children().into_iter().find_map(first_field),
    }
}

/// Spans of one value of the first dimension and all of the others.
fn only(rule: &Rule, first: i64) -> Vec<Option<(i64, i64)>> {
    let mut slots = vec![None; rule.dimensions.len()];
    slots[0] = Some((first, first));
    slots
}

/// The table of slots that no line of its own names.
fn usual_table(rule: &Rule) -> Result<Template, RuleError> {
    let usual = rule.places.iter().find(|it| it.slots.is_empty());
    let line = usual.or(rule.places.first());
    line.map(|it| it.table.clone())
        .ok_or_else(|| RuleError::new("the rule has no places"))
}

/// Where a new slot lives.
fn place(rule: &mut Rule, first: i64, target: &Target) -> Result<(), RuleError> {
    let table = match &target.table {
        Some(table) => table.clone(),
        None => usual_table(rule)?,
    };
    rule.places.push(PlaceLine {
        slots: only(rule, first),
        cluster: cluster(&target.cluster),
        table,
    });
    Ok(())
}

fn cluster(name: &str) -> Template {
    match name {
        "" => Template::default(),
        name => Template::text(name),
    }
}

/// A line that moves one value of the first dimension, its tables' names unchanged unless the target says otherwise.
fn move_line(
    rule: &mut Rule,
    program: &Program,
    first: i64,
    target: &Target,
) -> Result<(), RuleError> {
    let slot = slots_of(program, first)
        .next()
        .ok_or_else(|| RuleError::new(format!("there is no slot {first}")))?;
    let coordinates = program.shape().coordinates(slot);
    let lines = program.rule().places.iter().rev();
    let line = lines.clone().find(|it| it.matches(&coordinates));
    let table = match (&target.table, line) {
        (Some(table), _) => table.clone(),
        (None, Some(line)) => line.table.clone(),
        (None, None) => return Err(RuleError::new(format!("slot {first} has no place"))),
    };
    rule.places.push(PlaceLine {
        slots: only(rule, first),
        cluster: cluster(&target.cluster),
        table,
    });
    Ok(())
}

/// Checks that the proposal is a rule, and that new slots do not share a place with old ones.
fn finish(
    program: &Program,
    rule: Rule,
    title: String,
    reason: String,
    slots_moved: Vec<Slot>,
    load_moved: u64,
) -> Result<Plan, RuleError> {
    let new = Program::compile_with(rule.clone(), &crate::script::compile)?;
    let old_last = program.rule().dimensions[0].last;
    let is_new = |slot: &Slot| new.shape().coordinate(*slot, 0) > old_last;
    let slots = || (0..new.map().slots()).map(Slot);
    let shared = slots().filter(is_new).find_map(|slot| {
        let place = new.map().place(slot);
        let other = slots()
            .filter(|it| !is_new(it))
            .find(|it| new.map().place(*it) == place);
        other.map(|_| place.table.clone())
    });
    if let Some(table) = shared {
        return Err(RuleError::new(format!(
            "a new slot would share table {table} with an old one: give the new place a table of its own"
        )));
    }
    Ok(Plan {
        title,
        reason,
        rule,
        slots_moved,
        load_moved,
    })
}
