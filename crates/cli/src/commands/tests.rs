//! Arguments, exit codes and help. What the commands do is tested against a whole server, in the crate's integration tests.

use cadastre_types::{Qualifiers, TimeRange};
use clap::{CommandFactory, Parser};

use super::arguments::{Column, column, family, full_column, key_value, time_range};
use super::*;

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn parse(line: &str) -> Result<Command, clap::Error> {
    let words = std::iter::once("cadastre").chain(line.split(' '));
    Cli::try_parse_from(words).map(|cli| cli.command)
}

#[test]
fn clap_is_content() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_has_an_example_and_the_exit_codes() {
    fn check(command: &mut clap::Command) {
        command
            .get_subcommands_mut()
            .filter(|sub| sub.get_name() != "help")
            .for_each(check);
        let name = command.get_name().to_owned();
        let help = command.render_long_help().to_string();
        assert!(help.contains("Example"), "{name}");
        assert!(help.contains("Exit codes: 0 done"), "{name}");
    }
    // Groups of commands, too; the program itself has its help elsewhere.
    Cli::command().get_subcommands_mut().for_each(check);
}

#[test]
fn lines_of_the_manual_parse() {
    for line in [
        "table create t1 f",
        "table create ns:t2 f:VERSIONS=3,TTL=86400 g --splits g,p,\\xC0 --attribute DURABILITY=ASYNC_WAL",
        "table list --system --json",
        "table describe t1",
        "table drop t1 --force",
        "put t1 row1 f:name Ada f:age \\x00\\x00\\x00\\x24 --timestamp 5",
        "get t1 row1 f f:name --versions 3 --time-range 1..",
        "delete t1 row1 f:name --one-version",
        "scan t1 --start g --stop p --limit 10 --column f:q --reversed",
        "count t1 --prefix user-",
        "table alter t1 f:VERSIONS=5 h --drop-family g --attribute DURABILITY=ASYNC_WAL --unset X",
        "table truncate t1 --force --keep-splits",
        "table flush t1",
        "table compact t1 --family f --major",
        "table move t1 row1 --to host2,16020,1700000000000",
        "table balance --dry-run",
        "namespace create sales --set owner=kim",
        "namespace list --json",
        "namespace describe sales",
        "namespace alter sales --set owner=lee --unset note",
        "namespace drop sales",
        "incr t1 page-1 f:visits",
        "incr t1 page-1 f:visits -5",
        "append t1 row1 f:log \\x20again",
        "locate t1 row1 row2 --reload",
        "locate t1 --json",
        "meta",
        "meta t1 --check",
        "dump t1",
        "dump t1 --output t1.csv --columns row,f:name,f:age --resume",
        "dump t1 -o t1.jsonl --versions 3 --time-range 1.. --prefix a --force",
        "load t1 t1.jsonl",
        "load t1 people.csv --columns row,f:name,-,f:age --null NULL --plain --timestamp 5",
        "load t1 - --columns row,f:a --format csv --batch 10 --in-flight 1",
        "status --zookeeper zk1:2181,zk2:2181 --timeout 5",
        "status --bootstrap h:16000",
    ] {
        parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

#[test]
fn mistakes_are_refused_with_clap_s_code() {
    for line in [
        "table create t1",
        "table create bad/name f",
        "table create t1 :VERSIONS=3",
        "table create t1 f:VERSIONS",
        "put t1 row1",
        "put t1 row1 f:q",
        "put t1 r\\x0 f:q v",
        "get t1 row1 --versions 0",
        "get t1 row1 --time-range 5..5",
        "scan t1 --prefix a --start b",
        "table move t1 row1 --to host2",
        "namespace create",
        "incr t1 row1",
        "incr t1 row1 f:q x",
        "locate",
        "dump t1 --resume",
        "dump t1 --columns :a",
        "dump t1 --output x --resume --force",
        "load t1",
        "load t1 x --resume --restart",
        "load t1 x --batch 0",
        "status --zookeeper nohost",
        "status --zookeeper a:1 --bootstrap b:1",
        "status --timeout 0",
    ] {
        let error = parse(line).expect_err(line);
        assert_eq!(error.exit_code(), i32::from(exit::REFUSED), "{line}");
    }
}

#[test]
fn columns_and_families_are_read() {
    let bytes = |text: &str| bytes::Bytes::copy_from_slice(text.as_bytes());
    let qualifier = |text: &str| column(text).unwrap().qualifier;
    assert_eq!(qualifier("f"), None);
    assert_eq!(qualifier("f:"), Some(bytes("")));
    assert_eq!(qualifier("f:a:b"), Some(bytes("a:b")));
    assert!(column(":q").is_err());
    assert_eq!(full_column("f:q").unwrap(), (bytes("f"), bytes("q")));
    assert!(full_column("f").is_err());
    let read = family("f:versions=3,TTL=60").unwrap();
    assert_eq!((read.max_versions(), read.ttl_ms()), (3, Some(60_000)));
    assert_eq!(key_value("a=b=c").unwrap(), ("a".into(), "b=c".into()));
    let all = ["f:a", "f", "f:b", "g:c"].map(|text| column(text).unwrap());
    let query = super::arguments::QueryArgs::for_tests().query(&all);
    assert_eq!(query.columns[&bytes("f")], Qualifiers::All);
    assert!(matches!(&query.columns[&bytes("g")], Qualifiers::These(these) if these.len() == 1));
    let none: [Column; 0] = [];
    assert!(
        super::arguments::QueryArgs::for_tests()
            .query(&none)
            .columns
            .is_empty()
    );
}

#[test]
fn ranges_are_read() {
    assert_eq!(time_range("..").unwrap(), TimeRange::ALL);
    assert_eq!(time_range("5..9").unwrap(), TimeRange { from: 5, to: 9 });
    for bad in ["", "5", "9..5", "-1..5", "a..b"] {
        assert!(time_range(bad).is_err(), "{bad}");
    }
}

#[test]
fn columns_of_text_are_aligned_and_json_is_one_line() {
    let mut out = Vec::new();
    let mut output = Output::new(&mut out, false);
    let row = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    output.table(&[row(&["a", "bbb", "c"]), row(&["dddd", "e", "f"])]);
    output.end().unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "a     bbb  c\ndddd  e    f\n"
    );
    let cell = cadastre_types::Cell::put(
        bytes::Bytes::from_static(b"r\0"),
        bytes::Bytes::from_static(b"f"),
        bytes::Bytes::from_static(b"q"),
        7,
        bytes::Bytes::from_static(b"\x01v"),
    );
    assert_eq!(
        output::row_json(&[cell]).to_string(),
        r#"{"cells":[{"column":"f:q","timestamp":7,"value":"\\x01v"}],"row":"r\\x00"}"#
    );
}

#[test]
fn exit_codes_follow_what_the_caller_can_do() {
    let code = |code| exit_code(&Error::new(code, ""));
    assert_eq!(code(Code::TableNotFound), exit::REFUSED);
    assert_eq!(code(Code::NotSent), exit::FAILED);
    assert_eq!(code(Code::OutcomeUnknown), exit::FAILED);
    assert_eq!(code(Code::RequestTooBig), exit::REFUSED);
}
