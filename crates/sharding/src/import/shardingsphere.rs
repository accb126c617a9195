//! ShardingSphere's rules: YAML with row expressions and named algorithms (version 5's form).
//!
//! Must not know how a rule's text is put together.

use super::emit::{self, Naming, Span};
use super::translate::{ColumnType, Number, Piece, Translator};
use super::yaml::{self, Value, Yaml};
use super::{Import, ImportError, Imported, Options, Warning, bounded};

mod algorithm;
mod row;

use algorithm::Algorithm;

/// Reads ShardingSphere's YAML.
///
/// # Errors
/// What is no YAML, too large, or cannot be imported, with its line.
pub fn shardingsphere(text: &str, options: &Options) -> Result<Import, ImportError> {
    bounded(text)?;
    let document = yaml::parse(text)?;
    let rule = sharding_rule(&document)
        .ok_or_else(|| ImportError::new(document.line, "there is no rule '!SHARDING'"))?;
    let mut import = Import {
        warnings: left_out(&document, rule),
        ..Import::default()
    };
    for (key, value) in rule.entries() {
        match key.as_str() {
            "tables" => {
                for (name, table) in value.entries() {
                    import.rules.push(plain_table(rule, name, table, options)?);
                }
            }
            "autoTables" => {
                for (name, table) in value.entries() {
                    import.rules.push(auto_table(rule, name, table, options)?);
                }
            }
            "shardingAlgorithms" | "defaultDatabaseStrategy" | "defaultTableStrategy" => {}
            other => import.warnings.push(Warning {
                line: value.line,
                message: format!("'{other}' places no rows by rule and is left out"),
            }),
        }
    }
    if import.rules.is_empty() {
        return Err(ImportError::new(rule.line, "there is no table"));
    }
    Ok(import)
}

/// The rule of sharding: tagged in a list of rules, or the document itself.
fn sharding_rule(document: &Yaml) -> Option<&Yaml> {
    if let Some(rules) = document.get("rules")
        && let Value::List(rules) = &rules.value
    {
        return rules
            .iter()
            .find(|rule| rule.tag.as_deref() == Some("SHARDING"));
    }
    let has_tables = document.get("tables").is_some() || document.get("autoTables").is_some();
    has_tables.then_some(document)
}

/// What stands beside the rule of sharding: other rules of the list, and other parts of the document.
fn left_out(document: &Yaml, rule: &Yaml) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |line, what: String| {
        let message = format!("{what} places no rows by rule and is left out");
        warnings.push(Warning { line, message });
    };
    if std::ptr::eq(document, rule) {
        return warnings;
    }
    for (key, value) in document.entries() {
        match &value.value {
            Value::List(rules) if key == "rules" => {
                for other in rules.iter().filter(|it| !std::ptr::eq(*it, rule)) {
                    match other.tag.as_deref() {
                        Some("SHARDING") => warn(other.line, "a second '!SHARDING'".to_owned()),
                        Some(tag) => warn(other.line, format!("the rule '!{tag}'")),
                        None => warn(other.line, "a rule without a tag".to_owned()),
                    }
                }
            }
            _ => warn(value.line, format!("'{key}'")),
        }
    }
    warnings
}

/// How a strategy places: by which columns, by which algorithm; `None` for the strategy `none`.
struct Strategy<'a> {
    line: u32,
    columns: Vec<&'a str>,
    algorithm: Algorithm<'a>,
}

fn strategy<'a>(rule: &'a Yaml, of: &'a Yaml) -> Result<Option<Strategy<'a>>, ImportError> {
    let Some((kind, body)) = of.entries().first() else {
        return Err(ImportError::new(of.line, "a strategy is empty"));
    };
    let columns = match kind.as_str() {
        "none" => return Ok(None),
        "standard" => vec![body.text_of("shardingColumn")?],
        "complex" => body
            .text_of("shardingColumns")?
            .split(',')
            .map(str::trim)
            .collect(),
        other => {
            return Err(ImportError::new(
                of.line,
                format!("the strategy '{other}' cannot be imported"),
            ));
        }
    };
    let name = body.text_of("shardingAlgorithmName")?;
    let algorithm = rule
        .get("shardingAlgorithms")
        .and_then(|all| all.get(name))
        .ok_or_else(|| ImportError::new(body.line, format!("there is no algorithm '{name}'")))?;
    Ok(Some(Strategy {
        line: body.line,
        columns,
        algorithm: Algorithm::read(algorithm)?,
    }))
}

fn plain_table(
    rule: &Yaml,
    name: &str,
    table: &Yaml,
    options: &Options,
) -> Result<Imported, ImportError> {
    let mut translator = Translator::new(options);
    let nodes = data_nodes(table, name)?;
    let strategy_of = |key: &str, default: &str| match table.get(key).or_else(|| rule.get(default))
    {
        Some(of) => strategy(rule, of),
        None => Ok(None),
    };
    let mut definitions = String::new();
    let mut naming = |strategy: Option<Strategy<'_>>,
                      prefix: &str,
                      names: Vec<String>,
                      what: &str| match (strategy, names.as_slice()) {
        (Some(strategy), _) => {
            by_strategy(&mut translator, &mut definitions, &strategy, prefix, &names)
        }
        (None, [only]) => Ok(Naming::constant(only)),
        (None, _) => Err(ImportError::new(
            table.line,
            format!("the table '{name}' has several {what} and no strategy that chooses one"),
        )),
    };
    let databases = naming(
        strategy_of("databaseStrategy", "defaultDatabaseStrategy")?,
        "db",
        distinct(nodes.iter().map(|it| &it.0)),
        "data sources",
    )?;
    let tables = naming(
        strategy_of("tableStrategy", "defaultTableStrategy")?,
        "tb",
        distinct(nodes.iter().map(|it| &it.1)),
        "tables",
    )?;
    emit::rule(
        "ShardingSphere",
        table.line,
        name,
        translator,
        Some(&databases),
        &tables,
        &definitions,
    )
}

/// Tables that ShardingSphere names and deals out itself: number i is `name_i`, on data source i modulo their count.
fn auto_table(
    rule: &Yaml,
    name: &str,
    table: &Yaml,
    options: &Options,
) -> Result<Imported, ImportError> {
    let mut translator = Translator::new(options);
    let sources = row::expand(table.line, table.text_of("actualDataSources")?)?;
    let of = table
        .get("shardingStrategy")
        .ok_or_else(|| ImportError::new(table.line, "'shardingStrategy' is missing"))?;
    let strategy = strategy(rule, of)?
        .ok_or_else(|| ImportError::new(of.line, "an automatic table needs a strategy"))?;
    let mut definitions = String::new();
    let column = only_column(&strategy)?;
    let number = strategy
        .algorithm
        .number(&mut translator, &mut definitions, column, "tb_of")?;
    let pieces = vec![
        Piece::Text(format!("{name}_")),
        Piece::Number(number.clone(), "{@}".to_owned()),
    ];
    let alternative = super::translate::Alternative {
        condition: None,
        pieces,
    };
    let mut tables = Naming::new("tb", strategy.line, &[alternative])?;
    let databases = deal_out(&sources, &number, &mut tables);
    emit::rule(
        "ShardingSphere",
        table.line,
        name,
        translator,
        Some(&databases),
        &tables,
        &definitions,
    )
}

/// The data sources' names by the number of the table.
fn deal_out(sources: &[String], number: &Number, tables: &mut Naming) -> Naming {
    if let [only] = sources {
        return Naming::constant(only);
    }
    let count = sources.len();
    if let Some((prefix, 0)) = numbered(sources).map(|(prefix, _, first)| (prefix, first)) {
        return Naming {
            axes: Vec::new(),
            spans: vec![Span {
                slots: Vec::new(),
                template: format!("{}{{tb % {count}}}", emit::escaped(prefix)),
            }],
        };
    }
    // Names without a form: a line for each table, whose template then holds the data source, too.
    let template = tables
        .spans
        .first()
        .map(|span| span.template.clone())
        .unwrap_or_default();
    tables.spans.clear();
    let mut databases = Naming::default();
    for (at, slot) in (number.low..=number.high).enumerate() {
        // Bounded by the dimension's own bounds.
        let slot = slot as i64;
        databases.spans.push(Span {
            slots: vec![(slot, slot)],
            template: emit::escaped(&sources[at % count]),
        });
    }
    tables.spans.push(Span {
        slots: Vec::new(),
        template,
    });
    databases
}

fn only_column<'a>(strategy: &Strategy<'a>) -> Result<&'a str, ImportError> {
    match strategy.columns.as_slice() {
        [only] => Ok(only),
        _ => Err(ImportError::new(
            strategy.line,
            format!(
                "the algorithm {} of several columns cannot be imported",
                strategy.algorithm.kind
            ),
        )),
    }
}

fn by_strategy(
    translator: &mut Translator<'_>,
    definitions: &mut String,
    strategy: &Strategy<'_>,
    prefix: &str,
    names: &[String],
) -> Result<Naming, ImportError> {
    let algorithm = &strategy.algorithm;
    if let Some((line, expression)) = algorithm.inline()? {
        let alternatives = row::names(translator, line, expression)?;
        return Naming::new(prefix, line, &alternatives);
    }
    let column = only_column(strategy)?;
    if algorithm.kind == "INTERVAL" {
        return algorithm.interval(translator, column, prefix, names);
    }
    let number = algorithm.number(translator, definitions, column, &format!("{prefix}_of"))?;
    let Some((before, width, first)) = numbered(names) else {
        return Err(ImportError::new(
            strategy.line,
            format!(
                "the names {} do not end in numbers one after the other",
                names.join(", ")
            ),
        ));
    };
    if first != 0 || i128::try_from(names.len()).ok() != Some(number.high + 1) {
        return Err(ImportError::new(
            strategy.line,
            format!(
                "the algorithm {} numbers 0 to {}, the names are others",
                algorithm.kind, number.high
            ),
        ));
    }
    let written = match width {
        Some(width) => format!("{{@:{width}}}"),
        None => "{@}".to_owned(),
    };
    let alternative = super::translate::Alternative {
        condition: None,
        pieces: vec![
            Piece::Text(before.to_owned()),
            Piece::Number(number, written),
        ],
    };
    Naming::new(prefix, strategy.line, &[alternative])
}

/// What names that differ in a number at their end have in common: what stands before it, its width if it is padded, the
/// first number.
fn numbered(names: &[String]) -> Option<(&str, Option<usize>, u64)> {
    let split = |name: &'_ str| {
        let digits = name.len() - name.trim_end_matches(|it: char| it.is_ascii_digit()).len();
        name.len() - digits
    };
    let first_name = names.first()?;
    let at = split(first_name);
    let prefix = &first_name[..at];
    let first: u64 = first_name[at..].parse().ok()?;
    let width = first_name.len() - at;
    let is_padded = first_name[at..].starts_with('0') && width > 1;
    for (number, name) in (first..).zip(names) {
        let expected = if is_padded {
            format!("{prefix}{number:0width$}")
        } else {
            format!("{prefix}{number}")
        };
        if *name != expected {
            return None;
        }
    }
    Some((prefix, is_padded.then_some(width), first))
}

fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    names.filter(|name| seen.insert(*name)).cloned().collect()
}

/// The pairs of data source and table that a table is said to have.
fn data_nodes(table: &Yaml, name: &str) -> Result<Vec<(String, String)>, ImportError> {
    let nodes = table.get("actualDataNodes").ok_or_else(|| {
        ImportError::new(
            table.line,
            format!("the table '{name}' has no actualDataNodes"),
        )
    })?;
    row::expand(nodes.line, nodes.text()?)?
        .into_iter()
        .map(|node| match node.split_once('.') {
            Some((source, table)) => Ok((source.to_owned(), table.to_owned())),
            None => Err(ImportError::new(
                nodes.line,
                format!("'{node}' is no data source with a table"),
            )),
        })
        .collect()
}

/// A column that is used as a number.
fn integer(
    translator: &mut Translator<'_>,
    line: u32,
    column: &str,
) -> Result<String, ImportError> {
    translator.column(line, column, ColumnType::Integer)
}
