//! TDDL's rules: Spring beans in XML, bodies in Groovy (rules-and-migration.md, B1).
//!
//! Must not know how a rule's text is put together.

use roxmltree::{Document, Node, ParsingOptions};

use super::emit::{self, Naming};
use super::translate::{Alternative, ColumnType, Piece, Translator};
use super::{Import, ImportError, Imported, Options, Warning, bounded, groovy, limits};

/// Properties of a table that say nothing of where its rows are.
const HARMLESS: &[&str] = &["joinGroup", "dbType"];

/// Properties that say what becomes of a query that no column bounds.
const FULL_SCAN: &[&str] = &["allowFullTableScan", "disableFullTableScan"];

/// Reads TDDL's XML.
///
/// # Errors
/// What is no XML, too large, or cannot be imported, with its line.
pub fn tddl(xml: &str, options: &Options) -> Result<Import, ImportError> {
    bounded(xml)?;
    let parsing = ParsingOptions {
        // Spring's documents name a DTD; none is ever fetched.
        allow_dtd: true,
        nodes_limit: limits::NODES_MAX,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(xml, parsing)
        .map_err(|fault| ImportError::new(fault.pos().row, format!("no XML: {fault}")))?;
    depth(document.root_element())?;
    let beans: Vec<Node<'_, '_>> = document
        .descendants()
        .filter(|node| node.has_tag_name("bean"))
        .collect();
    let root = beans
        .iter()
        .find(|bean| class(**bean) == "VirtualTableRoot");
    let mut import = Import::default();
    for bean in &beans {
        match class(*bean) {
            "VirtualTableRoot" => {}
            "TableRule" | "TddlTableRule" | "ShardRule" => {
                let table = table_name(*bean, root.copied());
                import.rules.push(table_rule(*bean, &table, options)?);
            }
            other => import.warnings.push(Warning {
                line: line(*bean),
                message: format!("the bean of class {other} is no table's rule and left out"),
            }),
        }
    }
    if import.rules.is_empty() {
        return Err(ImportError::new(1, "no bean is a table's rule"));
    }
    Ok(import)
}

/// Refuses what is nested without reason: the walk over elements below recurses by the library's own tree only.
fn depth(root: Node<'_, '_>) -> Result<(), ImportError> {
    for node in root.descendants() {
        if node.ancestors().take(limits::DEPTH_MAX + 1).count() > limits::DEPTH_MAX {
            let message = format!("deeper than {} elements", limits::DEPTH_MAX);
            return Err(ImportError::new(line(node), message));
        }
    }
    Ok(())
}

fn line(node: Node<'_, '_>) -> u32 {
    node.document().text_pos_at(node.range().start).row
}

/// The class without its package.
fn class<'a>(bean: Node<'a, '_>) -> &'a str {
    let class = bean.attribute("class").unwrap_or_default();
    class.rsplit('.').next().unwrap_or(class)
}

/// The logical table: the key under which the root knows the bean, or the bean's own name.
fn table_name(bean: Node<'_, '_>, root: Option<Node<'_, '_>>) -> String {
    let id = bean.attribute("id").unwrap_or_default();
    root.into_iter()
        .flat_map(|root| root.descendants())
        .filter(|node| node.has_tag_name("entry"))
        .find(|entry| entry.attribute("value-ref") == Some(id))
        .and_then(|entry| entry.attribute("key"))
        .unwrap_or(id)
        .to_owned()
}

/// A text and the line it begins in.
type Text<'a> = (u32, &'a str);

/// What of a bean's properties concerns us.
#[derive(Default)]
struct Properties<'a> {
    db_pattern: Option<Text<'a>>,
    tb_pattern: Option<Text<'a>>,
    db_rules: Vec<Text<'a>>,
    tb_rules: Vec<Text<'a>>,
    /// Whether all tables may be visited, and the line that says so.
    full_scan: Option<(u32, bool)>,
}

fn table_rule(bean: Node<'_, '_>, table: &str, options: &Options) -> Result<Imported, ImportError> {
    let at = line(bean);
    if bean.has_attribute("parent") {
        return Err(ImportError::new(
            at,
            "a bean with a parent cannot be imported",
        ));
    }
    let properties = properties(bean)?;
    let mut translator = Translator::new(options);
    // What names columns in full comes first in the original, too: the database's rule.
    let databases = naming(
        &mut translator,
        "db",
        &properties.db_rules,
        properties.db_pattern,
    )?;
    let tables = naming(
        &mut translator,
        "tb",
        &properties.tb_rules,
        properties.tb_pattern,
    )?;
    if databases.is_none() && tables.is_none() {
        return Err(ImportError::new(
            at,
            format!("the table '{table}' has no rule"),
        ));
    }
    let tables = tables.unwrap_or_else(|| Naming::constant(table));
    remarks(&mut translator, at, &properties);
    emit::rule(
        "TDDL",
        at,
        table,
        translator,
        databases.as_ref(),
        &tables,
        "",
    )
}

/// What TDDL itself gets wrong, of what this table uses (B1).
fn remarks(translator: &mut Translator<'_>, line: u32, properties: &Properties<'_>) {
    let rules = || properties.db_rules.iter().chain(&properties.tb_rules);
    let counted = |text: &str| {
        let mut parameters = text.split('#').skip(1).step_by(2);
        parameters.any(|parameter| parameter.contains(','))
    };
    if rules().any(|(_, text)| counted(text)) {
        translator.warn(
            line,
            "steps and counts of columns are left out: ranges are enumerated exactly here, while there they lose tables \
             when the function has another period (B1, defects 7 and 8; C2)",
        );
    }
    if translator.uses_zone {
        translator.warn(
            line,
            "'<' and '>' on dates are moved by a millisecond there, losing finer times (B1, defect 5); here they are exact",
        );
    }
    if let Some((line, allowed)) = properties.full_scan {
        let (word, policy) = match allowed {
            true => ("allowed", "allow"),
            false => ("refused", "refuse"),
        };
        translator.warn(
            line,
            format!(
                "a query that no column bounds is {word} there; here that is no part of a rule, but of whoever asks: --unbounded {policy} \
                 (warn without it)"
            ),
        );
    }
    conditions(translator, line);
    translator.warn(
        line,
        "the rule is Groovy there, which may do anything and takes any time (B1, defect 9); here only what it computes, bounded",
    );
    translator.warn(
        line,
        "a null column throws in the request there (B1, defect 10); here such a record is refused, unless the field says \
         otherwise",
    );
}

/// How conditions are read there (B1, defect 6).
fn conditions(translator: &mut Translator<'_>, line: u32) {
    let mut faults = vec!["\"and\" joins two terms only"];
    let has = |ty| translator.columns.values().any(|it| *it == ty);
    if has(ColumnType::Text) {
        faults.push("ranges of texts are not read");
    }
    if has(ColumnType::Integer) {
        faults.push("negative numbers of a range are dropped unless a flag is set");
    }
    translator.warn(
        line,
        format!(
            "of conditions, {} there (B1, defect 6); here any are enumerated",
            faults.join(", ")
        ),
    );
}

fn properties<'a>(bean: Node<'a, '_>) -> Result<Properties<'a>, ImportError> {
    let mut found = Properties::default();
    for property in bean.children().filter(Node::is_element) {
        let at = line(property);
        let name = property.attribute("name").unwrap_or_default();
        let values = values(property);
        match name {
            "dbNamePattern" => found.db_pattern = values.first().copied(),
            "tbNamePattern" => found.tb_pattern = values.first().copied(),
            "dbRules" | "dbRuleArray" => found.db_rules = values,
            "tbRules" | "tbRuleArray" => found.tb_rules = values,
            "broadcast" if values.iter().any(|(_, text)| text.trim() == "true") => {
                return Err(ImportError::new(
                    at,
                    "a broadcast table is on every database and has no rule",
                ));
            }
            "broadcast" => {}
            name if FULL_SCAN.contains(&name) => {
                let is_set = values.iter().any(|(_, text)| text.trim() == "true");
                found.full_scan = Some((at, is_set == name.starts_with("allow")));
            }
            name if HARMLESS.contains(&name) => {}
            name => {
                return Err(ImportError::new(
                    at,
                    format!("the property '{name}' cannot be imported"),
                ));
            }
        }
    }
    Ok(found)
}

/// The values of a property: of its attribute, of its `value` element, or of a list of them.
fn values<'a>(property: Node<'a, '_>) -> Vec<Text<'a>> {
    if let Some(value) = property.attribute_node("value") {
        let row = property.document().text_pos_at(value.range().start).row;
        return vec![(row, value.value())];
    }
    property
        .descendants()
        .filter(|node| {
            node.is_text()
                && node
                    .parent_element()
                    .is_some_and(|it| it.has_tag_name("value"))
        })
        .filter_map(|node| Some((line(node), node.text()?)))
        .collect()
}

fn naming(
    translator: &mut Translator<'_>,
    prefix: &str,
    rules: &[Text<'_>],
    pattern: Option<Text<'_>>,
) -> Result<Option<Naming>, ImportError> {
    let Some((at, text)) = rules.first() else {
        return Ok(pattern.map(|(_, name)| Naming::constant(name.trim())));
    };
    if let Some((second, _)) = rules.get(1) {
        translator.warn(
            *second,
            "further rules of the list are left out: there they place queries that lack a column, here conditions are enumerated",
        );
    }
    let expression = groovy::parse(text, *at)?;
    let names = translator.names(&expression)?;
    let names = match pattern {
        Some((line, pattern)) => patterned(line, pattern.trim(), names)?,
        None => names,
    };
    Naming::new(prefix, *at, &names).map(Some)
}

/// Puts the numbers that a rule gives into a name with a placeholder, `table_{0000}`.
fn patterned(
    line: u32,
    pattern: &str,
    names: Vec<Alternative>,
) -> Result<Vec<Alternative>, ImportError> {
    let placed = pattern.split_once('{').and_then(|(before, rest)| {
        let (zeroes, after) = rest.split_once('}')?;
        let fits = !zeroes.is_empty() && zeroes.len() <= 18 && zeroes.bytes().all(|it| it == b'0');
        fits.then_some((before, zeroes.len(), after))
    });
    let Some((before, width, after)) = placed else {
        return Err(ImportError::new(
            line,
            format!("the pattern '{pattern}' has no placeholder of zeroes such as {{0000}}"),
        ));
    };
    names
        .into_iter()
        .map(|name| match name.pieces.as_slice() {
            [Piece::Number(number, written)] if written == "{@}" => Ok(Alternative {
                condition: name.condition,
                pieces: [
                    text_piece(before),
                    vec![Piece::Number(number.clone(), format!("{{@:{width}}}"))],
                    text_piece(after),
                ]
                .concat(),
            }),
            _ => Err(ImportError::new(
                line,
                format!("the pattern '{pattern}' needs a rule that gives a number"),
            )),
        })
        .collect()
}

fn text_piece(text: &str) -> Vec<Piece> {
    if text.is_empty() {
        Vec::new()
    } else {
        vec![Piece::Text(text.to_owned())]
    }
}
