//! Generates `wire::pb` from our own `.proto` files with a compiler written in Rust, so that no `protoc` is needed, and beside it
//! the table from which `wire` checks a message before it decodes it: what it takes in memory, and that its required fields are there.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new("proto");
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed=build.rs");
    let mut files = Vec::new();
    for folder in FOLDERS {
        for entry in std::fs::read_dir(root.join(folder))? {
            files.push(entry?.path());
        }
    }
    files.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "proto")
    });
    files.sort();
    let descriptors = protox::compile(&files, [root])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("shapes.rs"), shapes(&descriptors)?)?;
    prost_build::Config::new()
        .bytes(["."])
        .btree_map(["."])
        .enable_type_names()
        .compile_fds(descriptors)?;
    Ok(())
}

/// Where the files lie, below `proto`.
const FOLDERS: &[&str] = &["", "hadoop"];

/// Package and message by full name.
type Messages<'a> = BTreeMap<String, (&'a str, &'a DescriptorProto)>;

fn collect<'a>(
    package: &'a str,
    scope: &str,
    message: &'a DescriptorProto,
    into: &mut Messages<'a>,
) {
    let name = format!("{scope}.{}", message.name());
    for nested in &message.nested_type {
        collect(package, &name, nested, into);
    }
    into.insert(name, (package, message));
}

/// The table as Rust source: messages in the order of their names, each with its size in memory and the fields that make it grow
/// or that it must have.
fn shapes(descriptors: &FileDescriptorSet) -> Result<String, std::fmt::Error> {
    let mut messages = Messages::new();
    for file in &descriptors.file {
        for message in &file.message_type {
            let package = file.package();
            collect(package, &format!(".{package}"), message, &mut messages);
        }
    }
    let index: BTreeMap<&String, usize> = messages.keys().zip(0..).collect();
    let mut source = String::from("static SHAPES: &[Shape] = &[\n");
    for (name, (package, message)) in &messages {
        let size = size(message, &messages);
        // Nested messages keep the name of the outer one before theirs.
        let name = &name[package.len() + 2..];
        writeln!(
            source,
            "Shape {{ package: {package:?}, name: {name:?}, size: {size}, fields: &["
        )?;
        assert!(
            message.field.len() <= 64,
            "wire keeps one bit for each field"
        );
        for field in &message.field {
            let required = field.label() == Label::Required;
            let growth = growth(field, &index);
            if !required && growth == "Growth::None" {
                continue;
            }
            let (number, name) = (field.number(), field.name());
            writeln!(
                source,
                "Field {{ number: {number}, name: {name:?}, required: {required}, growth: {growth} }},"
            )?;
        }
        source.push_str("] },\n");
    }
    source.push_str("];\n");
    Ok(source)
}

fn growth(field: &FieldDescriptorProto, index: &BTreeMap<&String, usize>) -> String {
    let repeated = field.label() == Label::Repeated;
    match field.r#type() {
        Type::Message => {
            let index = index[&field.type_name().to_owned()];
            format!("Growth::Message {{ index: {index}, repeated: {repeated} }}")
        }
        Type::String => format!("Growth::Text {{ repeated: {repeated} }}"),
        Type::Bytes if repeated => "Growth::Bytes".to_owned(),
        Type::Bytes => "Growth::None".to_owned(),
        _ if repeated => "Growth::Numbers".to_owned(),
        _ => "Growth::None".to_owned(),
    }
}

/// Upper bound of a message's own size in memory, bytes: every field with the room for being absent, and alignment.
fn size(message: &DescriptorProto, messages: &Messages<'_>) -> usize {
    let field = |field: &FieldDescriptorProto| match (field.label(), field.r#type()) {
        (Label::Repeated, _) | (_, Type::String) => 24,
        (_, Type::Bytes) => 40,
        (_, Type::Message) => 8 + size(messages[field.type_name()].1, messages),
        _ => 16,
    };
    message.field.iter().map(field).sum()
}
