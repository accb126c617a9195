//! The commands as people call them, on files of their own.

use std::path::PathBuf;

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: RuleCommand,
}

/// A folder with the rules and records of all tests.
struct Files(tempfile::TempDir);

const FOUR: &str = "rule orders version 1; field user_id: i64; field name: string; dimension shard 0 to 3; else (user_id % 4);
                    place table \"orders_{shard}\";";
const SIX: &str = "rule orders version 2; field user_id: i64; field name: string; dimension shard 0 to 5; else (user_id % 6);
                   place table \"orders_{shard}\";";
const MOVED: &str = "rule orders version 2; field user_id: i64; field name: string; dimension shard 0 to 3; else (user_id % 4);
                     place table \"orders_{shard}\"; place (3) cluster \"c2\" table \"orders_3\";";
const SCRIPT: &str =
    "rule s version 1; field user_id: i64; dimension shard 0 to 3; script \"modulo(user_id, 4)\";
                      place table \"orders_{shard}\";";

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.write("four.rule", FOUR);
        files.write("six.rule", SIX);
        files.write("moved.rule", MOVED);
        files.write("script.rule", SCRIPT);
        let rows: String = (0..12)
            .map(|id| format!("{id},n{id},{}\n", id + 1))
            .collect();
        files.write("orders.csv", &format!("user_id,name,size\n{rows}"));
        files.write(
            "orders.jsonl",
            "{\"user_id\": 5, \"name\": \"a\"}\n\n{\"user_id\": \"-1\", \"name\": null}\n",
        );
        files
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a command line whose words that begin with `@` are files of this folder; gives the exit code and the output,
    /// or the code and the message.
    fn run(&self, line: &str) -> (u8, String) {
        let words = line.split(' ').map(|word| match word.strip_prefix('@') {
            Some(name) => self.path(name).display().to_string(),
            None => word.replace('~', " "),
        });
        let cli = Cli::try_parse_from(std::iter::once("rule".to_owned()).chain(words)).unwrap();
        let mut out = Vec::new();
        match execute(cli.command, &mut out) {
            Ok(code) => (code, String::from_utf8(out).unwrap()),
            Err(stop) => (stop.code, stop.message),
        }
    }
}

#[test]
fn check_finds_what_is_wrong() {
    let files = Files::new();
    let (code, text) = files.run("check @four.rule");
    assert_eq!(code, exit::DONE);
    assert!(
        text.starts_with("orders version 1: 4 slots in 4 places, hash "),
        "{text}"
    );
    assert!(
        text.contains("note [unused-field]: the field name decides nothing"),
        "{text}"
    );
    files.write("bad.rule", "rule x version 1; field d: timestamp; dimension n 0 to 30; else (day(d)); place table \"t_{n}\";");
    let (code, text) = files.run("check @bad.rule --json");
    assert_eq!(code, exit::FOUND);
    assert!(
        text.contains("\"kind\":\"zone-missing\"")
            && text.contains("\"kind\":\"outside-dimension\""),
        "{text}"
    );
    files.write("none.rule", "rule x version 1;\nfield d: nothing;");
    let (code, message) = files.run("check @none.rule");
    assert_eq!(code, exit::FOUND);
    assert!(message.contains("line 2, column 10"), "{message}");
    assert_eq!(files.run("check @missing.rule").0, exit::USAGE);
    // All samples in one place.
    let rows: String = (0..100).map(|id| format!("{},7\n", id * 4)).collect();
    files.write("skew.csv", &format!("user_id,name\n{rows}"));
    let (code, text) = files.run("check @four.rule @skew.csv");
    assert_eq!(code, exit::FOUND);
    assert!(
        text.contains("[skew]: the samples are uneven: heaviest 4.00 of the mean"),
        "{text}"
    );
    // Numbers that are hashed as texts, and a record without a place.
    files.write("hash.rule", "rule x version 1; field name: string; dimension n 0 to 3; else (xxh3(name) % 4); place table \"t_{n}\";");
    files.write("names.csv", "name\n7\n007\n");
    let (code, text) = files.run("check @hash.rule @names.csv");
    assert_eq!(code, exit::FOUND);
    assert!(
        text.contains("warning [hash-of-numeric-text]: name is hashed as text"),
        "{text}"
    );
    files.write("nulls.csv", "user_id,name\n,x\n");
    let (_, text) = files.run("check @four.rule @nulls.csv");
    assert!(
        text.contains("error [sample-refused]: 1 samples have no place"),
        "{text}"
    );
}

#[test]
fn explain_and_eval_place_records() {
    let files = Files::new();
    let (code, text) = files.run("explain @four.rule user_id=7");
    assert_eq!(code, exit::DONE);
    assert!(text.ends_with("slot (3) at orders_3\n"), "{text}");
    let (code, text) = files.run("explain @four.rule name=x --json");
    assert_eq!(code, exit::FOUND);
    assert!(text.contains("\"error\":\"user_id is null\""), "{text}");
    assert_eq!(files.run("explain @four.rule user=7").0, exit::USAGE);
    assert_eq!(files.run("explain @four.rule user_id=x").0, exit::USAGE);
    let (code, text) = files.run("eval @four.rule @orders.csv");
    assert_eq!(code, exit::DONE);
    assert_eq!(text.lines().nth(2), Some("1\tn1\t(1)\torders_1"));
    let (code, text) = files.run("eval @four.rule @orders.jsonl --json");
    assert_eq!(code, exit::DONE);
    assert!(text.contains("{\"cluster\":\"\",\"fields\":{\"name\":null,\"user_id\":-1},\"slot\":[3],\"table\":\"orders_3\"}"), "{text}");
    files.write("bad.csv", "user_id,name\n1,a\nx,b\n");
    let (code, message) = files.run("eval @four.rule @bad.csv");
    assert_eq!(code, exit::USAGE);
    assert!(message.contains("line 3: 'x' is no i64"), "{message}");
    files.write("none.csv", "id,name\n1,a\n");
    assert!(
        files
            .run("eval @four.rule @none.csv")
            .1
            .contains("names no column 'user_id'")
    );
    files.write("null.csv", "user_id,name\n,a\n");
    let (code, text) = files.run("eval @four.rule @null.csv");
    assert_eq!(
        (code, text.lines().nth(1)),
        (exit::FOUND, Some("null\ta\t-\tuser_id is null"))
    );
}

#[test]
fn enumerate_finds_the_few_places() {
    let files = Files::new();
    let (code, text) = files.run("enumerate @four.rule user_id~in~(1,~5,~2)");
    assert_eq!(
        (code, text.as_str()),
        (
            exit::DONE,
            "orders_1\norders_2\n2 of 4 places, 2 of 4 slots, exact\n"
        )
    );
    let (code, text) = files.run("enumerate @four.rule user_id~=~3 --json");
    assert_eq!(code, exit::DONE);
    assert!(
        text.contains("\"exact\":true") && text.contains("orders_3"),
        "{text}"
    );
    let (code, message) = files.run("enumerate @script.rule user_id~>~3 --unbounded refuse");
    assert_eq!(code, exit::FOUND, "{message}");
    assert_eq!(files.run("enumerate @four.rule user_id~=").0, exit::USAGE);
}

#[test]
fn diff_tells_what_moves() {
    let files = Files::new();
    let (code, text) = files.run("diff @four.rule @moved.rule");
    assert_eq!(code, exit::DONE);
    assert!(
        text.starts_with("only places differ: 1 of 4 slots move\n"),
        "{text}"
    );
    let (code, text) = files.run("diff @four.rule @six.rule @orders.csv --bytes size");
    assert_eq!(code, exit::DONE);
    // Of 0 to 11, 0 to 3 stay; they have the sizes 1 to 4 of 1 to 12.
    assert!(
        text.starts_with(
            "orders version 1 to orders version 2: 8 of 12 rows move (66.67 %), 68 bytes\n"
        ),
        "{text}"
    );
    let (code, text) = files.run("diff @four.rule @six.rule @orders.csv --json");
    assert_eq!(code, exit::DONE);
    assert!(text.contains("\"from\":\"orders_0\""), "{text}");
    assert_eq!(files.run("diff @four.rule @six.rule").0, exit::USAGE);
    assert_eq!(
        files.run("diff @four.rule @script.rule @orders.csv").0,
        exit::FOUND
    );
}

#[test]
fn simulate_shows_load_and_draws_it() {
    let files = Files::new();
    let svg = files.path("load.svg");
    let (code, text) = files.run("simulate @four.rule @orders.csv --new @six.rule --svg @load.svg");
    assert_eq!(code, exit::DONE);
    assert!(text.contains("orders_5  0       2"), "{text}");
    assert!(
        text.contains("before (orders version 1): heaviest 1.00 of the mean, lightest 1.00"),
        "{text}"
    );
    assert!(
        std::fs::read_to_string(svg)
            .unwrap()
            .contains("orders version 2")
    );
    let (code, text) = files.run("simulate @four.rule --synthetic 1000 --json");
    assert_eq!(code, exit::DONE);
    assert!(
        text.contains("{\"after\":null,\"before\":250,\"place\":\"orders_0\"}"),
        "{text}"
    );
}

#[test]
fn r22_r23_a_cache_changes_in_steps_and_each_tells_its_misses() {
    let files = Files::new();
    let cache = |name: &str, slots: u32| {
        files.write(
            name,
            &format!(
                "cache rule c version {slots}; field user_id: i64; dimension n 0 to 7; else (user_id % {slots}); place table \"c{{n}}\";"
            ),
        );
    };
    cache("c4.rule", 4);
    cache("c8.rule", 8);
    let run = |more: &str| {
        let (code, text) = files.run(&format!(
            "simulate @c4.rule --new @c8.rule --steps 10 {more} --json"
        ));
        assert_eq!(code, exit::DONE, "{text}");
        let lines = text.lines().map(|it| serde_json::from_str(it).unwrap());
        lines.collect::<Vec<serde_json::Value>>()
    };
    let misses = |steps: &[serde_json::Value]| -> Vec<u64> {
        steps
            .iter()
            .map(|it| it["misses"].as_u64().unwrap())
            .collect()
    };
    let found = misses(&run("--synthetic 2000"));
    assert_eq!((found.len(), found[0]), (11, 2_000));
    // Half of all move, a tenth of those in each step.
    assert!(
        found[1..].iter().all(|it| (60..=140).contains(it)),
        "{found:?}"
    );
    assert_eq!(found[1..].iter().sum::<u64>(), 1_000);
    let steps = run("--synthetic 2000 --old-owner");
    assert_eq!(misses(&steps)[1..], [0; 10]);
    assert!(steps[1]["former"].as_u64() > Some(0));
    // Nodes that hold few keys forget; a file's counts are reads.
    assert_eq!(misses(&run("--synthetic 2000 --keys 10")), [2_000; 11]);
    let steps = run("@orders.csv --count size");
    assert_eq!(
        (steps[0]["reads"].as_u64(), misses(&steps)[0]),
        (Some(78), 12)
    );
    let (code, text) = files.run("simulate @c4.rule @orders.csv --new @c8.rule --steps 2");
    assert_eq!(code, exit::DONE);
    assert!(text.contains("the worst of the others is step "), "{text}");
    let (code, text) = files.run("simulate @four.rule @orders.csv --new @six.rule --steps 2");
    assert_eq!(code, exit::FOUND);
    assert!(text.contains("only a cache changes in steps"), "{text}");
    let (code, _) = files.run("simulate @c4.rule --new @c8.rule --steps 2");
    assert_eq!(code, exit::USAGE);
}

#[test]
fn plan_proposes_and_applies_nothing() {
    let files = Files::new();
    let (code, text) =
        files.run("plan @four.rule @orders.csv --add c2 --beyond user_id=1000 --json");
    assert_eq!(code, exit::DONE, "{text}");
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(
        (first["moved_load"].as_u64(), first["version"].as_u64()),
        (Some(0), Some(2))
    );
    cadastre_sharding::parse(first["text"].as_str().unwrap()).unwrap();
    // R16: without a bound, the field that grows in the records has one.
    let (_, text) = files.run("plan @four.rule @orders.csv --add c2 --json");
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["moved_load"].as_u64(), Some(0), "{text}");
    assert!(
        first["text"].as_str().unwrap().contains("user_id >= 12"),
        "{text}"
    );
    files.write("falls.csv", "user_id,name\n5,a\n3,b\n");
    for records in ["@falls.csv", ""] {
        let (_, text) = files.run(format!("plan @four.rule --add c2 {records}").trim_end());
        assert!(text.contains("With --beyond FIELD=VALUE"), "{text}");
    }
    // One seller has most rows of a slot that is hot.
    let rows: String = (0..100)
        .map(|id| format!("{},x\n", if id % 2 == 0 { 7 } else { id }))
        .collect();
    files.write("hot.csv", &format!("user_id,name\n{rows}"));
    let (code, text) = files.run("plan @four.rule @hot.csv --to c9");
    assert_eq!(code, exit::DONE, "{text}");
    assert!(
        text.contains("user_id == 7") && text.contains("cluster \"c9\""),
        "{text}"
    );
    // 50 of the even numbers and one of the odd ones are 7.
    assert!(
        text.contains("# 1 slots move, 51 of what was counted at most"),
        "{text}"
    );
    let (code, text) = files.run("plan @four.rule @orders.csv --to c9");
    assert_eq!(
        (code, text.as_str()),
        (exit::DONE, "no slot is hot: there is nothing to propose\n")
    );
}

/// The plans' titles, and what is said beside them.
fn titles(text: &str) -> Vec<String> {
    let lines = text.lines().map(|it| serde_json::from_str(it).unwrap());
    lines
        .map(|it: serde_json::Value| {
            let title = it["title"].as_str().or(it["why"].as_str());
            title.unwrap_or("?").to_owned()
        })
        .collect()
}

#[test]
fn r36_a_hot_slot_that_no_key_makes_hot_moves_or_is_split() {
    let files = Files::new();
    files.write("counts.csv", "shard,count\n0,10\n1,10\n2,500\n3,10\n");
    let (code, text) = files.run("plan @four.rule --slots @counts.csv --to c9 --json");
    assert_eq!(code, exit::DONE, "{text}");
    assert_eq!(titles(&text), ["slot 2 moves to c9", "slot 2 is split"]);
    assert!(text.contains("\"moved_load\":500"), "{text}");
    // Where it is alone already, and where nothing can be split.
    let alone = FOUR.replace("place table", "place cluster \"c{shard}\" table");
    files.write("alone.rule", &alone);
    let (_, text) = files.run("plan @alone.rule --slots @counts.csv --to c9 --json");
    assert_eq!(titles(&text), ["slot 2 is split"]);
    let (_, text) = files.run("plan @script.rule --slots @counts.csv --to c9 --json");
    let found = titles(&text);
    assert!(found[0].contains("cannot be continued"), "{found:?}");
    assert_eq!(found[1..], ["slot 2 moves to c9"]);
    for (name, bad, message) in [
        ("a.csv", "slot,count\n", "names no column 'shard'"),
        ("b.csv", "shard,count\n4,1\n", "line 2: [4] is no slot"),
        ("c.csv", "shard,count\nx,1\n", "line 2: 'x' is no number"),
    ] {
        files.write(name, bad);
        let (code, text) = files.run(&format!("plan @four.rule --slots @{name} --to c9"));
        assert_eq!(code, exit::USAGE);
        assert!(text.contains(message), "{text}");
    }
}

#[test]
fn r36_what_a_prefix_of_row_keys_makes_hot_is_isolated() {
    let files = Files::new();
    files.write(
        "keys.rule",
        "rule k version 1; field shop: i64; field item: i64; field x: bytes; key decimal shop \"|\", decimal item \"|\", rest x; \
         dimension s 0 to 7; else (shop % 8); place table \"t_{s}\";",
    );
    files.write("hot.keys", "3|5|a\t900\n3|6|a\t300\n3|7|b\n1|1|a\n");
    let plan = |more: &str| {
        let (code, text) = files.run(&format!("plan @keys.rule @hot.keys {more} --to c9 --json"));
        assert_eq!(code, exit::DONE, "{text}");
        text
    };
    // By the field that the slot depends on, by two of them, and by less than one.
    let text = plan("--format keys");
    assert_eq!(titles(&text), ["shop 3 alone"]);
    assert!(text.contains("\"moved_load\":1201"), "{text}");
    let text = plan("--format keys --prefix 4");
    assert_eq!(titles(&text), ["shop 3, item 5 alone"]);
    assert!(text.contains("\"moved_load\":900"), "{text}");
    let (code, text) = files.run("plan @keys.rule @hot.keys --format keys --prefix 1 --to c9");
    assert_eq!(code, exit::USAGE);
    assert!(text.contains("hold no whole field"), "{text}");
}

#[test]
fn r15_what_moves_nothing_comes_first_or_what_it_lacks() {
    let files = Files::new();
    for rule in ["@four.rule", "@script.rule"] {
        let (code, text) = files.run(&format!("plan {rule} --add c2"));
        assert_eq!(code, exit::DONE, "{text}");
        assert!(text.starts_with("# No plan moves nothing: "), "{text}");
        assert!(text.contains("# Plan 1 for "), "{text}");
    }
    let (code, text) = files.run("plan @script.rule --add c2 --beyond user_id=100 --json");
    assert_eq!(code, exit::DONE, "{text}");
    assert!(titles(&text)[0].contains("cannot be continued automatically"));
}

#[test]
fn import_prints_rules() {
    let files = Files::new();
    files.write(
        "rule.xml",
        "<beans><bean id=\"t\" class=\"TableRule\"><property name=\"tbRuleArray\" value='\"t_\" + #id,1,8# % 8'/></bean></beans>",
    );
    let (code, text) = files.run("import @rule.xml");
    assert_eq!(code, exit::DONE);
    assert!(
        text.contains("rule t version 1;\nfield id: i64;\n"),
        "{text}"
    );
    assert_eq!(files.run("import @rule.xml --table other").0, exit::FOUND);
    files.write("rule.yaml", "tables: {t: {actualDataNodes: 'x'}}");
    let (code, message) = files.run("import @rule.yaml");
    assert_eq!(code, exit::FOUND);
    assert!(
        message.contains("line 1: 'x' is no data source"),
        "{message}"
    );
    files.write("rule.txt", "");
    assert_eq!(files.run("import @rule.txt").0, exit::USAGE);
}

#[test]
fn bench_measures() {
    let files = Files::new();
    let (code, text) = files.run("bench @four.rule @orders.csv --seconds 1 --json");
    assert_eq!(code, exit::DONE);
    assert!(text.contains("\"records\":12"), "{text}");
}

#[test]
fn help_teaches_with_an_example_each() {
    use clap::CommandFactory as _;
    let mut command = Cli::command();
    for sub in command.get_subcommands_mut() {
        if sub.is_hide_set() {
            continue;
        }
        let help = sub.render_long_help().to_string();
        assert!(
            help.contains("Example") && help.contains("cadastre rule"),
            "{}",
            sub.get_name()
        );
        assert!(help.contains("Exit codes"), "{}", sub.get_name());
    }
}
