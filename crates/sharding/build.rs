//! Generates the parser from `src/text/grammar.lalrpop`.

fn main() {
    if let Err(error) = lalrpop::Configuration::new()
        .use_cargo_dir_conventions()
        .emit_rerun_directives(true)
        .process()
    {
        panic!("src/text/grammar.lalrpop: {error}");
    }
}
