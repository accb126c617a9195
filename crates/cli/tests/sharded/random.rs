//! A sharded table under random rules equals one plain table in every answer.

use cadastre_client::{delete_cell, first_key_only_filter, sharded::census};
use cadastre_sharding::versions::Both;
use cadastre_sharding::{Filter, Predicate, Value};
use cadastre_types::{
    CellType, CompareOp, Condition, FamilyDescriptor, MutationKind, Scan, TableDescriptor,
    TimeRange,
};

use super::*;

/// Rules; each has its tables made and dropped.
const CASES: u64 = 8;

/// Operations on each.
const OPERATIONS: usize = 150;

/// Scans of each, with random ranges, conditions, limits, orders and directions.
const SCANS: usize = 40;

/// splitmix64: the same on each run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }
}

/// A random number made of the fields, so small that nothing overflows.
fn number(dice: &mut Dice, depth: u32) -> String {
    let kind = dice.below(if depth == 0 { 4 } else { 14 });
    let small = 1 + dice.below(6);
    let mut inner = || number(dice, depth.saturating_sub(1));
    match kind {
        0 | 1 => "user".to_owned(),
        2 => "length(tag)".to_owned(),
        3 => small.to_string(),
        4 => format!("({} + {})", inner(), inner()),
        5 => format!("({} - {})", inner(), inner()),
        6 => format!("({} * {small})", inner()),
        7 => format!("({} / {small})", inner()),
        8 => format!("({} % {small})", inner()),
        9 => format!("abs({})", inner()),
        10 => format!("min({}, {})", inner(), inner()),
        11 => format!("to_i64(xxh3({}) % {small})", inner()),
        12 => format!("to_i64(jump(xxh3(tag), {small}))"),
        _ => {
            let (then, otherwise) = (inner(), inner());
            let condition = choice(dice, depth - 1);
            format!("(if {condition} then {then} else {otherwise})")
        }
    }
}

/// A random condition of a rule.
fn choice(dice: &mut Dice, depth: u32) -> String {
    let sign = dice.pick(&["<", "<=", "==", "!=", ">", ">="]);
    let (a, b) = (dice.below(20), dice.below(20));
    match dice.below(if depth == 0 { 3 } else { 7 }) {
        0 => format!("user {sign} {a}"),
        1 => format!("tag {sign} '{}'", dice.pick(&["", "a", "ab", "b"])),
        2 => format!("user in [{a}, {b}, 3]"),
        3 => format!(
            "({} and {})",
            choice(dice, depth - 1),
            choice(dice, depth - 1)
        ),
        4 => format!(
            "({} or {})",
            choice(dice, depth - 1),
            choice(dice, depth - 1)
        ),
        5 => format!("not ({})", choice(dice, depth - 1)),
        _ => format!("{} {sign} {a}", number(dice, depth - 1)),
    }
}

/// A decision of random alternatives over `n` slots of the first dimension and two of the second.
fn decision(dice: &mut Dice, n: u64) -> String {
    /// Deep enough that everything stands inside everything.
    const DEPTH: u32 = 3;
    let slot = |dice: &mut Dice| {
        let (first, second) = (number(dice, DEPTH), number(dice, 1));
        format!("({first} % {n}, {second} % 2)")
    };
    let mut text = String::new();
    for _ in 0..dice.below(4) {
        let condition = choice(dice, DEPTH);
        text.push_str(&format!("when {condition} then {}; ", slot(dice)));
    }
    text.push_str(&format!("else {};", slot(dice)));
    text
}

fn rule(dice: &mut Dice, case: u64) -> String {
    let key = dice.pick(&[
        "fixed user, rest tag",
        "reversed user, rest tag",
        "decimal user \"|\", rest tag",
        "until tag \"|\", fixed user",
        "fixed user, until tag \"|\"",
    ]);
    let n = 2 + dice.below(4);
    let (a, b) = (dice.below(10), 1 + dice.below(9));
    let forms = [
        format!("else (user % {n}, M);"),
        format!("else (xxh3(user) % {n}, M);"),
        format!("else (xxh3(tag) % {n}, M);"),
        format!("else (length(tag) % {n}, M);"),
        format!("else (jump(xxh3(user), {n}), M);"),
        format!(
            "when user in [{a}, 3, 7] then ({}, 0); else (user / {b} % {n}, M);",
            n - 1
        ),
        format!(
            "ranges chunk: i64 {{ 0, {a} => 1, {} => 0, {} => 1 }}; else (chunk(user), M);",
            a + b,
            a + 2 * b
        ),
        format!(
            "ranges chunk: i64 {{ 0, {a} => 1, {} => {} }}; else (chunk(user), 0);",
            a + b,
            n - 1
        ),
        "ring nodes { 0, 1 weight 2 } virtual 7 seed 3; else (nodes(xxh3(tag)), M);".to_owned(),
        format!(
            "when tag >= 'b' and user > {a} then (0, 1); else (min(user, {}) % {n}, M);",
            a + b
        ),
    ];
    let form = &forms[dice.below(forms.len() as u64) as usize];
    let form = form.replace('M', dice.pick(&["0", "user % 2", "length(tag) % 2"]));
    // Every other rule is one that nobody thought of.
    let form = match case % 2 {
        0 => form,
        _ => decision(dice, n),
    };
    let places = dice.pick(&["r{n}_{m}", "r{n}_0", "r{n % 2}_{m}"]);
    let places = places.replace('r', &format!("case{case}_"));
    format!(
        "rule logical{case} version 1; field user: i64; field tag: string; key {key}; dimension n 0 to 5; dimension m 0 to 1; \
         {form} place table \"{places}\";"
    )
}

/// A row of the rule: its key and fields.
fn row(dice: &mut Dice, program: &Program) -> Bytes {
    let user = dice.below(26) as i64 - 5;
    let tag = dice.pick(&["", "a", "ab", "b", "ba", "c"]);
    let mut key = Vec::new();
    let schema = program.rule().key.as_ref().unwrap();
    let fields = [Value::I64(user), Value::Str(tag)];
    schema.write(&fields, &mut key).unwrap();
    key.into()
}

fn condition(dice: &mut Dice) -> String {
    let (a, b) = (dice.below(22) as i64 - 5, dice.below(8));
    let tag = dice.pick(&["a", "ab", "b", "c"]);
    let terms = [
        "true".to_owned(),
        format!("user = {a}"),
        format!("user between {a} and {}", a + b as i64),
        format!("user in ({a}, {b}, 3)"),
        format!("user > {a} and tag = '{tag}'"),
        format!("tag like '{tag}%' or user = {b}"),
        format!("not (user < {a})"),
        format!("user % 3 = {}", b % 3),
        format!("tag >= '{tag}' and user <= {a}"),
    ];
    terms[dice.below(terms.len() as u64) as usize].clone()
}

/// Cells without the times that servers gave.
fn told(row: &Row) -> Vec<(Bytes, Bytes, Bytes)> {
    let cells = row.cells.iter();
    cells
        .map(|it| (it.row.clone(), it.qualifier.clone(), it.value.clone()))
        .collect()
}

struct Case {
    sharded: ShardedTable<RealEnv>,
    client: Client<RealEnv>,
    plain: TableName,
    program: Arc<Program>,
    text: String,
}

impl Case {
    /// One change of both, which must answer the same.
    async fn operate(&self, dice: &mut Dice, time: i64) {
        let row = row(dice, &self.program);
        let value = bytes(&format!("v{time}"));
        let cell = |qualifier: &str| {
            Cell::put(
                row.clone(),
                bytes("f"),
                bytes(qualifier),
                time,
                value.clone(),
            )
        };
        let put = cadastre_types::Mutation {
            cells: vec![cell("q"), cell("r")],
            ..cadastre_client::new_mutation(MutationKind::Put, row.clone())
        };
        let column = || (bytes("f"), bytes("n"));
        let what = dice.below(10);
        let about = || format!("{what} of {row:?}\n{}", self.text);
        match what {
            0 => {
                let done = self.sharded.delete(row.clone(), Vec::new()).await;
                done.unwrap();
                self.client
                    .delete(&self.plain, row.clone(), Vec::new())
                    .await
                    .unwrap();
            }
            1 => {
                let ((f, q), (g, r)) = (column(), column());
                let a = self.sharded.increment(row.clone(), f, q, 3).await.unwrap();
                let b = self
                    .client
                    .increment(&self.plain, row.clone(), g, r, 3)
                    .await;
                assert_eq!(a, b.unwrap(), "{}", about());
            }
            2 => {
                let (f, q) = (bytes("f"), bytes("l"));
                let more = bytes("x");
                let a = self
                    .sharded
                    .append(row.clone(), f.clone(), q.clone(), more.clone())
                    .await;
                let b = self
                    .client
                    .append(&self.plain, row.clone(), f, q, more)
                    .await;
                assert_eq!(a.unwrap(), b.unwrap(), "{}", about());
            }
            3 => {
                let condition = Condition {
                    row: row.clone(),
                    family: bytes("f"),
                    qualifier: bytes("q"),
                    op: CompareOp::Equal,
                    comparator: Some(cadastre_types::EncodedFilter {
                        class: "org.apache.hadoop.hbase.filter.NullComparator".to_owned(),
                        body: Bytes::new(),
                    }),
                    filter: None,
                    time_range: TimeRange::ALL,
                    query_metrics: false,
                };
                let a = self
                    .sharded
                    .check_and_mutate(&condition, put.clone())
                    .await
                    .unwrap();
                let b = self
                    .client
                    .check_and_mutate(&self.plain, &condition, put)
                    .await;
                assert_eq!(a.applied, b.unwrap().applied, "{}", about());
            }
            4 => self.batch(dice, put, time).await,
            5 => {
                let marker = self.marker(dice, &row, time);
                let markers = vec![marker];
                let done = self.sharded.delete(row.clone(), markers.clone()).await;
                done.unwrap();
                let done = self.client.delete(&self.plain, row.clone(), markers).await;
                done.unwrap();
            }
            6 => {
                let delete = cadastre_types::Mutation {
                    cells: vec![self.marker(dice, &row, time - 1)],
                    ..cadastre_client::new_mutation(MutationKind::Delete, row.clone())
                };
                let both = vec![put, delete];
                let a = self.sharded.mutate_row(None, both.clone()).await;
                let b = self.client.mutate_row(&self.plain, None, both).await;
                assert_eq!(a.unwrap().applied, b.unwrap().applied, "{}", about());
            }
            _ => {
                self.sharded.mutate(put.clone()).await.unwrap();
                self.client.mutate(&self.plain, put).await.unwrap();
            }
        }
        let get = new_get(row.clone());
        let a = self.sharded.get(&get).await.unwrap();
        let b = self.client.get(&self.plain, &get).await.unwrap();
        assert_eq!(told(&a), told(&b), "{}", about());
        assert_eq!(self.sharded.exists(&get).await.unwrap(), !b.is_empty());
    }

    /// A delete marker of any kind, at a time about that of the puts.
    fn marker(&self, dice: &mut Dice, row: &Bytes, time: i64) -> Cell {
        let (kind, qualifier) = match dice.below(4) {
            0 => (CellType::Delete, bytes(dice.pick(&["q", "r"]))),
            1 => (CellType::DeleteColumn, bytes(dice.pick(&["q", "r", "n"]))),
            2 => (CellType::DeleteFamilyVersion, Bytes::new()),
            _ => (CellType::DeleteFamily, Bytes::new()),
        };
        let at = time - dice.below(3) as i64;
        delete_cell(row.clone(), bytes("f"), qualifier, at.max(1), kind)
    }

    /// A batch of changes and gets: of the row of the put, of a counter elsewhere, and of others.
    async fn batch(&self, dice: &mut Dice, put: cadastre_types::Mutation, time: i64) {
        let row = put.row.clone();
        let get = new_get(row.clone());
        let before = told(&self.client.get(&self.plain, &get).await.unwrap());
        let other = std::iter::repeat_with(|| self::row(dice, &self.program));
        let other = other.take(100).find(|it| *it != row).unwrap();
        let add = Cell::put(
            other.clone(),
            bytes("f"),
            bytes("n"),
            LATEST_TIMESTAMP,
            bytes("\0\0\0\0\0\0\0\x05"),
        );
        let increment = cadastre_types::Mutation {
            cells: vec![add],
            ..cadastre_client::new_mutation(MutationKind::Increment, other.clone())
        };
        let mut actions = vec![
            Action::Mutate(put),
            Action::Get(get.clone()),
            Action::Mutate(increment),
        ];
        for _ in 0..5 {
            let row = self::row(dice, &self.program);
            if row != other {
                actions.push(Action::Get(new_get(row)));
            }
        }
        let a = self.sharded.batch(actions.clone()).await;
        let b = self.client.batch(&self.plain, actions.clone()).await;
        assert_eq!((a.len(), b.len()), (actions.len(), actions.len()));
        let after = told(&self.client.get(&self.plain, &get).await.unwrap());
        for ((action, a), b) in actions.iter().zip(&a).zip(&b) {
            let (a, b) = (told(a.as_ref().unwrap()), told(b.as_ref().unwrap()));
            let about = format!("{action:?} at {time}\n{}", self.text);
            if matches!(action, Action::Get(it) if it.row == row) {
                // Beside a put of its row a get may come before it or behind it.
                assert!(a == before || a == after, "{a:?} {about}");
                assert!(b == before || b == after, "{b:?} {about}");
            } else {
                assert_eq!(a, b, "{about}");
            }
        }
    }

    /// One scan of both; the plain table's is tested by the condition here.
    async fn scan(&self, dice: &mut Dice) {
        let mut ends = [row(dice, &self.program), row(dice, &self.program)];
        ends.sort();
        let reversed = dice.below(2) == 1;
        if reversed {
            ends.reverse();
        }
        let [start, stop] = ends;
        let open = |dice: &mut Dice, row| match dice.below(2) {
            0 => Bytes::new(),
            _ => row,
        };
        let scan = Scan {
            start_row: open(dice, start),
            stop_row: open(dice, stop),
            include_start_row: dice.below(3) > 0,
            include_stop_row: dice.below(2) > 0,
            reversed,
            filter: (dice.below(3) == 0).then(first_key_only_filter),
            ..new_scan()
        };
        let condition = condition(dice);
        let limit = (dice.below(2) == 0).then(|| dice.below(9));
        let rule = self.program.rule();
        let predicate = Predicate::parse(rule, &condition, None).unwrap();
        let filter = Filter::new(rule, &predicate).unwrap();
        let meets = |row: &Row| {
            let mut fields = [Value::Null; 2];
            let key = row.key().unwrap();
            let schema = rule.key.as_ref().unwrap();
            schema.read(self.program.types(), key, &mut fields).unwrap();
            filter.matches(&fields).unwrap()
        };
        let mut expected = Vec::new();
        let mut scanner = self.client.scan(&self.plain, scan.clone()).unwrap();
        while let Some(row) = scanner.next().await.unwrap() {
            if meets(&row) && limit.is_none_or(|limit| (expected.len() as u64) < limit) {
                expected.push(told(&row));
            }
        }
        for order in [Order::Row, Order::Rule] {
            let of = ScanOf {
                scan: scan.clone(),
                condition: Some(condition.clone()),
                limit,
                order,
            };
            let mut scanner = self.sharded.scan(of).await.unwrap();
            let mut found = Vec::new();
            while let Some(row) = scanner.next().await.unwrap() {
                found.push(told(&row));
            }
            let about = format!("{condition} {scan:?} {limit:?}\n{}", self.text);
            match (order, limit) {
                (Order::Row, _) => assert_eq!(found, expected, "{about}"),
                (Order::Rule, None) => {
                    let (mut a, mut b) = (found, expected.clone());
                    a.sort();
                    b.sort();
                    assert_eq!(a, b, "{about}");
                }
                (Order::Rule, Some(_)) => assert_eq!(found.len(), expected.len(), "{about}"),
            }
        }
    }
}

#[test]
fn a_sharded_table_under_random_rules_equals_one_plain_table_in_every_answer() {
    let workshop = Workshop::start();
    let client = workshop.client();
    let cases = std::env::var("CADASTRE_SHARDED_CASES").ok();
    let cases = cases.and_then(|it| it.parse().ok()).unwrap_or(CASES);
    workshop.block_on(async move {
        for case in 0..cases {
            one_case(&client, case).await;
        }
    });
}

async fn one_case(client: &Client<RealEnv>, case: u64) {
    let mut dice = Dice(case);
    let text = rule(&mut dice, case);
    let program = Arc::new(Program::parse(&text).unwrap_or_else(|fault| panic!("{fault}\n{text}")));
    let clusters = BTreeMap::from([(String::new(), client.clone())]);
    let sharded = ShardedTable::fixed(
        Arc::clone(&program),
        clusters.clone(),
        ShardedOptions::default(),
    );
    let plain = TableName::parse(&format!("plain{case}")).unwrap();
    let like = TableDescriptor::new(plain.clone()).with_family(FamilyDescriptor::new(bytes("f")));
    let case = Case {
        sharded: sharded.unwrap(),
        client: client.clone(),
        plain,
        program,
        text,
    };
    client
        .admin()
        .create_table(&like, Vec::new())
        .await
        .unwrap();
    let made = case
        .sharded
        .create_tables(&like, &[], |_| {})
        .await
        .unwrap();
    assert_eq!(made.done, case.program.map().places().len());
    for time in 1..=OPERATIONS {
        case.operate(&mut dice, time as i64).await;
    }
    for _ in 0..SCANS {
        case.scan(&mut dice).await;
    }
    // What a walk counts is what is there, and by the same rule nothing moves.
    let mut rows = 0;
    let mut scanner = client.scan(&case.plain, new_scan()).unwrap();
    while scanner.next().await.unwrap().is_some() {
        rows += 1;
    }
    let both = Both::new(Arc::clone(&case.program), Arc::clone(&case.program)).unwrap();
    let counted = census(&clusters, &both, false, |_| {}).await.unwrap();
    assert_eq!(
        (
            counted.diff.stays().rows,
            counted.diff.moves().rows,
            counted.strays
        ),
        (rows, 0, 0)
    );
    case.sharded.drop_tables(|_| {}).await.unwrap();
    client.admin().disable_table(&case.plain).await.unwrap();
    client.admin().delete_table(&case.plain).await.unwrap();
}
